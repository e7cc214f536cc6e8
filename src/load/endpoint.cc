#include "load/endpoint.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/clock.h"
#include "load/http_response.h"

namespace headrace::load {
namespace {

constexpr size_t kMaxAnswer = 64 << 20;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c <= 0x20 || c == 0x7F; });
}

}  // namespace

std::string Endpoint::authority() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + (port == "80" ? "" : ":" + port);
}

Result<Endpoint> parse_endpoint(std::string_view url) {
  const auto wrong = [url](std::string_view what) {
    return error(Code::invalid_argument, "want a URL such as http://127.0.0.1:8000, got \"{}\": {}", url, what);
  };
  if (url.starts_with("https://")) {
    return wrong("https is not supported; let a local proxy (such as nginx or socat) speak TLS and give its http address");
  }
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return wrong("it does not begin with http://");
  if (has_control(url)) return wrong("a space or control character");
  std::string_view rest = url.substr(kScheme.size());
  Endpoint out;
  std::string_view authority = rest.substr(0, rest.find('/'));
  std::string_view path = rest.substr(authority.size());
  if (authority.find('@') != authority.npos || path.find_first_of("?#") != path.npos) return wrong("user, query or fragment");
  std::string_view port;
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == authority.npos) return wrong("no ] after the address");
    out.host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
  } else {
    const size_t colon = authority.find(':');
    out.host = authority.substr(0, colon);
    port = colon == authority.npos ? std::string_view() : authority.substr(colon);
  }
  if (out.host.empty()) return wrong("no host");
  if (!port.empty()) {
    uint16_t number = 0;
    const auto [end, failure] = std::from_chars(port.data() + 1, port.data() + port.size(), number);
    if (port.front() != ':' || failure != std::errc() || end != port.data() + port.size() || number == 0)
      return wrong("a bad port");
  }
  out.port = port.empty() ? "80" : std::string(port.substr(1));
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/v1")) path.remove_suffix(3);
  out.prefix = path;
  return out;
}

std::string request_bytes(const Endpoint& endpoint, std::string_view method, std::string_view path, std::string_view body) {
  std::string out = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: headrace-bench\r\nAccept: */*\r\n", method,
                                endpoint.prefix, path, endpoint.authority());
  if (!endpoint.api_key.empty()) out += fmt::format("Authorization: Bearer {}\r\n", endpoint.api_key);
  if (!body.empty()) out += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  out += "\r\n";
  out += body;
  return out;
}

Result<Address> resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &hints, &found);
  if (failure != 0) return error(Code::unavailable, "{}: {}", endpoint.host, ::gai_strerror(failure));
  // The first address that takes a connection: "localhost" is often two, of which one is served.
  Address out;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_addrlen > sizeof(out.bytes)) continue;
    const Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    const bool reached = socket.fd() >= 0 && ::connect(socket.fd(), each->ai_addr, each->ai_addrlen) == 0;
    if (!reached && each->ai_next != nullptr) continue;
    std::memcpy(out.bytes, each->ai_addr, each->ai_addrlen);
    out.length = each->ai_addrlen;
    out.family = each->ai_family;
    break;
  }
  ::freeaddrinfo(found);
  if (out.length == 0) return error(Code::unavailable, "{}: no address", endpoint.host);
  return out;
}

Result<HttpAnswer> call(const Endpoint& endpoint, std::string_view method, std::string_view path, std::string_view body,
                        double timeout_s) {
  const std::string where = fmt::format("{} http://{}{}{}", method, endpoint.authority(), endpoint.prefix, path);
  HR_ASSIGN_OR_RETURN(const Address address, resolve(endpoint));
  const Socket socket(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const TimePoint start = Clock::now();
  timeval patience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(address.bytes), address.length) != 0) {
    return error(Code::unavailable, "{}: cannot connect: {}", where, std::strerror(errno));
  }
  const std::string bytes = request_bytes(endpoint, method, path, body);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = ::send(socket.fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<size_t>(count);
    } else if ((errno != EAGAIN && errno != EINTR) || seconds_between(start, Clock::now()) > timeout_s) {
      return error(Code::unavailable, "{}: cannot send: {}", where, std::strerror(errno));
    }
  }
  HttpResponse response;
  HttpAnswer answer;
  while (!response.done()) {
    char buffer[16 << 10];
    const ssize_t count = ::recv(socket.fd(), buffer, sizeof(buffer), 0);
    if (count == 0) response.close();
    if (count < 0 && ((errno != EAGAIN && errno != EINTR) || seconds_between(start, Clock::now()) > timeout_s)) {
      return error(Code::unavailable, "{}: no answer: {}", where, std::strerror(errno));
    }
    std::string_view input(buffer, count > 0 ? static_cast<size_t>(count) : 0);
    while (!input.empty() && !response.done() && !response.failed()) answer.body += response.take(input);
    if (response.failed()) return error(Code::unavailable, "{}: {}", where, response.failure());
    if (answer.body.size() > kMaxAnswer)
      return error(Code::unavailable, "{}: an answer of more than {} bytes", where, kMaxAnswer);
    if (seconds_between(start, Clock::now()) > timeout_s)
      return error(Code::unavailable, "{}: no whole answer in {} s", where, timeout_s);
  }
  answer.status = response.status();
  return answer;
}

}  // namespace headrace::load
