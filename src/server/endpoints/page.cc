// GET / and its style sheet, script and icon: the chat page of web/, which is part of the binary.
#include "server/endpoints.h"
#include "server/web_files.h"

namespace headrace::server {

void handle_page(ServerContext&, const HttpRequest& request, std::shared_ptr<Responder> responder) {
  for (const WebFile& file : web_files()) {
    if (file.path != request.path) continue;
    responder->send(
        {.content_type = std::string(file.content_type),
         .body = std::string(file.bytes),
         .headers = {{"Content-Security-Policy",
                      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
                      "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                     {"X-Content-Type-Options", "nosniff"},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cache-Control", "no-cache"}}});
    return;
  }
  responder->send(
      ApiError{.status = 404, .message = "no such path: " + request.path, .code = "unknown_url"}.response());
}

}  // namespace headrace::server
