// POST /tokenize and /detokenize: texts to ids and back, as the model sees them.
#include <nlohmann/json.hpp>

#include "server/endpoints.h"
#include "server/openai_types.h"

namespace headrace::server {

void handle_tokenize(ServerContext& context, const HttpRequest& request,
                     std::shared_ptr<Responder> responder) {
  const auto parsed = parse_tokenize_request(request.body);
  if (!parsed) return responder->send(parsed.error().response());
  if (auto wrong = parsed->model.empty() ? std::nullopt : check_model(context, parsed->model)) {
    return responder->send(wrong->response());
  }
  const bool chat = !parsed->messages_json.empty();
  const auto ids = chat ? context.backend.encode_chat(parsed->messages_json, {})
                        : context.backend.encode_raw(parsed->prompt);
  if (!ids) return responder->send(ApiError::from(ids.error(), chat ? "messages" : "prompt").response());
  const nlohmann::ordered_json body = {
      {"tokens", *ids}, {"count", ids->size()}, {"max_model_len", context.backend.limits().max_context}};
  responder->send({.body = body.dump()});
}

void handle_detokenize(ServerContext& context, const HttpRequest& request,
                       std::shared_ptr<Responder> responder) {
  const auto parsed =
      parse_detokenize_request(request.body, {.vocab_size = context.backend.limits().vocab_size});
  if (!parsed) return responder->send(parsed.error().response());
  if (auto wrong = parsed->model.empty() ? std::nullopt : check_model(context, parsed->model)) {
    return responder->send(wrong->response());
  }
  const nlohmann::ordered_json body = {{"prompt", context.backend.tokenizer().decode(parsed->tokens, false)}};
  responder->send({.body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)});
}

}  // namespace headrace::server
