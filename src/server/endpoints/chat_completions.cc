// POST /v1/chat/completions: messages through the model's chat template, answered whole or as a stream.
#include "server/endpoints/common.h"

namespace headrace::server {

void handle_chat_completions(ServerContext& context, const HttpRequest& request,
                             std::shared_ptr<Responder> responder) {
  Backend& backend = context.backend;
  auto parsed = parse_chat_request(request.body, parse_limits(backend));
  if (!parsed) return responder->send(parsed.error().response());
  if (auto wrong = resolve_fields(context, parsed->fields)) return responder->send(wrong->response());
  auto ids = backend.encode_chat(parsed->messages_json,
                                 {.allow_special = parsed->allow_special.value_or(context.allow_special)});
  if (!ids) return responder->send(ApiError::from(ids.error(), "messages").response());

  const GenerationFields& fields = parsed->fields;
  GenerationJob job = make_job(fields);
  // Without a limit of its own an answer may fill the context; the engine cuts it there.
  job.requests.push_back(make_request(fields, std::move(*ids), backend.limits().max_context));
  job.requests.back().starts_text = true;
  job.format = make_chat_format(answer_options(context, fields));
  start_generation(backend, std::move(responder), std::move(job));
}

}  // namespace headrace::server
