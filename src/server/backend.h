#pragma once
// What the server needs of a model: texts to ids, requests to an engine, figures. An interface, so that the
// server is tested without weights. Thread-safe.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/serving_model.h"
#include "text/tokenizer.h"

namespace headrace::server {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const engine::ModelCard& card() const = 0;
  virtual const runtime::RunnerLimits& limits() const = 0;
  virtual const text::Tokenizer& tokenizer() const = 0;

  // As ServingModel's.
  virtual Result<text::RenderedPrompt> render_chat(std::string_view messages_json,
                                                   std::string_view extra_json) const = 0;
  virtual Result<std::vector<int32_t>> encode_chat(std::string_view messages_json,
                                                   const engine::ChatOptions& options) const = 0;
  virtual Result<std::vector<int32_t>> encode_raw(std::string_view prompt,
                                                  const engine::RawOptions& options) const = 0;
  virtual Result<std::vector<int32_t>> encode_input(std::string_view text) const = 0;

  // As Engine's.
  virtual Result<engine::RequestId> submit(engine::Request request,
                                           std::shared_ptr<engine::EventSink> sink) = 0;
  virtual void abort(engine::RequestId id, int32_t choice = engine::Engine::kAllChoices) = 0;
  virtual void stop(engine::RequestId id, int32_t choice) = 0;
  virtual engine::EngineStats stats() const = 0;
  virtual runtime::RunnerMemory memory() const = 0;
  virtual void set_observer(std::shared_ptr<engine::EngineObserver> observer) = 0;
};

}  // namespace headrace::server
