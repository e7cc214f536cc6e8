#include "testing/scripted_server.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace headrace::testing {
namespace {

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// One request with a Content-Length or without a body. False: the peer left.
bool receive(int fd, std::string& buffer, ScriptedRequest& out) {
  const auto fill = [&] {
    char bytes[16 << 10];
    const ssize_t count = ::recv(fd, bytes, sizeof(bytes), 0);
    if (count > 0) buffer.append(bytes, static_cast<size_t>(count));
    return count > 0;
  };
  size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return false;
  }
  out.head = buffer.substr(0, end);
  buffer.erase(0, end + 4);
  const size_t space = out.head.find(' ');
  out.method = out.head.substr(0, space);
  out.path = out.head.substr(space + 1, out.head.find(' ', space + 1) - space - 1);
  const size_t length_at = out.head.find("Content-Length: ");
  const size_t length = length_at == std::string::npos ? 0 : std::strtoull(out.head.c_str() + length_at + 16, nullptr, 10);
  while (buffer.size() < length) {
    if (!fill()) return false;
  }
  out.body = buffer.substr(0, length);
  buffer.erase(0, length);
  return true;
}

}  // namespace

ScriptedServer::ScriptedServer(std::function<ScriptedReply(const ScriptedRequest&)> script) : script_(std::move(script)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof(address);
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 4096) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  ::close(listener_);
}

void ScriptedServer::accept_all() {
  for (int fd; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      ::close(fd);
      return;
    }
    open_.push_back(fd);
    threads_.emplace_back([this, fd, connection = connections_++] { serve(fd, connection); });
  }
}

void ScriptedServer::serve(int fd, int connection) {
  std::string buffer;
  ScriptedRequest request;
  request.connection = connection;
  while (receive(fd, buffer, request)) {
    request.number = requests_++;
    const ScriptedReply reply = script_(request);
    bool sent = true;
    for (const ScriptedReply::Piece& piece : reply.pieces) {
      if (piece.delay.count() > 0) std::this_thread::sleep_for(piece.delay);
      if (!(sent = send_all(fd, piece.bytes))) break;
    }
    char byte;
    if (sent && reply.then == ScriptedReply::Then::hang) [[maybe_unused]]
      const ssize_t left = ::recv(fd, &byte, 1, 0);
    if (!sent || reply.then != ScriptedReply::Then::keep) break;
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  ::close(fd);
}

ScriptedReply::Piece stream_head() {
  return {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"};
}

ScriptedReply::Piece stream_event(const std::string& data, std::chrono::microseconds delay) {
  const std::string event = "data: " + data + "\n\n";
  return {fmt::format("{:x}\r\n{}\r\n", event.size(), event), delay};
}

ScriptedReply::Piece stream_end() {
  return {"0\r\n\r\n"};
}

ScriptedReply plain_reply(int status, const std::string& type, const std::string& body) {
  return {
      {{fmt::format("HTTP/1.1 {} X\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", status, type, body.size(), body)}}};
}

}  // namespace headrace::testing
