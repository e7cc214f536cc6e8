// The only file that instantiates Asio and Beast sessions: it costs about half a minute and 1.3 GB to
// compile. Everything below runs on the one I/O thread, except Exchange's callbacks, which only post.
#include "server/http_server.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <csignal>
#include <unordered_set>

#include "base/log.h"
#include "server/exchange.h"

namespace headrace::server {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using net::ip::tcp;

constexpr auto kTuple = net::as_tuple(net::use_awaitable);
constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kUncountedBody = 64 << 10;
constexpr size_t kWriteSlice = 64 << 10;
constexpr std::chrono::milliseconds kLinger{2000};

using Parser = beast::http::request_parser<beast::http::string_body>;

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

HttpRequest head_of(const Parser& parser) {
  const auto& message = parser.get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string_view target(message.target().data(), message.target().size());
  const size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != target.npos) request.query = target.substr(mark + 1);
  for (const auto& field : message) {
    request.headers.emplace_back(
        to_lower(std::string_view(field.name_string().data(), field.name_string().size())),
        std::string(field.value()));
  }
  return request;
}

struct Refusal {
  int status = 0;  // 0: accept
  std::string message;
};

// What RFC 9112 section 6 leaves to the reader, read in the one strict way: at most one Content-Length, of
// digits alone; at most one Transfer-Encoding, which says `chunked`; never both; neither coding nor chunks
// before HTTP/1.1.
Refusal check_framing(const HttpRequest& head, unsigned version) {
  int lengths = 0, codings = 0, hosts = 0;
  for (const auto& [name, value] : head.headers) {
    if (name == "content-length") {
      ++lengths;
      if (value.empty() || value.find_first_not_of("0123456789") != value.npos) {
        return {400, "Content-Length is not a plain number"};
      }
    } else if (name == "transfer-encoding") {
      ++codings;
      if (to_lower(value) != "chunked") return {501, "the only transfer coding known here is chunked"};
    } else if (name == "host") {
      ++hosts;
    }
  }
  if (lengths > 1) return {400, "more than one Content-Length"};
  if (codings > 1) return {400, "more than one Transfer-Encoding"};
  if (lengths > 0 && codings > 0) return {400, "Content-Length beside Transfer-Encoding"};
  if (codings > 0 && version < 11) return {400, "Transfer-Encoding needs HTTP/1.1"};
  if (hosts > 1 || (hosts == 0 && version >= 11)) return {400, "HTTP/1.1 wants exactly one Host header"};
  if (version != 10 && version != 11) return {505, "this server speaks HTTP/1.0 and HTTP/1.1"};
  if (head.path.empty() || head.path[0] != '/')
    return {400, "the request target must be a path that starts with /"};
  return {};
}

// The answer to a read that failed; status 0: there is nobody left to answer, or nothing wrong to tell.
Refusal refusal_of(const error_code& ec, bool timed_out) {
  namespace http = beast::http;
  if (timed_out) return {408, "the request did not arrive in time"};
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    return {431, "the head of the request is too long"};
  }
  if (ec == http::error::body_limit) return {413, "the body of the request is too long"};
  if (ec == http::error::end_of_stream || ec == http::error::partial_message) return {};
  if (ec == http::error::bad_version) return {505, "this server speaks HTTP/1.0 and HTTP/1.1"};
  if (ec.category() == make_error_code(http::error::bad_field).category()) {
    return {400, "not an acceptable HTTP request: " + ec.message()};
  }
  return {};
}

}  // namespace

class Session;

class HttpCore {
 public:
  HttpCore(const HttpOptions& options, HttpHandler& handler)
      : options_(options),
        handler_(handler),
        workers_(std::max(1, options.workers)),
        signals_(io_),
        grace_(io_) {}

  Status open();
  void run();
  void stop();
  void stop_now();
  HttpStats stats() const;

  uint16_t port_ = 0;
  net::io_context io_{1};

 private:
  friend class Session;
  using Strand = net::strand<net::thread_pool::executor_type>;

  net::awaitable<void> accept(tcp::acceptor& acceptor);
  net::awaitable<void> serve(tcp::socket socket);
  net::awaitable<void> refuse(tcp::socket socket);
  void wait_for_signal();
  void drain();
  void cut();
  void settle();  // the last connection of a stopping server has ended

