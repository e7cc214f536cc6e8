#pragma once
// A blocking HTTP client for files of any size: redirects are followed by hand, so that a token reaches its own host and no
// other; silence, cancellation and what a server may send are bounded. One thread at a time.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace::io {

struct HttpClientOptions {
  std::string token;         // sent as "Authorization: Bearer ..." to the origin (scheme, host, port) of `token_url` alone
  std::string token_url;
  int64_t connect_ms = 10'000;
  int64_t stall_ms = 20'000;              // a connection that brings nothing for so long is given up
  std::function<bool()> keep_going;      // asked at least once a second; false ends the request as cancelled. May be null
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // of the last answer; names in lower case
  double retry_after_seconds = 0;              // what a busy server asks for

  std::string_view header(std::string_view lower_case_name) const;
};

struct HttpRequest {
  std::string url;
  bool head = false;          // HEAD instead of GET
  uint64_t range_begin = 0;   // > 0: "Range: bytes=N-"
  // A redirect whose answer carries this header is not followed: it is the reply. "" for none.
  std::string stop_at_header;
  // For answers 200 to 299: called once before the first byte of the body, then with every piece of it. An error ends the
  // request with that error. May be null.
  std::function<Status(const HttpReply&)> on_head;
  std::function<Status(std::string_view)> on_body;
};

class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Any answer is a reply, 404 too. Errors: unavailable (no connection, or it ended early: worth another try), unauthenticated
  // (a certificate that is not trusted), malformed (not HTTP, too many redirects, a redirect away from https), cancelled, and
  // what the callbacks return.
  Result<HttpReply> perform(const HttpRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// `text` with every byte that is not plain in a URL's path percent-encoded; slashes stay.
std::string encode_path(std::string_view text);

}  // namespace headrace::io
