// serve(): the Backend over a ServingModel.
#include "base/log.h"
#include "server/server.h"

namespace headrace::server {
namespace {

class ModelBackend final : public Backend {
 public:
  explicit ModelBackend(engine::ServingModel& model) : model_(model) {}

  const engine::ModelCard& card() const override { return model_.card(); }
  const runtime::RunnerLimits& limits() const override { return model_.engine().limits(); }
  const text::Tokenizer& tokenizer() const override { return model_.tokenizer(); }
  Result<text::RenderedPrompt> render_chat(std::string_view messages, std::string_view extra) const override {
    return model_.render_chat(messages, extra);
  }
  Result<std::vector<int32_t>> encode_chat(std::string_view messages,
                                           const engine::ChatOptions& options) const override {
    return model_.encode_chat(messages, options);
  }
  Result<std::vector<int32_t>> encode_raw(std::string_view prompt,
                                          const engine::RawOptions& options) const override {
    return model_.encode_raw(prompt, options);
  }
  Result<std::vector<int32_t>> encode_input(std::string_view text) const override {
    return model_.encode_input(text);
  }
  Result<engine::RequestId> submit(engine::Request request,
                                   std::shared_ptr<engine::EventSink> sink) override {
    return model_.engine().submit(std::move(request), std::move(sink));
  }
  void abort(engine::RequestId id, int32_t choice) override { model_.engine().abort(id, choice); }
  void stop(engine::RequestId id, int32_t choice) override { model_.engine().stop(id, choice); }
  engine::EngineStats stats() const override { return model_.engine().stats(); }
  runtime::RunnerMemory memory() const override { return model_.engine().memory(); }
  void set_observer(std::shared_ptr<engine::EngineObserver> observer) override {
    model_.engine().set_observer(std::move(observer));
  }

 private:
  engine::ServingModel& model_;
};

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

Status serve(engine::ServingModel& model, const ServeOptions& options) {
  if (!model.has_tokenizer()) {
    return make_status(Code::unsupported, "{}: has no tokenizer: it cannot answer text", model.card().path);
  }
  ModelBackend backend(model);
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::create(backend, options));
  if (options.api_key.empty() && !is_loopback(options.host)) {
    log_warning(
        "serving on {} without an API key: everyone who reaches this address can use the model; see "
        "--api-key",
        options.host);
  }
  if (options.on_listening) options.on_listening(server->url());
  server->run();
  model.engine().shutdown();
  return {};
}

}  // namespace headrace::server
