#pragma once
// A hub on loopback, for tests: one port that knows repositories and redirects large files to a second one that stores them, with
// the headers that Hugging Face's hub sends, and with faults to order. Each connection is one request.

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace headrace::testing {

struct FakeHubFile {
  std::string content;
  std::string etag;   // SHA-256 of a large file, git's SHA-1 of a small one
  bool large = true;  // large files are redirected to the storage port
};

struct FakeHubFaults {
  std::string token;              // what Authorization must carry; others get 401
  int busy = 0;                   // so many requests are answered 503
  int cuts = 0;                   // so many transfers end ...
  size_t cut_after = 0;           // ... after so many bytes of their body
  bool ignore_range = false;      // always the whole file, status 200
  bool shift_range = false;       // a 206 for another part than was asked for
  bool wrong_bytes = false;       // the first byte is another
  bool stall = false;             // transfers send half and then nothing, while the hub lives
  int slow_ms = 0;                // before each 64 KiB
  uint64_t announced_bytes = 0;   // > 0: the size that the hub gives for large files
  std::string listing;            // not "": the answer of the API
};

class FakeHub {
 public:
  struct Request {
    bool storage = false;  // came to the second port
    std::string method, path;
    std::map<std::string, std::string> headers;  // names in lower case
  };
  static constexpr std::string_view kCommit = "0123456789abcdef0123456789abcdef01234567";

  // `files` of the repository `repo` at revision main.
  FakeHub(std::string repo, std::map<std::string, FakeHubFile> files);
  ~FakeHub();
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;

  std::string endpoint() const;
  void set_faults(const FakeHubFaults& faults);
  // Those so far, in the order in which they came.
  std::vector<Request> requests() const;
  int count(std::string_view method, bool storage) const;

 private:
  struct Listener {
    int fd = -1;
    uint16_t port = 0;
    std::thread thread;
  };
  void listen(Listener& listener, bool storage);
  void serve(int fd, bool storage);
  void answer(int fd, const Request& request);
  void answer_api(int fd, const std::string& revision);
  void send_file(int fd, const Request& request, const FakeHubFile& file);

  const std::string repo_;
  const std::map<std::string, FakeHubFile> files_;
  Listener hub_, storage_;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;  // guards what follows
  FakeHubFaults faults_;
  std::vector<Request> requests_;
  std::vector<std::thread> connections_;
};

}  // namespace headrace::testing
