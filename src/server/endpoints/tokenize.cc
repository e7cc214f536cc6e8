// POST /tokenize, /detokenize, /apply_template: texts to ids and back, and messages to the prompt that the
// model sees. The fields are those of vLLM's endpoints of these names and of llama.cpp's.
#include <nlohmann/json.hpp>

#include "server/endpoints.h"
#include "server/openai_types.h"
#include "text/utf8.h"

namespace headrace::server {
namespace {

using Json = nlohmann::ordered_json;

std::optional<ApiError> check_named_model(const ServerContext& context, const std::string& model) {
  return model.empty() ? std::nullopt : check_model(context, model);
}

std::string dumped(const Json& body) {
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A piece that is no text of its own is the list of its bytes.
Json piece_of(const text::Tokenizer& tokenizer, int32_t id) {
  const int32_t ids[] = {id};
  std::string bytes = tokenizer.is_special(id) ? tokenizer.decode(ids, false) : tokenizer.token_bytes(id);
  if (text::is_valid_utf8(bytes)) return bytes;
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<uint8_t>(byte));
  return list;
}

}  // namespace

void handle_tokenize(ServerContext& context, const HttpRequest& request,
                     std::shared_ptr<Responder> responder) {
  const auto parsed = parse_tokenize_request(request.body);
  if (!parsed) return responder->send(parsed.error().response());
  if (auto wrong = check_named_model(context, parsed->model)) return responder->send(wrong->response());
  const Backend& backend = context.backend;
  const auto ids =
      parsed->chat
          ? backend.encode_chat(parsed->chat->messages_json,
                                {.extra_json = parsed->chat->extra_json,
                                 .allow_special = parsed->allow_special.value_or(context.allow_special)})
          : backend.encode_raw(parsed->prompt, {.add_special_tokens = parsed->add_special_tokens,
                                                .allow_special = parsed->allow_special.value_or(true)});
  if (!ids) {
    return responder->send(ApiError::from(ids.error(), parsed->chat ? "messages" : "prompt").response());
  }
  Json body = {{"count", ids->size()}, {"max_model_len", backend.limits().max_context}};
  Json tokens = Json::array(), strings = Json::array();
  for (const int32_t id : *ids) {
    tokens.push_back(parsed->with_pieces ? Json{{"id", id}, {"piece", piece_of(backend.tokenizer(), id)}}
                                         : Json(id));
    if (parsed->return_strings) strings.push_back(backend.tokenizer().token_text(id));
  }
  body["tokens"] = std::move(tokens);
  body["token_strs"] = parsed->return_strings ? std::move(strings) : Json();
  responder->send({.body = dumped(body)});
}

void handle_detokenize(ServerContext& context, const HttpRequest& request,
                       std::shared_ptr<Responder> responder) {
  const auto parsed =
      parse_detokenize_request(request.body, {.vocab_size = context.backend.limits().vocab_size});
  if (!parsed) return responder->send(parsed.error().response());
  if (auto wrong = check_named_model(context, parsed->model)) return responder->send(wrong->response());
  const std::string text = context.backend.tokenizer().decode(parsed->tokens, false);
  responder->send({.body = dumped({{"prompt", text}, {"content", text}})});
}

void handle_apply_template(ServerContext& context, const HttpRequest& request,
                           std::shared_ptr<Responder> responder) {
  const auto parsed = parse_template_request(request.body);
  if (!parsed) return responder->send(parsed.error().response());
  if (auto wrong = check_named_model(context, parsed->model)) return responder->send(wrong->response());
  const auto prompt = context.backend.render_chat(parsed->messages_json, parsed->extra_json);
  if (!prompt) return responder->send(ApiError::from(prompt.error(), "messages").response());
  responder->send({.body = dumped({{"prompt", prompt->text}})});
}

}  // namespace headrace::server
