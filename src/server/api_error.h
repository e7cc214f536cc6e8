#pragma once
// Errors as OpenAI's clients expect them: {"error": {"message", "type", "param", "code"}}.

#include <string>
#include <string_view>

#include "base/status.h"
#include "server/http.h"

namespace headrace::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // the field that is wrong; "" is null
  std::string code;   // a word for programs; "" is null

  static ApiError from(const Status& status, std::string param = {});
  std::string_view type() const;  // follows from the status
  std::string body() const;
  HttpResponse response() const;
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;

}  // namespace headrace::server
