#pragma once
// One request's answer on its way from any thread to the I/O thread: bytes wait here, framed as one chunk for
// all that queued up. Knows nothing of sockets: the session passes in how to wake it and how to run a task.

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/http.h"

namespace headrace::server {

struct Framing {
  bool keep_alive = true;
  bool chunked = true;     // HTTP/1.1; otherwise a stream ends with the connection
  bool head_only = false;  // HEAD
};

// Status line, headers and the empty line. `stream`: no Content-Length.
std::string serialize_head(const HttpResponse& response, const Framing& framing, bool stream);

class Exchange {
 public:
  using Wake = std::function<void()>;                      // any thread, under the lock: must only post
  using Run = std::function<void(std::function<void()>)>;  // the same

  Exchange(Framing framing, size_t max_unsent_bytes, Wake wake, Run run);

  // What the session must write now. `complete`: nothing follows. `broken`: cut the connection.
  struct Outgoing {
    std::string bytes;
    bool complete = false, broken = false;
  };
  Outgoing take();
  // Ends the exchange: later calls do nothing, waiting functions are dropped. `gone`: the answer was not
  // complete, and the on_disconnect function is called. After close() neither wake nor run is called.
  void close(bool gone);

  // The Responder to give to the handler; when its last copy dies unanswered the exchange is completed with
  // 500.
  static std::shared_ptr<Responder> responder(std::shared_ptr<Exchange> exchange, HttpResponse if_abandoned);

 private:
  class Handle;
  enum class State : uint8_t { waiting, streaming, complete };
  void signal();  // holds mutex_

  const Framing framing_;
  const size_t max_unsent_bytes_;

  std::mutex mutex_;  // guards what follows
  State state_ = State::waiting;
  std::string head_;         // not yet taken
  std::string body_;         // not yet taken
  bool terminated_ = false;  // the last chunk was taken
  bool broken_ = false, closed_ = false, gone_ = false, signalled_ = false;
  std::function<void()> on_disconnect_;
  Wake wake_;
  Run run_;
};

}  // namespace headrace::server
