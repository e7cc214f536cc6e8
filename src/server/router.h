#pragma once
// From a request's method and path to its endpoint, and whether it may pass: the table of endpoints.def, the
// API key, and a guard against other sites' pages.

#include <memory>
#include <string>
#include <string_view>

#include "server/endpoints.h"
#include "server/http.h"

namespace headrace::server {

class Router final : public HttpHandler {
 public:
  // `api_key` "": none is asked for.
  Router(ServerContext& context, std::string api_key) : context_(context), api_key_(std::move(api_key)) {}

  std::optional<HttpResponse> admit(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<Responder> responder) override;
  HttpResponse protocol_error(int status, std::string_view message) override;

 private:
  ServerContext& context_;
  const std::string api_key_;
};

// Takes the same time wherever `given` differs from `key`.
bool equal_keys(std::string_view given, std::string_view key);

}  // namespace headrace::server