  HttpOptions options_;
  HttpHandler& handler_;
  net::thread_pool workers_;
  net::signal_set signals_;
  net::steady_timer grace_;
  std::vector<tcp::acceptor> acceptors_;
  std::unordered_set<Session*> sessions_;
  size_t bodies_bytes_ = 0;
  int refusing_ = 0;
  bool stopping_ = false;
  std::atomic<uint64_t> open_{0}, total_{0}, refused_{0}, requests_{0}, protocol_errors_{0}, disconnects_{0};
};

// One connection. Lives in the frame of HttpCore::serve.
class Session {
 public:
  Session(HttpCore& server, tcp::socket socket)
      : server_(server),
        socket_(std::move(socket)),
        buffer_(server.options_.limits.max_header_bytes + kReadBytes),
        deadline_(server.io_),
        wake_(server.io_) {
    server_.sessions_.insert(this);
  }
  ~Session() {
    *alive_ = nullptr;
    server_.sessions_.erase(this);
    release_body();
  }

  net::awaitable<void> run();
  // A connection between two requests ends at once; one that works may end its answer.
  void drain() {
    if (idle_) cancel();
  }
  void cut() {
    gone_ = true;
    error_code ignored;
    socket_.close(ignored);
    wake_.cancel();
  }

 private:
  struct Waker {  // what posted functions hold; null once the exchange has ended
    Session* session;
  };

  net::awaitable<bool> wait_for_request();
  net::awaitable<bool> serve_one();
  net::awaitable<bool> read_body(Parser& parser, HttpRequest& request);
  net::awaitable<bool> exchange(HttpRequest request, bool keep_alive, unsigned version);
  net::awaitable<bool> write_all(std::string_view bytes);
  net::awaitable<bool> refuse(int status, std::string_view message);
  net::awaitable<void> linger();
  void expire_after(std::chrono::milliseconds time);
  void expire_never() { deadline_.cancel(); }
  void cancel() {
    error_code ignored;
    socket_.cancel(ignored);
  }
  void watch(const std::shared_ptr<Waker>& waker);
  void wake() {
    woken_ = true;
    wake_.cancel();
  }
  net::awaitable<void> wait_for_wake();
  void release_body() {
    server_.bodies_bytes_ -= reserved_;
    reserved_ = 0;
  }
  const HttpLimits& limits() const { return server_.options_.limits; }

  HttpCore& server_;
  tcp::socket socket_;
  beast::flat_buffer buffer_;
  net::steady_timer deadline_;
  net::steady_timer wake_;
  const std::shared_ptr<Session*> alive_ =
      std::make_shared<Session*>(this);  // holds null once the session is gone
  uint64_t num_deadlines_ = 0;
  net::cancellation_signal stop_watching_;
  bool watching_ = false, woken_ = false, gone_ = false, idle_ = false, timed_out_ = false;
  size_t reserved_ = 0;
};

// Cancels what the socket waits for when `time` has passed, and sets timed_out_. Replaces the earlier
// deadline. (Beast's own stream closes the socket on a timeout: nothing could be answered then.)
void Session::expire_after(std::chrono::milliseconds time) {
  timed_out_ = false;
  deadline_.expires_after(time);
  deadline_.async_wait([alive = alive_, number = ++num_deadlines_](const error_code& ec) {
    Session* self = *alive;
    // A deadline that had passed when it was replaced arrives all the same.
    if (ec || self == nullptr || self->num_deadlines_ != number) return;
    self->timed_out_ = true;
    self->cancel();
  });
}

net::awaitable<void> Session::run() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  while (co_await wait_for_request()) {
    if (!co_await serve_one()) break;
    if (server_.stopping_) break;
  }
  if (!gone_) co_await linger();
}

net::awaitable<bool> Session::wait_for_request() {
  if (buffer_.size() > 0) co_return true;
  idle_ = true;
  expire_after(limits().idle_timeout);
  const auto [ec, n] = co_await socket_.async_read_some(buffer_.prepare(4096), kTuple);
  idle_ = false;
  if (ec) {
    gone_ = gone_ || ec != net::error::operation_aborted;
    co_return false;
  }
  buffer_.commit(n);
  co_return true;
}

