#include "load/client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "load/event_stream.h"
#include "load/http_response.h"

namespace headrace::load {
namespace {

constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kKeptErrorBytes = 2 << 10;
constexpr size_t kExampleBytes = 300;
constexpr size_t kMaxChunks = 1 << 20;  // of one answer
constexpr int kSendsPerTurn = 16;       // then answers are read again
constexpr int kTickMs = 50;
constexpr double kDrainSeconds = 0.2;  // for the end of a response whose stream has said [DONE]

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

struct Connection {
  enum class State { connecting, sending, reading, draining, idle };

  ~Connection() {
    if (fd >= 0) ::close(fd);
  }

  int fd = -1;
  int open_error = 0;  // errno where fd is -1
  State state = State::connecting;
  size_t place = 0;  // in Loop::connections_
  std::string out;   // the request's bytes, kept until the answer begins: it may have to be sent again
  size_t sent = 0;
  bool watched_for_writing = false;
  bool reused = false;    // the connection had carried a request before
  bool answered = false;  // a byte of the answer has come
  HttpResponse http;
  EventStream events;
  std::string error_body;
  RequestRecord record;
  TimePoint start, last_token, ended;
  int64_t usage_prompt = -1, usage_completion = -1;
  size_t chunks = 0;      // with a token
  bool finished = false;  // a finish_reason was seen
};

class Loop {
 public:
  explicit Loop(const LoadOptions& options) : options_(options), buffer_(kReadBytes) {}
  ~Loop() {
    connections_.clear();
    if (epoll_ >= 0) ::close(epoll_);
    if (timer_ >= 0) ::close(timer_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Result<LoadRun> run();

 private:
  double now_s() const { return seconds_between(begin_, Clock::now()); }
  bool more_to_send() const {
    return !stopped_ && (options_.max_requests == 0 || next_number_ < options_.max_requests) &&
           (options_.duration_s <= 0 || next_time_ <= options_.duration_s);
  }
  bool room() const { return options_.concurrency == 0 || in_flight_ < options_.concurrency; }
  // Sends what is due. True: more is due already.
  bool send_due();
  void set_timer() const;
  void tick();
  void start_request();
  Connection* open();
  void connect_failed(Connection& connection, int number);
  void send_more(Connection& connection);
  void watch(Connection& connection, bool writing, int operation) const;
  void on_ready(Connection& connection, uint32_t events);
  void on_readable(Connection& connection);
  void on_bytes(Connection& connection, std::string_view bytes, TimePoint now);
  // False: the request has failed, and the connection is gone.
  bool on_event(Connection& connection, std::string_view data, TimePoint now);
  void on_closed(Connection& connection);
  void on_response_end(Connection& connection);
  void complete(Connection& connection);
  void fail(Connection& connection, Failure failure, std::string_view what);
  void end_request(Connection& connection);
  void recycle(Connection& connection);  // after the end of a response
  void drop(Connection& connection);

  const LoadOptions& options_;
  std::vector<char> buffer_;
  Address address_;
  int epoll_ = -1, timer_ = -1;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> idle_;
  std::vector<std::unique_ptr<Connection>> dropped_;  // until the turn ends: events of the turn may still name them
  TimePoint begin_;
  int64_t next_number_ = 0, in_flight_ = 0, ended_ = 0, failed_ = 0, tokens_ = 0;
  double next_time_ = 0, last_end_ = 0;
  bool stopped_ = false;
  LoadRun run_;
};

Result<LoadRun> Loop::run() {
  raise_open_file_limit();
  HR_ASSIGN_OR_RETURN(address_, resolve(options_.endpoint));
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  epoll_event timer_event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (epoll_ < 0 || timer_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &timer_event) != 0) {
    return error(Code::resource_exhausted, "no event loop: {}", std::strerror(errno));
  }
  const double cpu_before = cpu_seconds();
  begin_ = Clock::now();
  next_time_ = options_.next_arrival();
  TimePoint last_tick = begin_;
  std::array<epoll_event, 256> ready;
  while (more_to_send() || in_flight_ > 0) {
    const bool more_due = send_due();
    if (!more_due) set_timer();
    const int count = ::epoll_wait(epoll_, ready.data(), static_cast<int>(ready.size()), more_due ? 0 : kTickMs);
    for (int i = 0; i < count; ++i) {
      if (ready[i].data.ptr == nullptr) {
        uint64_t expirations = 0;
        [[maybe_unused]] const ssize_t read = ::read(timer_, &expirations, sizeof(expirations));
        continue;
      }
      Connection& connection = *static_cast<Connection*>(ready[i].data.ptr);
      if (connection.fd >= 0) on_ready(connection, ready[i].events);
    }
    dropped_.clear();
    if (ms_between(last_tick, Clock::now()) >= kTickMs) {
      last_tick = Clock::now();
      tick();
      dropped_.clear();
    }
    if (stopped_) break;
  }
  run_.unfinished = next_number_ - ended_;
  run_.interrupted = stopped_;
  run_.seconds = stopped_ ? now_s() : last_end_;
  run_.cpu_seconds = cpu_seconds() - cpu_before;
  return std::move(run_);
}

bool Loop::send_due() {
  for (int i = 0; i < kSendsPerTurn; ++i) {
    if (!more_to_send() || !room()) return false;
    const double now = now_s();
    if (options_.duration_s > 0 && now > options_.duration_s) {
      next_time_ = std::numeric_limits<double>::infinity();  // a request that waited for its turn until the end
      return false;
    }
    if (next_time_ > now) return false;
    start_request();
  }
  return true;
}

void Loop::set_timer() const {
  itimerspec spec{};
  if (more_to_send() && room()) {
    const double wait = std::clamp(next_time_ - now_s(), 1e-9, 1.0);
    spec.it_value.tv_sec = static_cast<time_t>(wait);
    spec.it_value.tv_nsec = std::max(1L, static_cast<long>((wait - std::floor(wait)) * 1e9));
  }
  ::timerfd_settime(timer_, 0, &spec, nullptr);
}

void Loop::tick() {
  if (options_.cancelled && options_.cancelled()) stopped_ = true;
  if (options_.progress) {
    options_.progress({.seconds = now_s(), .sent = next_number_, .ended = ended_, .failed = failed_, .output_tokens = tokens_});
  }
  const TimePoint now = Clock::now();
  for (size_t i = connections_.size(); i-- > 0;) {  // the last takes the place of one that is dropped
    Connection& connection = *connections_[i];
    const double age = seconds_between(connection.start, now);
    if (connection.state == Connection::State::draining) {
      if (seconds_between(connection.ended, now) > kDrainSeconds) drop(connection);
    } else if (connection.state != Connection::State::idle && age > options_.timeout_s) {
      fail(connection, Failure::timeout,
           fmt::format("no end within {} s ({} chunks with tokens had come)", options_.timeout_s, connection.chunks));
    }
  }
}

void Loop::start_request() {
  Sending sending = options_.request(next_number_++);
  Connection* connection = nullptr;
  if (!idle_.empty()) {
    connection = idle_.back();
    idle_.pop_back();
    connection->reused = true;
  } else {
    connection = open();
  }
  connection->start = Clock::now();
  connection->record = RequestRecord{};
  connection->record.start_s = seconds_between(begin_, connection->start);
  connection->record.late_ms = std::max(0.0, (connection->record.start_s - next_time_) * 1e3);
  connection->record.prompt_tokens = sending.prompt_tokens;
  connection->out = request_bytes(options_.endpoint, "POST", options_.path, sending.body);
  next_time_ = options_.next_arrival();
  run_.peak_concurrency = std::max(run_.peak_concurrency, ++in_flight_);
  if (connection->fd < 0) {
    connect_failed(*connection, connection->open_error);
  } else if (connection->state == Connection::State::idle) {
    connection->state = Connection::State::sending;
    send_more(*connection);
  }
}

Connection* Loop::open() {
  auto connection = std::make_unique<Connection>();
  connection->place = connections_.size();
  connection->fd = ::socket(address_.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection->fd < 0) {
    connection->open_error = errno;
  } else {
    const int on = 1;
    ::setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(connection->fd, reinterpret_cast<const sockaddr*>(address_.bytes), address_.length) != 0 &&
        errno != EINPROGRESS) {
      connection->open_error = errno;
      ::close(connection->fd);
      connection->fd = -1;
    } else {
      watch(*connection, true, EPOLL_CTL_ADD);
    }
  }
  connections_.push_back(std::move(connection));
  return connections_.back().get();
}

void Loop::connect_failed(Connection& connection, int number) {
  fail(connection, Failure::connect,
       fmt::format("{}:{}: {}", options_.endpoint.host, options_.endpoint.port, std::strerror(number)));
}

void Loop::watch(Connection& connection, bool writing, int operation) const {
  connection.watched_for_writing = writing;
  epoll_event event{.events = EPOLLIN | (writing ? uint32_t{EPOLLOUT} : 0u), .data = {.ptr = &connection}};
  ::epoll_ctl(epoll_, operation, connection.fd, &event);
}

void Loop::send_more(Connection& connection) {
  while (connection.sent < connection.out.size()) {
    const ssize_t count =
        ::send(connection.fd, connection.out.data() + connection.sent, connection.out.size() - connection.sent, MSG_NOSIGNAL);
    if (count >= 0) {
      connection.sent += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      if (!connection.watched_for_writing) watch(connection, true, EPOLL_CTL_MOD);
      return;
    } else if (errno != EINTR) {
      return on_closed(connection);
    }
  }
  connection.state = Connection::State::reading;
  if (connection.watched_for_writing) watch(connection, false, EPOLL_CTL_MOD);
}

void Loop::on_ready(Connection& connection, uint32_t events) {
  if (connection.state == Connection::State::connecting) {
    int number = 0;
    socklen_t size = sizeof(number);
    ::getsockopt(connection.fd, SOL_SOCKET, SO_ERROR, &number, &size);
    if (number != 0) return connect_failed(connection, number);
    if ((events & EPOLLOUT) == 0) return;
    connection.state = Connection::State::sending;
  }
  // A server may answer, such as with 413, before it has read all.
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) return on_readable(connection);
  if (connection.state == Connection::State::sending) send_more(connection);
}

void Loop::on_readable(Connection& connection) {
  const ssize_t count = ::recv(connection.fd, buffer_.data(), buffer_.size(), 0);
  const TimePoint now = Clock::now();
  if (count > 0) return on_bytes(connection, {buffer_.data(), static_cast<size_t>(count)}, now);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  on_closed(connection);
}

void Loop::on_bytes(Connection& connection, std::string_view bytes, TimePoint now) {
  if (connection.state == Connection::State::idle) return drop(connection);  // nothing was asked
  connection.answered = true;
  HttpResponse& http = connection.http;
  while (!bytes.empty() && !http.done() && !http.failed()) {
    std::string_view piece = http.take(bytes);
    if (connection.state == Connection::State::draining) continue;
    if (http.head_complete() && (http.status() != 200 || !http.content_type().starts_with("text/event-stream"))) {
      connection.error_body += piece.substr(0, kKeptErrorBytes - std::min(kKeptErrorBytes, connection.error_body.size()));
      continue;
    }
    std::string_view data;
    while (connection.state != Connection::State::draining && connection.events.next(piece, data)) {
      if (!on_event(connection, data, now)) return;
    }
    if (connection.events.failed()) return fail(connection, Failure::malformed, "an event of more than a megabyte");
  }
  if (http.failed()) {
    if (connection.state == Connection::State::draining) return drop(connection);
    return fail(connection, Failure::malformed, http.failure());
  }
  if (http.done()) {
    if (!bytes.empty()) http.close();  // more than was asked for
    if (connection.state == Connection::State::draining) return recycle(connection);
    on_response_end(connection);
  }
}

bool Loop::on_event(Connection& connection, std::string_view data, TimePoint now) {
  const std::optional<StreamChunk> chunk = stream_chunk_of(data);
  if (!chunk) {
    fail(connection, Failure::malformed, fmt::format("an event that is no JSON object: {}", data.substr(0, kExampleBytes)));
    return false;
  }
  if (chunk->error) {
    fail(connection, Failure::stream_error, *chunk->error);
    return false;
  }
  if (chunk->done) {
    connection.finished = true;
    complete(connection);
    return connection.fd >= 0;
  }
  if (chunk->token) {
    RequestRecord& record = connection.record;
    if (connection.chunks == 0) {
      record.ttft_ms = ms_between(connection.start, now);
    } else {
      record.itl_ms.push_back(static_cast<float>(ms_between(connection.last_token, now)));
    }
    connection.last_token = now;
    record.e2e_ms = ms_between(connection.start, now);
    ++tokens_;
    if (++connection.chunks > kMaxChunks) {
      fail(connection, Failure::malformed, fmt::format("more than {} chunks in one answer", kMaxChunks));
      return false;
    }
  }
  connection.finished = connection.finished || chunk->finished;
  if (chunk->prompt_tokens >= 0) connection.usage_prompt = chunk->prompt_tokens;
  if (chunk->completion_tokens >= 0) connection.usage_completion = chunk->completion_tokens;
  if (chunk->cached_tokens >= 0) {
    connection.record.cached_tokens = static_cast<int32_t>(std::min<int64_t>(chunk->cached_tokens, INT32_MAX));
  }
  return true;
}

void Loop::on_closed(Connection& connection) {
  if (connection.state == Connection::State::idle || connection.state == Connection::State::draining) return drop(connection);
  if (connection.reused && !connection.answered) {
    // The server closed the kept connection while the request was on its way (RFC 9112, 9.3.1): it was not worked on. The clock
    // runs.
    ++run_.retries;
    Connection* fresh = open();
    fresh->start = connection.start;
    fresh->record = connection.record;
    fresh->out = std::move(connection.out);
    drop(connection);
    if (fresh->fd < 0) connect_failed(*fresh, fresh->open_error);
    return;
  }
  connection.http.close();
  if (connection.http.done()) return on_response_end(connection);
  fail(connection, Failure::closed, connection.http.failure());
}

// The response has ended without [DONE].
void Loop::on_response_end(Connection& connection) {
  const HttpResponse& http = connection.http;
  if (http.status() != 200) {
    connection.record.http_status = http.status();
    return fail(connection, Failure::http_status, fmt::format("{}: {}", http.status(), connection.error_body));
  }
  if (!http.content_type().starts_with("text/event-stream")) {
    return fail(connection, Failure::malformed,
                fmt::format("not a stream of events but \"{}\": {}", http.content_type(), connection.error_body));
  }
  if (!connection.finished) return fail(connection, Failure::closed, "the stream ended before its last event");
  complete(connection);
  if (connection.fd >= 0) recycle(connection);
}

// All that the stream had to say has come. The request is under way until its response has ended too: the next one should find
// the connection free.
void Loop::complete(Connection& connection) {
  if (connection.chunks == 0) return fail(connection, Failure::empty, "a stream without a token");
  RequestRecord& record = connection.record;
  const auto count = [](int64_t said, int64_t counted) {
    return static_cast<int32_t>(std::min<int64_t>(said >= 0 ? said : counted, INT32_MAX));
  };
  record.output_tokens = count(connection.usage_completion, static_cast<int64_t>(connection.chunks));
  record.prompt_tokens = count(connection.usage_prompt, record.prompt_tokens);
  record.counted_by_server = connection.usage_completion >= 0 && connection.usage_prompt >= 0;
  end_request(connection);
  connection.state = Connection::State::draining;
  connection.ended = Clock::now();
}

void Loop::fail(Connection& connection, Failure failure, std::string_view what) {
  connection.record.failure = failure;
  FailureCount& count = run_.failures[static_cast<size_t>(failure)];
  if (count.count++ == 0) count.example = what.substr(0, kExampleBytes);
  ++failed_;
  end_request(connection);
  --in_flight_;
  drop(connection);
}

void Loop::end_request(Connection& connection) {
  ++ended_;
  last_end_ = now_s();
  connection.record.itl_ms.shrink_to_fit();
  run_.records.push_back(std::move(connection.record));
}

void Loop::recycle(Connection& connection) {
  if (!connection.http.keep_alive()) return drop(connection);
  --in_flight_;
  connection.state = Connection::State::idle;
  connection.out.clear();
  connection.sent = 0;
  connection.answered = connection.finished = false;
  connection.http.reset();
  connection.events.reset();
  connection.error_body.clear();
  connection.usage_prompt = connection.usage_completion = -1;
  connection.chunks = 0;
  idle_.push_back(&connection);
}

void Loop::drop(Connection& connection) {
  if (connection.state == Connection::State::draining) --in_flight_;
  if (connection.state == Connection::State::idle) std::erase(idle_, &connection);
  if (connection.fd >= 0) ::close(connection.fd);
  connection.fd = -1;
  const size_t place = connection.place;
  dropped_.push_back(std::move(connections_[place]));
  if (place + 1 != connections_.size()) {
    connections_[place] = std::move(connections_.back());
    connections_[place]->place = place;
  }
  connections_.pop_back();
}

}  // namespace

Result<LoadRun> run_load(const LoadOptions& options) {
  return Loop(options).run();
}

}  // namespace headrace::load
