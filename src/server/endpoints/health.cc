// GET /health: 200 while the server takes requests.
#include "server/endpoints.h"

namespace headrace::server {

void handle_health(ServerContext&, const HttpRequest&, std::shared_ptr<Responder> responder) {
  responder->send({.body = R"({"status":"ok"})"});
}

}  // namespace headrace::server
