#pragma once
// A random load on a whole engine with a fake runner: requests of all kinds from several threads, some aborted, each answer
// against what the fake model says alone. And a sink that collects the events of one request.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "testing/fake_runner.h"

namespace headrace::testing {

// Collects events; checks that they come in an order that the contract allows.
class CollectingSink : public engine::EventSink {
 public:
  explicit CollectingSink(int32_t choices = 1)
      : tokens_(choices), finish_(choices, engine::FinishReason::none), end_token_(choices, -1), logprobs_(choices) {}
  void on_event(engine::Event event) override;
  // Blocks until the last event, at most 60 seconds. False: it never came.
  bool wait();
  bool wait_for_tokens(size_t count);  // of choice 0

  std::vector<int32_t> tokens(int32_t choice = 0) const;
  engine::FinishReason finish(int32_t choice = 0) const;
  int32_t end_token(int32_t choice = 0) const;
  engine::Event last_event() const;
  std::vector<engine::TokenLogprob> logprobs(int32_t choice = 0) const;
  std::vector<engine::TokenLogprob> prompt_logprobs() const;
  std::string complaint() const;       // what the order of events broke; empty: nothing

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<int32_t>> tokens_;
  std::vector<engine::FinishReason> finish_;
  std::vector<int32_t> end_token_;
  std::vector<std::vector<engine::TokenLogprob>> logprobs_;
  std::vector<engine::TokenLogprob> prompt_logprobs_;
  engine::Event last_;
  bool ended_ = false;
  std::string complaint_;
};

struct LoadOptions {
  uint64_t seed = 0;
  int32_t requests = 200;
  int32_t threads = 2;           // that submit
  FakeModel model;
  engine::EngineConfig config;
  int32_t max_prompt = 100;
  int32_t max_answer = 40;
  int32_t max_choices = 3;
  int32_t max_beams = 5;
  double abort_chance = 0.1;     // of each request, somewhere on its way
};

struct LoadReport {
  std::string failure;  // empty: all went well
  engine::EngineStats stats;
};

LoadReport run_engine_load(const LoadOptions& options);

}  // namespace headrace::testing
