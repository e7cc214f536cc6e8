#pragma once
// A blocking HTTP client for tests that want every byte in their hands: it sends what it is given,
// well-formed or not, and reads answers strictly. Every wait ends after a few seconds.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::testing {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool complete = false;                       // the body ended as its head promised
};

class RawConnection {
 public:
  explicit RawConnection(uint16_t port, int receive_buffer_bytes = 0);  // to 127.0.0.1
  ~RawConnection() { close(); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool connected() const { return fd_ >= 0; }
  bool send(std::string_view bytes);
  // The next answer; nothing when the connection ended or stayed silent before a whole head came.
  std::optional<RawResponse> read_response(bool head_only = false);
  // True when the peer closes without a further byte.
  bool closed_by_peer(std::chrono::milliseconds patience = std::chrono::seconds(5));
  // Bytes until `mark` has been seen, or what came before the connection ended.
  std::string read_until(std::string_view mark);
  void close();
  void reset();  // RST instead of FIN

 private:
  bool fill(std::chrono::milliseconds patience);  // false: closed or silent

  int fd_ = -1;
  bool ended_ = false;
  std::string buffer_;
};

// A request with Host, Content-Length when there is a body, and the key when it is not empty.
std::string http_request(std::string_view method, std::string_view path, std::string_view body = {},
                         std::string_view api_key = {}, std::string_view more_headers = {});
// One request on a connection of its own.
RawResponse fetch(uint16_t port, std::string_view method, std::string_view path, std::string_view body = {},
                  std::string_view api_key = {});
// The `data:` fields of a stream of server-sent events.
std::vector<std::string> sse_data(std::string_view body);

}  // namespace headrace::testing
