#pragma once
// Where the server is, and single requests to it that wait for their answer: what a load generator asks before the load.

#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace::load {

struct Endpoint {
  std::string host, port;
  std::string prefix;   // of every path: "" or "/x"; a "/v1" at the end of the URL is left out, since the paths have it
  std::string api_key;  // "": none

  std::string authority() const;  // of the Host header
};

// "http://host:port/path". Errors: invalid_argument; https is refused with what to do instead.
Result<Endpoint> parse_endpoint(std::string_view url);

// A request with the headers that it needs. `body` is JSON; empty for GET.
std::string request_bytes(const Endpoint& endpoint, std::string_view method, std::string_view path, std::string_view body);

struct HttpAnswer {
  int status = 0;
  std::string body;
};
// Errors: unavailable (no connection, no answer in time, no HTTP).
Result<HttpAnswer> call(const Endpoint& endpoint, std::string_view method, std::string_view path, std::string_view body,
                        double timeout_s);

// The addresses of an endpoint, as connect() takes them. Errors: unavailable.
struct Address {
  alignas(8) char bytes[128];
  unsigned length = 0;
  int family = 0;
};
Result<Address> resolve(const Endpoint& endpoint);

}  // namespace headrace::load
