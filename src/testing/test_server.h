#pragma once
// A Server on a free loopback port over the fake backend, running on a thread of its own, for tests.

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "server/server.h"
#include "testing/fake_backend.h"

namespace headrace::testing {

class TestServer {
 public:
  explicit TestServer(FakeBackendOptions backend = {}, server::ServeOptions options = {})
      : backend_(make_fake_backend(std::move(backend))) {
    options.port = 0;
    options.stop_on_signals = false;
    auto created = server::Server::create(*backend_, options);
    if (!created) std::abort();
    server_ = std::move(*created);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~TestServer() {
    server_->stop_now();
    join();
  }

  uint16_t port() const { return server_->port(); }
  server::Server& server() { return *server_; }
  server::Backend& backend() { return *backend_; }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::unique_ptr<server::Backend> backend_;
  std::unique_ptr<server::Server> server_;
  std::thread thread_;
};

}  // namespace headrace::testing
