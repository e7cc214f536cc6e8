// `headrace serve`: the model behind an OpenAI-compatible HTTP server.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

#include "cli/terminal.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "server/server.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAbout =
    "headrace serve - answer over HTTP, as OpenAI's API does\n\n"
    "Requests share the model: their tokens advance in one batch. Ctrl-C lets running answers end, a second\n"
    "one does not wait. Endpoints: /v1/chat/completions, /v1/completions, /v1/models, /health, /metrics\n"
    "(Prometheus), and a chat page at /.";
constexpr std::string_view kExamples =
    "  headrace serve model.gguf                              # then open http://127.0.0.1:8000\n"
    "  headrace serve model.gguf --host 0.0.0.0 --port 9000 --api-key \"$KEY\"\n"
    "  headrace serve model.gguf --max-seqs 64 --memory 4GiB\n"
    "  curl http://127.0.0.1:8000/v1/chat/completions -d \\\n"
    "    '{\"model\": \"model\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n";

}  // namespace

Status serve_command(const std::vector<std::string>& args) {
  Options options("serve", kAbout, kExamples);
  ModelOptions model_options;
  server::ServeOptions serve;
  int64_t port = serve.port;
  model_options.declare_model(options);
  options.text(serve.host, "--host", "ADDRESS", "Where to listen; 0.0.0.0 for every interface (127.0.0.1)");
  options.integer(port, "--port", "N", "The port; 0: any free one (8000)", 0, 65535);
  options.text(serve.api_key, "--api-key", "K", "Refuse requests without \"Authorization: Bearer K\" (none is asked for)");
  options.text(model_options.serving.name, "--served-model-name", "NAME",
               "What /v1/models lists and answers carry (MODEL, or its file name without the ending)");
  options.flag(serve.allow_special, "--allow-special",
               "Special tokens written in messages are recognised unless a request says allow_special: false");
  model_options.declare_engine(options);
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  if (options.given("--api-key") && serve.api_key.empty()) {
    return make_status(Code::invalid_argument, "--api-key: want a key, got an empty text");
  }
  serve.port = static_cast<uint16_t>(port);
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<engine::ServingModel> model, open_model(model_options));
  serve.on_listening = [&](const std::string& url) {
    note("{} is ready at {} (loaded in {:.1f} s). Ctrl-C ends it.\n", model->card().id, url,
               model->card().load_seconds);
  };
  return server::serve(*model, serve);
}

}  // namespace headrace::cli
