#include "server/server.h"

#include <ctime>

#include "server/endpoints.h"
#include "server/metrics.h"
#include "server/router.h"

namespace headrace::server {

class Server::Impl {
 public:
  Impl(Backend& backend, const ServeOptions& options)
      : metrics(backend),
        context{backend, metrics, std::time(nullptr), options.allow_special},
        router(context, options.api_key),
        host(options.host) {}

  Metrics metrics;
  ServerContext context;
  Router router;
  std::string host;
  std::unique_ptr<HttpServer> http;
};

Result<std::unique_ptr<Server>> Server::create(Backend& backend, const ServeOptions& options) {
  auto impl = std::make_unique<Impl>(backend, options);
  HR_ASSIGN_OR_RETURN(impl->http, HttpServer::listen({.host = options.host,
                                                      .port = options.port,
                                                      .stop_on_signals = options.stop_on_signals,
                                                      .limits = options.limits},
                                                     impl->router));
  impl->metrics.set_http_stats([http = impl->http.get()] { return http->stats(); });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
uint16_t Server::port() const {
  return impl_->http->port();
}
std::string Server::url() const {
  const bool bare_v6 = impl_->host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", bare_v6 ? "[" : "", impl_->host, bare_v6 ? "]" : "", port());
}
void Server::run() {
  impl_->http->run();
}
void Server::stop() {
  impl_->http->stop();
}
void Server::stop_now() {
  impl_->http->stop_now();
}
HttpStats Server::stats() const {
  return impl_->http->stats();
}

}  // namespace headrace::server
