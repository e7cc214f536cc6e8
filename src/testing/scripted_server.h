#pragma once
// A server on a free loopback port that answers HTTP requests with bytes of the test's choice, well-formed or not, cut and
// delayed as it says. A thread for each connection.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace headrace::testing {

struct ScriptedRequest {
  int number = 0;      // over all connections, from 0
  int connection = 0;  // the number of its connection
  std::string method, path, head, body;
};

struct ScriptedReply {
  struct Piece {
    std::string bytes;
    std::chrono::microseconds delay{0};  // before it
  };
  std::vector<Piece> pieces;
  enum class Then { keep, close, hang } then = Then::keep;  // hang: silence until the peer leaves
};

class ScriptedServer {
 public:
  explicit ScriptedServer(std::function<ScriptedReply(const ScriptedRequest&)> script);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  uint16_t port() const { return port_; }
  int connections() const { return connections_; }

 private:
  void accept_all();
  void serve(int fd, int connection);

  const std::function<ScriptedReply(const ScriptedRequest&)> script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> requests_ = 0, connections_ = 0;
  std::mutex mutex_;
  std::list<std::thread> threads_;  // guarded by mutex_, like open_
  std::vector<int> open_;
  bool stopping_ = false;
  std::thread acceptor_;
};

// "HTTP/1.1 200 OK" with a chunked text/event-stream: one chunk an event, each with `data: ` in front; the last chunk ends it.
ScriptedReply::Piece stream_head();
ScriptedReply::Piece stream_event(const std::string& data, std::chrono::microseconds delay = {});
ScriptedReply::Piece stream_end();
// A whole answer with a length.
ScriptedReply plain_reply(int status, const std::string& type, const std::string& body);

}  // namespace headrace::testing
