#include "testing/fake_backend.h"

#include <nlohmann/json.hpp>

#include "engine/embedding.h"
#include "testing/byte_tokenizer.h"

namespace headrace::testing {
namespace {

constexpr std::string_view kOpening = "<assistant>";

FakeModel model_of(const FakeBackendOptions& options) {
  FakeModel model = options.model;
  if (!options.reply.empty()) {
    // The runner continues any prompt that ends with the script's beginning.
    model.reply = byte_ids(std::string(kOpening) + options.reply);
    model.eos_id = kByteEos;
  }
  return model;
}

class FakeBackend final : public server::Backend {
 public:
  explicit FakeBackend(const FakeBackendOptions& options)
      : engine_(std::make_unique<FakeRunner>(model_of(options)), options.config, {kByteEos}) {
    card_.id = options.name;
    card_.path = options.name;
    card_.vocab_size = options.model.vocab_size;
    card_.max_context = options.model.max_context;
  }

  const engine::ModelCard& card() const override { return card_; }
  const runtime::RunnerLimits& limits() const override { return engine_.limits(); }
  const text::Tokenizer& tokenizer() const override { return *tokenizer_; }

  Result<std::vector<int32_t>> encode_chat(std::string_view messages_json, std::string_view) const override {
    std::string text;
    for (const nlohmann::json& message : nlohmann::json::parse(messages_json)) {
      text +=
          "<" + message.at("role").get<std::string>() + ">" + message.at("content").get<std::string>() + "\n";
    }
    return byte_ids(text.append(kOpening));
  }
  Result<std::vector<int32_t>> encode_raw(std::string_view prompt) const override { return byte_ids(prompt); }

  Result<std::vector<int32_t>> encode_input(std::string_view text) const override {
    return engine::encode_truncated(*tokenizer_, text, limits().max_context);
  }

  Result<engine::RequestId> submit(engine::Request request,
                                   std::shared_ptr<engine::EventSink> sink) override {
    return engine_.submit(std::move(request), std::move(sink));
  }
  void abort(engine::RequestId id, int32_t choice) override { engine_.abort(id, choice); }
  engine::EngineStats stats() const override { return engine_.stats(); }
  runtime::RunnerMemory memory() const override { return engine_.memory(); }
  void set_observer(std::shared_ptr<engine::EngineObserver> observer) override {
    engine_.set_observer(std::move(observer));
  }

 private:
  engine::ModelCard card_;
  const std::unique_ptr<text::Tokenizer> tokenizer_ = make_byte_tokenizer();
  engine::Engine engine_;
};

}  // namespace

std::unique_ptr<server::Backend> make_fake_backend(FakeBackendOptions options) {
  return std::make_unique<FakeBackend>(options);
}

}  // namespace headrace::testing
