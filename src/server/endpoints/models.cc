// GET /v1/models and /v1/models/NAME: what is served.
#include <nlohmann/json.hpp>

#include "server/endpoints.h"

namespace headrace::server {
namespace {

nlohmann::ordered_json describe(const ServerContext& context) {
  return {{"id", context.backend.card().id},
          {"object", "model"},
          {"created", context.started},
          {"owned_by", "headrace"},
          {"max_model_len", context.backend.limits().max_context}};
}

// %41 as A; what is no such escape stays as it is.
std::string url_decode(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace

void handle_models(ServerContext& context, const HttpRequest&, std::shared_ptr<Responder> responder) {
  const nlohmann::ordered_json body = {{"object", "list"}, {"data", {describe(context)}}};
  responder->send({.body = body.dump()});
}

void handle_model(ServerContext& context, const HttpRequest& request, std::shared_ptr<Responder> responder) {
  const std::string name =
      url_decode(std::string_view(request.path).substr(std::string_view("/v1/models/").size()));
  if (auto wrong = check_model(context, name)) return responder->send(wrong->response());
  responder->send({.body = describe(context).dump()});
}

}  // namespace headrace::server