// False: the connection must end.
net::awaitable<bool> Session::serve_one() {
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(limits().max_header_bytes));
  parser.body_limit(limits().max_body_bytes);
  expire_after(limits().header_timeout);
  const auto [ec, n] = co_await beast::http::async_read_header(socket_, buffer_, parser, kTuple);
  if (ec) {
    const Refusal refusal = refusal_of(ec, timed_out_);
    if (refusal.status == 0) {
      gone_ = true;
      co_return false;
    }
    co_return co_await refuse(refusal.status, refusal.message);
  }
  HttpRequest request = head_of(parser);
  const unsigned version = parser.get().version();
  if (const Refusal refusal = check_framing(request, version); refusal.status != 0) {
    co_return co_await refuse(refusal.status, refusal.message);
  }
  ++server_.requests_;
  const bool has_body = parser.chunked() || parser.content_length().value_or(0) > 0;
  const bool keep_alive = parser.keep_alive() && !server_.stopping_;
  if (std::optional<HttpResponse> answer = server_.handler_.admit(request)) {
    const bool keep = keep_alive && !has_body;
    const Framing framing{.keep_alive = keep, .head_only = request.method == "HEAD"};
    std::string bytes = serialize_head(*answer, framing, false);
    if (!framing.head_only) bytes += answer->body;
    co_return co_await write_all(bytes) && keep;
  }
  if (has_body && !co_await read_body(parser, request)) co_return false;
  const bool kept = co_await exchange(std::move(request), keep_alive, version);
  release_body();
  co_return kept;
}

