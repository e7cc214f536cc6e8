#pragma once
// The load generator itself: one thread, one event loop (epoll), as many connections as requests are under way; kept
// connections are used again. It asks for streams and takes the time of every chunk as it arrives. Whatever a server does, a
// run ends, and memory is bounded by what was asked: requests * (a record + 4 bytes a token).

#include <cstdint>
#include <functional>
#include <string>

#include "load/endpoint.h"
#include "load/statistics.h"

namespace headrace::load {

struct Sending {
  std::string body;
  int32_t prompt_tokens = 0;  // as far as is known; `usage` says better
};

struct Progress {
  double seconds = 0;
  int64_t sent = 0, ended = 0, failed = 0, output_tokens = 0;
};

struct LoadOptions {
  Endpoint endpoint;
  std::string path = "/v1/completions";
  int64_t max_requests = 0;                       // 0: no bound; then duration_s must be one
  double duration_s = 0;                          // no request is sent after so long; 0: no bound
  int64_t concurrency = 0;                        // requests under way at most; 0: no bound
  double timeout_s = 600;                         // of one request, from its start to its end
  std::function<double()> next_arrival;           // seconds from the start, never falling
  std::function<Sending(int64_t)> request;        // the request of this number, from 0
  std::function<bool()> cancelled;                // polled; true stops the run. May be null
  std::function<void(const Progress&)> progress;  // some ten times a second; may be null
};

// Errors: unavailable when the host has no address; resource_exhausted when the system gives no event loop. What requests meet
// is counted in the run and is no error.
Result<LoadRun> run_load(const LoadOptions& options);

}  // namespace headrace::load
