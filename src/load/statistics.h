#pragma once
// What was measured of each request, and the figures made of it. docs/load_testing.md defines every one; the definitions of
// TTFT, TPOT and inter-token latency are those of vLLM's `bench serve`.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace headrace::load {

enum class Failure : uint8_t {
  none,
  connect,       // no connection
  timeout,       // no end within --timeout
  closed,        // the connection ended before the answer did
  http_status,   // an answer other than 200
  malformed,     // not HTTP, not a stream of events, or an event that is no JSON object
  stream_error,  // the stream carried an error
  empty,         // the stream ended properly without a token
};
inline constexpr int kNumFailures = 8;
const char* failure_name(Failure failure);

struct RequestRecord {
  double start_s = 0;         // since the run began: the first byte, or the connection, was asked for
  double late_ms = 0;         // behind its time of arrival: waiting for --concurrency, or the load generator itself
  double ttft_ms = 0;         // to the first chunk with a token
  double e2e_ms = 0;          // to the last chunk with a token
  std::vector<float> itl_ms;  // between successive chunks with a token
  int32_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
  bool counted_by_server = false;  // the tokens, in `usage`; else chunks were counted, and prompt tokens are what was asked
  Failure failure = Failure::none;
  int32_t http_status = 0;

  // Mean time of a token after the first; 0 with fewer than two.
  double tpot_ms() const { return output_tokens < 2 ? 0.0 : (e2e_ms - ttft_ms) / (output_tokens - 1); }
};

// Linear interpolation between closest ranks, as numpy's default; 0 of nothing. `sorted` rises.
double percentile(const std::vector<double>& sorted, double percent);

struct Summary {
  int64_t count = 0;
  double mean = 0, std = 0, min = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};
Summary summarize(std::vector<double> values);

// What a request must keep to count as good; 0: not asked.
struct Goal {
  double ttft_ms = 0, tpot_ms = 0, e2e_ms = 0;
  bool any() const { return ttft_ms > 0 || tpot_ms > 0 || e2e_ms > 0; }
  bool met(const RequestRecord& record) const;
};

struct FailureCount {
  int64_t count = 0;
  std::string example;  // the first
};

// All that a run leaves behind.
struct LoadRun {
  std::vector<RequestRecord> records;  // of requests that ended, well or not, in the order of their end
  std::array<FailureCount, kNumFailures> failures;
  double seconds = 0;      // from the first request to the last end
  int64_t unfinished = 0;  // under way when the run was stopped
  int64_t retries = 0;     // sent again since a kept connection had been closed by the server meanwhile
  int64_t peak_concurrency = 0;
  double cpu_seconds = 0;  // of this process
  bool interrupted = false;
};

struct Figures {
  int64_t completed = 0, failed = 0, good = 0;
  int64_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
  bool counted_by_server = true;  // of every completed request
  double requests_per_s = 0, output_tokens_per_s = 0, total_tokens_per_s = 0;
  double goodput = 0;     // requests a second that met the goal
  double good_share = 0;  // of all that ended, the failed ones included
  Summary ttft_ms, tpot_ms, itl_ms, e2e_ms, late_ms;
};
Figures figures_of(const LoadRun& run, const Goal& goal);

}  // namespace headrace::load