net::awaitable<bool> Session::read_body(Parser& parser, HttpRequest& request) {
  const uint64_t length = parser.content_length().value_or(limits().max_body_bytes);
  if (length > kUncountedBody) {
    if (server_.bodies_bytes_ + length > limits().max_bodies_bytes) {
      co_return co_await refuse(503, "too many large requests at once: try again");
    }
    server_.bodies_bytes_ += length;
    reserved_ = length;
  }
  if (const auto expect = request.header("expect")) {
    if (to_lower(*expect) != "100-continue")
      co_return co_await refuse(417, "the only expectation known is 100-continue");
    if (!co_await write_all("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
  }
  expire_after(limits().body_timeout);
  const auto [ec, n] = co_await beast::http::async_read(socket_, buffer_, parser, kTuple);
  if (ec) {
    const Refusal refusal = refusal_of(ec, timed_out_);
    if (refusal.status != 0) co_return co_await refuse(refusal.status, refusal.message);
    gone_ = true;
    co_return false;
  }
  request.body = std::move(parser.get().body());
  co_return true;
}

// Watches for the peer's end of file while the handler works. Bytes of a next request end the watch: they
// stay in the socket until their turn, and a failing write then tells that the peer has gone.
void Session::watch(const std::shared_ptr<Waker>& waker) {
  watching_ = true;
  socket_.async_wait(tcp::socket::wait_read,
                     net::bind_cancellation_slot(stop_watching_.slot(), [waker](const error_code& ec) {
                       if (waker->session == nullptr) return;
                       Session& self = *waker->session;
                       self.watching_ = false;
                       if (!ec) {
                         char byte;
                         const ssize_t n =
                             ::recv(self.socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
                         if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) self.gone_ = true;
                       }
                       self.wake();
                     }));
}

net::awaitable<void> Session::wait_for_wake() {
  wake_.expires_at(net::steady_timer::time_point::max());
  co_await wake_.async_wait(kTuple);
}

net::awaitable<bool> Session::exchange(HttpRequest request, bool keep_alive, unsigned version) {
  const Framing framing{
      .keep_alive = keep_alive, .chunked = version >= 11, .head_only = request.method == "HEAD"};
  const auto waker = std::make_shared<Waker>(Waker{this});
  const HttpCore::Strand strand(server_.workers_.get_executor());
  const auto exchange = std::make_shared<Exchange>(
      framing, limits().max_unsent_bytes,
      [&io = server_.io_, waker] {
        net::post(io, [waker] {
          if (waker->session != nullptr) waker->session->wake();
        });
      },
      [strand](std::function<void()> task) { net::post(strand, std::move(task)); });
  struct Closer {  // also on an exception: nothing may reach a session that has ended
    Waker& waker;
    Exchange& exchange;
    bool complete = false;
    ~Closer() {
      waker.session = nullptr;
      exchange.close(!complete);
    }
  } closer{*waker, *exchange};
  net::post(strand,
            [&handler = server_.handler_, request = std::move(request),
             responder = Exchange::responder(
                 exchange, server_.handler_.protocol_error(500, "the request was dropped"))]() mutable {
              handler.handle(std::move(request), std::move(responder));
            });

  expire_never();
  watch(waker);
  while (!gone_ && !closer.complete) {
    woken_ = false;
    const Exchange::Outgoing out = exchange->take();
    if (out.broken) break;
    if (!out.bytes.empty() && !co_await write_all(out.bytes)) break;
    closer.complete = out.complete;
    if (out.bytes.empty() && !out.complete && !woken_) co_await wait_for_wake();
  }
  if (!closer.complete) {
    ++server_.disconnects_;
    gone_ = true;
  }
  stop_watching_.emit(net::cancellation_type::all);
  while (watching_) co_await wait_for_wake();
  co_return keep_alive && !gone_;
}

// The socket mostly has room: then a write is one system call, without a deadline or a turn of the event loop.
net::awaitable<bool> Session::write_all(std::string_view bytes) {
  bool waited = false;
  while (!bytes.empty()) {
    const net::const_buffer slice(bytes.data(), std::min(bytes.size(), kWriteSlice));
    error_code ec;
    size_t n = socket_.write_some(slice, ec);
    if (ec == net::error::would_block) {
      expire_after(limits().write_timeout);
      waited = true;
      std::tie(ec, n) = co_await socket_.async_write_some(slice, kTuple);
    }
    if (ec) {
      gone_ = true;
      co_return false;
    }
    bytes.remove_prefix(n);
  }
  if (waited) expire_never();
  co_return true;
}

net::awaitable<bool> Session::refuse(int status, std::string_view message) {
  ++server_.protocol_errors_;
  const HttpResponse answer = server_.handler_.protocol_error(status, message);
  const std::string head = serialize_head(answer, {.keep_alive = false}, false);
  co_await write_all(head + answer.body);
  co_return false;
}

// Closing a socket with unread bytes resets it, and a reset can overtake the answer: send our end, then read
// what the peer still had to say for a moment.
net::awaitable<void> Session::linger() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  expire_after(kLinger);
  for (;;) {
    buffer_.clear();
    const auto [ec, n] = co_await socket_.async_read_some(buffer_.prepare(4096), kTuple);
    if (ec) break;
  }
}

net::awaitable<void> HttpCore::serve(tcp::socket socket) {
  ++open_;
  ++total_;
  try {
    Session session(*this, std::move(socket));
    co_await session.run();
  } catch (const std::exception& e) {
    log_error("http: a connection ended on an exception: {}", e.what());
  }
  --open_;
  settle();
}

// The connection that is one too many hears why, unless there are too many of those as well.
net::awaitable<void> HttpCore::refuse(tcp::socket socket) {
  ++refused_;
  ++refusing_;
  const HttpResponse answer = handler_.protocol_error(503, "too many connections: try again");
  const std::string bytes = serialize_head(answer, {.keep_alive = false}, false) + answer.body;
  beast::tcp_stream stream(std::move(socket));
  stream.expires_after(std::chrono::seconds(1));
  co_await net::async_write(stream, net::buffer(bytes), kTuple);
  error_code ignored;
  stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  char unread[1024];
  co_await stream.async_read_some(net::buffer(unread), kTuple);
  --refusing_;
}

net::awaitable<void> HttpCore::accept(tcp::acceptor& acceptor) {
  net::steady_timer pause(io_);
  while (!stopping_) {
    auto [ec, socket] = co_await acceptor.async_accept(kTuple);
    if (stopping_ || ec == net::error::operation_aborted) break;
    if (ec) {  // out of descriptors, or the peer was quick to leave: the listener itself is well
      pause.expires_after(std::chrono::milliseconds(50));
      co_await pause.async_wait(kTuple);
    } else if (open_ < static_cast<uint64_t>(options_.limits.max_connections)) {
      net::co_spawn(io_, serve(std::move(socket)), net::detached);
    } else if (refusing_ < 64) {
      net::co_spawn(io_, refuse(std::move(socket)), net::detached);
    } else {
      ++refused_;
    }
  }
}

Status HttpCore::open() {
  std::signal(SIGPIPE, SIG_IGN);
  error_code ec;
  tcp::resolver resolver(io_);
  const std::string where = fmt::format("{}:{}", options_.host, options_.port);
  const auto found =
      resolver.resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, ec);
  if (ec) {
    return make_status(Code::invalid_argument, "--host {}: not an address or a name of this machine ({})",
                       options_.host, ec.message());
  }
  port_ = options_.port;
  for (const auto& entry : found) {
    tcp::endpoint endpoint = entry.endpoint();
    endpoint.port(port_);
    tcp::acceptor acceptor(io_);
    acceptor.open(endpoint.protocol(), ec);
    if (!ec) acceptor.set_option(net::socket_base::reuse_address(true), ec);
    if (!ec && endpoint.protocol() == tcp::v6()) acceptor.set_option(net::ip::v6_only(true), ec);
    if (!ec) acceptor.bind(endpoint, ec);
    if (!ec) acceptor.listen(net::socket_base::max_listen_connections, ec);
    if (ec == net::error::address_in_use) {
      return make_status(
          Code::resource_exhausted,
          "{}: the address is in use by another program: stop that one or choose another --port", where);
    }
    if (ec) continue;  // a name may have an IPv6 address on a machine without IPv6: one that works is enough
    port_ = acceptor.local_endpoint().port();
    acceptors_.push_back(std::move(acceptor));
  }
  if (acceptors_.empty())
    return make_status(Code::resource_exhausted, "{}: cannot listen: {}", where, ec.message());
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, std::max<rlim_t>(files.rlim_cur, 1 << 16));
    setrlimit(RLIMIT_NOFILE, &files);
  }
  return {};
}

