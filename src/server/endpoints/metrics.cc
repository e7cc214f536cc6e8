// GET /metrics: figures in Prometheus' text format.
#include "server/endpoints.h"

namespace headrace::server {

void handle_metrics(ServerContext& context, const HttpRequest&, std::shared_ptr<Responder> responder) {
  responder->send(
      {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = context.metrics.text()});
}

}  // namespace headrace::server
