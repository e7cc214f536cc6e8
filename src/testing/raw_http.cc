#include "testing/raw_http.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace headrace::testing {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  return out;
}

size_t to_number(std::string_view text, int base) {
  size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

}  // namespace

RawConnection::RawConnection(uint16_t port, int receive_buffer_bytes) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) close();
}

bool RawConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool RawConnection::fill(std::chrono::milliseconds patience) {
  if (fd_ < 0 || ended_) return false;
  pollfd waited{.fd = fd_, .events = POLLIN, .revents = 0};
  if (::poll(&waited, 1, static_cast<int>(patience.count())) <= 0) return false;
  char bytes[16384];
  const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
  ended_ = n <= 0;
  if (n > 0) buffer_.append(bytes, static_cast<size_t>(n));
  return n > 0;
}

std::string RawConnection::read_until(std::string_view mark) {
  size_t at;
  while ((at = buffer_.find(mark)) == std::string::npos) {
    if (!fill(kPatience)) return std::exchange(buffer_, {});
  }
  std::string taken = buffer_.substr(0, at + mark.size());
  buffer_.erase(0, taken.size());
  return taken;
}

std::optional<RawResponse> RawConnection::read_response(bool head_only) {
  const std::string head = read_until("\r\n\r\n");
  if (!head.starts_with("HTTP/1.1 ") || !head.ends_with("\r\n\r\n")) return std::nullopt;
  RawResponse response{.status = static_cast<int>(to_number(std::string_view(head).substr(9, 3), 10))};
  for (size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
    const size_t end = head.find("\r\n", at);
    const std::string_view line = std::string_view(head).substr(at, end - at);
    const size_t colon = line.find(": ");
    if (colon == line.npos) return std::nullopt;
    response.headers[lower(line.substr(0, colon))] = line.substr(colon + 2);
    at = end + 2;
  }
  if (head_only) {
    response.complete = true;
  } else if (response.headers.contains("content-length")) {
    const size_t length = to_number(response.headers["content-length"], 10);
    while (buffer_.size() < length && fill(kPatience)) {
    }
    response.complete = buffer_.size() >= length;
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, response.body.size());
  } else if (response.headers.contains("transfer-encoding")) {
    for (;;) {
      const std::string line = read_until("\r\n");
      const size_t length = to_number(line, 16);
      if (!line.ends_with("\r\n")) break;
      while (buffer_.size() < length + 2 && fill(kPatience)) {
      }
      if (buffer_.size() < length + 2) break;
      response.body += buffer_.substr(0, length);
      buffer_.erase(0, length + 2);
      response.complete = length == 0;
      if (response.complete) break;
    }
  } else {
    while (fill(kPatience)) {
    }
    response.body = std::exchange(buffer_, {});
    response.complete = ended_;
  }
  return response;
}

bool RawConnection::closed_by_peer(std::chrono::milliseconds patience) {
  if (!buffer_.empty()) return false;
  if (fill(patience)) return false;
  return ended_ || fd_ < 0;
}

void RawConnection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void RawConnection::reset() {
  const linger hard{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  close();
}

std::string http_request(std::string_view method, std::string_view path, std::string_view body,
                         std::string_view api_key, std::string_view more_headers) {
  std::string request = fmt::format("{} {} HTTP/1.1\r\nHost: test\r\n{}", method, path, more_headers);
  if (!api_key.empty()) request += fmt::format("Authorization: Bearer {}\r\n", api_key);
  if (!body.empty() || method == "POST") {
    request += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  }
  return request.append("\r\n").append(body);
}

RawResponse fetch(uint16_t port, std::string_view method, std::string_view path, std::string_view body,
                  std::string_view api_key) {
  RawConnection connection(port);
  connection.send(http_request(method, path, body, api_key));
  return connection.read_response(method == "HEAD").value_or(RawResponse{});
}

std::vector<std::string> sse_data(std::string_view body) {
  std::vector<std::string> data;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find("\n\n", at), body.size());
    const std::string_view event = body.substr(at, end - at);
    if (event.starts_with("data: ")) data.emplace_back(event.substr(6));
    at = end + 2;
  }
  return data;
}

}  // namespace headrace::testing