void HttpCore::run() {
  if (options_.stop_on_signals) {
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    wait_for_signal();
  }
  for (tcp::acceptor& acceptor : acceptors_) net::co_spawn(io_, accept(acceptor), net::detached);
  io_.run();
  workers_.join();
}

void HttpCore::wait_for_signal() {
  signals_.async_wait([this](const error_code& ec, int) {
    if (ec) return;
    if (stopping_) return cut();
    wait_for_signal();  // before drain(), which cancels this wait when no connection is left
    drain();
  });
}

void HttpCore::drain() {
  if (stopping_) return;
  stopping_ = true;
  error_code ignored;
  for (tcp::acceptor& acceptor : acceptors_) acceptor.close(ignored);
  for (Session* session : sessions_) session->drain();
  grace_.expires_after(options_.limits.shutdown_grace);
  grace_.async_wait([this](const error_code& ec) {
    if (!ec) cut();
  });
  settle();
}

void HttpCore::cut() {
  for (Session* session : sessions_) session->cut();
}

void HttpCore::settle() {
  if (!stopping_ || open_ > 0) return;
  grace_.cancel();
  signals_.cancel();
}

void HttpCore::stop() {
  net::post(io_, [this] { drain(); });
}

void HttpCore::stop_now() {
  net::post(io_, [this] {
    drain();
    cut();
  });
}

HttpStats HttpCore::stats() const {
  return {open_, total_, refused_, requests_, protocol_errors_, disconnects_};
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpOptions& options, HttpHandler& handler) {
  auto core = std::make_unique<HttpCore>(options, handler);
  HR_RETURN_IF_ERROR(core->open());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(core)));
}

HttpServer::HttpServer(std::unique_ptr<HttpCore> core) : core_(std::move(core)) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const {
  return core_->port_;
}
void HttpServer::run() {
  core_->run();
}
void HttpServer::stop() {
  core_->stop();
}
void HttpServer::stop_now() {
  core_->stop_now();
}
HttpStats HttpServer::stats() const {
  return core_->stats();
}

}  // namespace headrace::server
