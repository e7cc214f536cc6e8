// POST /v1/completions: raw prompts, as text or as token ids, one or several, continued as they stand.
#include <algorithm>

#include "server/endpoints/common.h"

namespace headrace::server {
namespace {

constexpr int32_t kDefaultMaxTokens = 16;  // OpenAI's

Result<std::vector<int32_t>> ids_of(const Backend& backend, const Prompt& prompt, bool allow_special) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  return backend.encode_raw(std::get<std::string>(prompt), {.allow_special = allow_special});
}

// The prompt as echo repeats it.
std::string text_of(const Backend& backend, const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return backend.tokenizer().decode(std::get<std::vector<int32_t>>(prompt), false);
}

}  // namespace

void handle_completions(ServerContext& context, const HttpRequest& request,
                        std::shared_ptr<Responder> responder) {
  Backend& backend = context.backend;
  auto parsed = parse_completion_request(request.body, parse_limits(backend));
  if (!parsed) return responder->send(parsed.error().response());
  if (auto wrong = resolve_fields(context, parsed->fields)) return responder->send(wrong->response());

  const GenerationFields& fields = parsed->fields;
  GenerationJob job = make_job(fields);
  std::vector<CompletionPrompt> prompts;
  for (const Prompt& prompt : parsed->prompts) {
    auto ids = ids_of(backend, prompt, parsed->allow_special);
    if (!ids) return responder->send(ApiError::from(ids.error(), "prompt").response());
    CompletionPrompt before;
    if (parsed->echo) before.echo_text = text_of(backend, prompt);
    const bool scored = parsed->echo && fields.logprobs && !ids->empty();
    if (scored) before.echo_tokens.push_back({.id = ids->front()});
    if (fields.logprobs && !scored) {
      for (const int32_t id : *ids) before.offsets.next(backend.tokenizer().token_bytes(id));
    }
    prompts.push_back(std::move(before));
    job.requests.push_back(make_request(fields, std::move(*ids), kDefaultMaxTokens));
    engine::Request& last = job.requests.back();
    if (scored) last.prompt_logprobs = std::max(last.prompt_logprobs, *fields.logprobs);
  }
  job.format = make_completion_format(answer_options(context, fields), std::move(prompts));
  start_generation(backend, std::move(responder), std::move(job));
}

}  // namespace headrace::server
