#include "server/api_error.h"

#include <nlohmann/json.hpp>

namespace headrace::server {

ApiError ApiError::from(const Status& status, std::string param) {
  ApiError error{
      .status = http_status(status.code()), .message = status.message(), .param = std::move(param)};
  if (status.code() == Code::resource_exhausted) error.code = "busy";
  if (status.code() == Code::unavailable) error.code = "unavailable";
  return error;
}

std::string_view ApiError::type() const {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string ApiError::body() const {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
  };
  const nlohmann::ordered_json body = {
      {"error",
       {{"message", message}, {"type", type()}, {"param", or_null(param)}, {"code", or_null(code)}}}};
  // Messages may quote what a client sent: ill-formed bytes become U+FFFD.
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

HttpResponse ApiError::response() const {
  HttpResponse answer{.status = status, .body = body()};
  if (status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 429 || status == 503) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

}  // namespace headrace::server
