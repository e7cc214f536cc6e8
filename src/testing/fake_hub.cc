// Sockets and answers of the fake hub.
#include "testing/fake_hub.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace headrace::testing {
namespace {

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

void send_answer(int fd, std::string_view status, std::string_view headers, std::string_view body = {}, bool head_only = false) {
  send_all(fd, fmt::format("HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(), headers,
                           head_only ? "" : body));
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

}  // namespace

FakeHub::FakeHub(std::string repo, std::map<std::string, FakeHubFile> files) : repo_(std::move(repo)), files_(std::move(files)) {
  listen(hub_, false);
  listen(storage_, true);
}

FakeHub::~FakeHub() {
  stopping_ = true;
  for (Listener* listener : {&hub_, &storage_}) {
    ::shutdown(listener->fd, SHUT_RDWR);
    listener->thread.join();
    ::close(listener->fd);
  }
  for (std::thread& connection : connections_) connection.join();
}

std::string FakeHub::endpoint() const { return fmt::format("http://127.0.0.1:{}", hub_.port); }

void FakeHub::set_faults(const FakeHubFaults& faults) {
  const std::lock_guard lock(mutex_);
  faults_ = faults;
}

std::vector<FakeHub::Request> FakeHub::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int FakeHub::count(std::string_view method, bool storage) const {
  const std::vector<Request> all = requests();
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const Request& request) {
    return request.method == method && request.storage == storage;
  }));
}

void FakeHub::listen(Listener& listener, bool storage) {
  listener.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener.fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener.fd, 64) != 0 ||
      ::getsockname(listener.fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  listener.port = ntohs(address.sin_port);
  listener.thread = std::thread([this, storage, fd = listener.fd] {
    while (true) {
      const int connection = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      const std::lock_guard lock(mutex_);
      connections_.emplace_back([this, connection, storage] {
        serve(connection, storage);
        ::close(connection);
      });
    }
  });
}

void FakeHub::serve(int fd, bool storage) {
  std::string text;
  while (text.find("\r\n\r\n") == text.npos) {
    char piece[4096];
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, 50) == 0) {
      if (stopping_) return;
      continue;
    }
    const ssize_t got = ::recv(fd, piece, sizeof piece, 0);
    if (got <= 0) return;
    text.append(piece, static_cast<size_t>(got));
  }
  Request request{.storage = storage};
  request.method = text.substr(0, text.find(' '));
  const size_t path = request.method.size() + 1;
  request.path = text.substr(path, text.find(' ', path) - path);
  for (size_t at = text.find("\r\n") + 2; text.compare(at, 2, "\r\n") != 0;) {
    const size_t end = text.find("\r\n", at), colon = text.find(": ", at);
    request.headers[lower(text.substr(at, colon - at))] = text.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  answer(fd, request);
}

void FakeHub::answer(int fd, const Request& request) {
  FakeHubFaults faults;
  {
    const std::lock_guard lock(mutex_);
    faults = faults_;
    if (faults_.busy > 0) --faults_.busy;
  }
  if (faults.busy > 0) return send_answer(fd, "503 Service Unavailable", "");
  if (request.storage) {
    const auto file = files_.find(request.path.substr(1));
    return file == files_.end() ? send_answer(fd, "404 Not Found", "") : send_file(fd, request, file->second);
  }
  const auto authorization = request.headers.find("authorization");
  if (!faults.token.empty() && (authorization == request.headers.end() || authorization->second != "Bearer " + faults.token)) {
    return send_answer(fd, "401 Unauthorized", "X-Error-Code: RepoNotFound\r\n");
  }
  const std::string api = "/api/models/" + repo_ + "/revision/";
  if (request.path.starts_with(api)) return answer_api(fd, request.path.substr(api.size()));
  const std::string resolve = fmt::format("/{}/resolve/{}/", repo_, kCommit);
  if (!request.path.starts_with(resolve)) return send_answer(fd, "404 Not Found", "X-Error-Code: RepoNotFound\r\n");
  const auto found = files_.find(request.path.substr(resolve.size()));
  if (found == files_.end()) return send_answer(fd, "404 Not Found", "X-Error-Code: EntryNotFound\r\n");
  const FakeHubFile& file = found->second;
  if (!file.large) return send_file(fd, request, file);
  const uint64_t size = faults.announced_bytes > 0 ? faults.announced_bytes : file.content.size();
  send_answer(fd, "302 Found",
              fmt::format("Location: http://127.0.0.1:{}/{}\r\nX-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\nX-Repo-Commit: {}\r\n",
                          storage_.port, found->first, file.etag, size, kCommit));
}

void FakeHub::answer_api(int fd, const std::string& revision) {
  if (revision != "main" && revision != kCommit && revision != "refs%2Fpr%2F1") {
    return send_answer(fd, "404 Not Found", "X-Error-Code: RevisionNotFound\r\n");
  }
  std::string body;
  {
    const std::lock_guard lock(mutex_);
    body = faults_.listing;
  }
  if (body.empty()) {
    for (const auto& [name, file] : files_) body += fmt::format("{}{{\"rfilename\":\"{}\"}}", body.empty() ? "" : ",", name);
    body = fmt::format(R"({{"id":"{}","sha":"{}","siblings":[{}]}})", repo_, kCommit, body);
  }
  send_answer(fd, "200 OK", "Content-Type: application/json\r\n", body);
}

void FakeHub::send_file(int fd, const Request& request, const FakeHubFile& file) {
  FakeHubFaults faults;
  const bool head_only = request.method == "HEAD";
  {
    const std::lock_guard lock(mutex_);
    faults = faults_;
    if (!head_only && faults_.cuts > 0) --faults_.cuts;
  }
  size_t begin = 0;
  const size_t size = file.content.size();
  const auto range = request.headers.find("range");
  if (range != request.headers.end() && !faults.ignore_range) {
    begin = std::strtoull(range->second.c_str() + std::string_view("bytes=").size(), nullptr, 10);
    if (begin >= size) return send_answer(fd, "416 Range Not Satisfiable", fmt::format("Content-Range: bytes */{}\r\n", size));
  }
  std::string body = file.content.substr(begin);
  if (faults.wrong_bytes && !body.empty()) body[0] = static_cast<char>(body[0] ^ 1);
  std::string head = begin > 0 ? "HTTP/1.1 206 Partial Content\r\n" : "HTTP/1.1 200 OK\r\n";
  if (begin > 0) head += fmt::format("Content-Range: bytes {}-{}/{}\r\n", begin + (faults.shift_range ? 1 : 0), size - 1, size);
  head += fmt::format("Connection: close\r\nContent-Length: {}\r\nETag: \"{}\"\r\n\r\n", body.size(), file.etag);
  if (!send_all(fd, head) || head_only) return;
  std::string_view rest = body;
  if (faults.cuts > 0) rest = rest.substr(0, faults.cut_after);
  if (faults.stall) rest = rest.substr(0, rest.size() / 2);
  while (!rest.empty()) {
    if (faults.slow_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(faults.slow_ms));
    const std::string_view piece = rest.substr(0, size_t{64} << 10);
    if (!send_all(fd, piece)) return;
    rest.remove_prefix(piece.size());
  }
  while (faults.stall && !stopping_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace headrace::testing
