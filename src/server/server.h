#pragma once
// The serving program: an HTTP server over one model. `serve` is what the command line calls; Server takes
// any Backend.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/backend.h"
#include "server/http_server.h"

namespace headrace::server {

struct ServeOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free one
  std::string api_key;   // "": none is asked for
  HttpLimits limits;
  bool allow_special = false;  // special tokens in chats are recognised where a request does not say
  bool stop_on_signals = true;
  // Called once connections are accepted, with "http://127.0.0.1:8000"; may be null.
  std::function<void(const std::string& url)> on_listening;
};

class Server {
 public:
  // Binds and listens. `backend` must outlive the server. Errors: those of HttpServer::listen.
  static Result<std::unique_ptr<Server>> create(Backend& backend, const ServeOptions& options);
  ~Server();

  uint16_t port() const;
  std::string url() const;
  void run();       // until stop() or a signal
  void stop();      // thread-safe
  void stop_now();  // thread-safe
  HttpStats stats() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Serves `model` until SIGINT or SIGTERM, then lets running answers end.
Status serve(engine::ServingModel& model, const ServeOptions& options);

}  // namespace headrace::server
