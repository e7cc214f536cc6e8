#pragma once
// An HTTP/1.1 server over plain TCP: one I/O thread, a few worker threads for the handler, bounded memory and
// time for whatever a peer sends. Bytes that two parsers could read in two ways (two lengths, a length beside
// chunks, an unknown transfer coding) are refused with 400 and the connection is closed.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/http.h"

namespace headrace::server {

struct HttpLimits {
  size_t max_header_bytes = 16 << 10;
  size_t max_body_bytes = 16 << 20;
  // Over all connections; bodies below 64 KiB are not counted. A body that finds no room is answered with
  // 503.
  size_t max_bodies_bytes = 256 << 20;
  size_t max_unsent_bytes = 4 << 20;                 // of one stream, before the client counts as too slow
  int max_connections = 1024;                        // further ones are answered with 503 and closed
  std::chrono::milliseconds idle_timeout{75'000};    // between requests of a connection
  std::chrono::milliseconds header_timeout{10'000};  // from a request's first byte to the end of its head
  std::chrono::milliseconds body_timeout{60'000};    // for the whole body
  std::chrono::milliseconds write_timeout{30'000};   // for 64 KiB of the answer
  std::chrono::milliseconds shutdown_grace{10'000};  // for running answers to end after stop()
};

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address or a name; every address of the name is listened on
  uint16_t port = 8000;            // 0: any free one
  int workers = 2;
  bool stop_on_signals = false;  // SIGINT and SIGTERM call stop(); a second one calls stop_now()
  HttpLimits limits;
};

struct HttpStats {
  uint64_t connections_open = 0, connections_total = 0, connections_refused = 0;
  uint64_t requests_total = 0, protocol_errors_total = 0, disconnects_total = 0;
};

class HttpCore;

class HttpServer {
 public:
  // Binds and listens. `handler` must outlive the server. Errors: invalid_argument (a host that does not
  // resolve), resource_exhausted (the address is in use or may not be bound).
  static Result<std::unique_ptr<HttpServer>> listen(const HttpOptions& options, HttpHandler& handler);
  ~HttpServer();

  uint16_t port() const;
  // Serves on the calling thread until stop() has been called and every connection has ended.
  void run();
  // Takes no new requests, lets running answers end within shutdown_grace. Thread-safe.
  void stop();
  // Cuts every connection. Thread-safe.
  void stop_now();
  HttpStats stats() const;

 private:
  explicit HttpServer(std::unique_ptr<HttpCore> core);
  std::unique_ptr<HttpCore> core_;
};

}  // namespace headrace::server
