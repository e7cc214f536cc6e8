#pragma once
// HTTP as the endpoints see it: a request, an answer, and a Responder that takes either one answer or a
// stream. No networking type appears here; http_server.cc is the only file that knows sockets.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headrace::server {

struct HttpRequest {
  std::string method;  // as sent: "GET", "POST"
  std::string path;    // the target up to '?', not decoded: "/v1/models/a%20b"
  std::string query;   // what follows '?'
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  // The first header of that name (lower case), or nothing.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>>
      headers;  // besides Content-Type, -Length, Connection, Date
};

std::string_view http_reason(int status);

// The answer to one request. Thread-safe. Exactly one of send() and start_stream() counts; a Responder that
// is dropped without either answers 500, a stream that is dropped without finish() is cut off, so that the
// client sees the break.
class Responder {
 public:
  virtual ~Responder() = default;

  virtual void send(HttpResponse response) = 0;

  // A body of unknown length: head first, then any number of write()s, then finish().
  virtual void start_stream(HttpResponse head) = 0;
  // False: the client is gone or reads too slowly (more than HttpLimits::max_unsent_bytes wait); stop the
  // work.
  virtual bool write(std::string_view bytes) = 0;
  virtual void finish() = 0;

  // Called at most once, on the I/O thread, when the client goes away before the answer is complete. At once
  // when it is already gone. Must return at once. Replaces the earlier function.
  virtual void on_disconnect(std::function<void()> gone) = 0;

  // Runs `task` on a worker thread; tasks of one request run one at a time, in the order they were posted. A
  // task that needs the Responder holds it by its own shared_ptr.
  virtual void post(std::function<void()> task) = 0;
};

// What the server calls. Thread-safe.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Sees the head alone, on the I/O thread, before any byte of the body is stored; an answer refuses the
  // request.
  virtual std::optional<HttpResponse> admit(const HttpRequest& head) = 0;
  // Runs on a worker thread. May return before the answer is complete.
  virtual void handle(HttpRequest request, std::shared_ptr<Responder> responder) = 0;
  // The body of an answer to bytes that are no acceptable HTTP (400, 408, 413, 431, 501, 503).
  virtual HttpResponse protocol_error(int status, std::string_view message) = 0;
};

}  // namespace headrace::server
