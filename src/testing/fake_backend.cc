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

  // The variables beside messages are written before them as they come.
  Result<text::RenderedPrompt> render_chat(std::string_view messages_json, std::string_view extra_json) const override {
    std::string text(extra_json);
    for (const nlohmann::json& message : nlohmann::json::parse(messages_json)) {
      const auto content = message.value("content", nlohmann::json());
      text += "<" + message.at("role").get<std::string>() + ">" +
              (content.is_string() ? content.get<std::string>() : message.dump()) + "\n";
    }
    return text::RenderedPrompt{text.append(kOpening), {}};
  }
  Result<std::vector<int32_t>> encode_chat(std::string_view messages_json,
                                           const engine::ChatOptions& options) const override {
    HR_ASSIGN_OR_RETURN(const text::RenderedPrompt prompt, render_chat(messages_json, options.extra_json));
    return encode(prompt.text, options.allow_special);
  }
  Result<std::vector<int32_t>> encode_raw(std::string_view prompt, const engine::RawOptions& options) const override {
    return encode(prompt, options.allow_special);
  }

  Result<std::vector<int32_t>> encode_input(std::string_view text) const override {
    return engine::encode_truncated(*tokenizer_, text, limits().max_context);
  }

  Result<engine::RequestId> submit(engine::Request request,
                                   std::shared_ptr<engine::EventSink> sink) override {
    return engine_.submit(std::move(request), std::move(sink));
  }
  void abort(engine::RequestId id, int32_t choice) override { engine_.abort(id, choice); }
  void stop(engine::RequestId id, int32_t choice) override { engine_.stop(id, choice); }
  engine::EngineStats stats() const override { return engine_.stats(); }
  runtime::RunnerMemory memory() const override { return engine_.memory(); }
  void set_observer(std::shared_ptr<engine::EngineObserver> observer) override {
    engine_.set_observer(std::move(observer));
  }

 private:
  Result<std::vector<int32_t>> encode(std::string_view text, bool allow_special) const {
    text::EncodeOptions options;
    options.special = allow_special ? text::SpecialTokens::everywhere : text::SpecialTokens::nowhere;
    HR_ASSIGN_OR_RETURN(text::Encoding encoding, tokenizer_->encode(text, options));
    return std::move(encoding.ids);
  }

  engine::ModelCard card_;
  const std::unique_ptr<text::Tokenizer> tokenizer_ = make_byte_tokenizer();
  engine::Engine engine_;
};

}  // namespace

std::unique_ptr<server::Backend> make_fake_backend(FakeBackendOptions options) {
  return std::make_unique<FakeBackend>(options);
}

}  // namespace headrace::testing
