#include "load/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headrace::load {

const char* failure_name(Failure failure) {
  constexpr const char* kNames[kNumFailures] = {"none",        "connect",   "timeout",      "closed",
                                                "http_status", "malformed", "stream_error", "empty"};
  return kNames[static_cast<int>(failure)];
}

double percentile(const std::vector<double>& sorted, double percent) {
  if (sorted.empty()) return 0;
  const double rank = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - static_cast<double>(below));
}

Summary summarize(std::vector<double> values) {
  Summary out;
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  out.count = static_cast<int64_t>(values.size());
  out.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  out.std = std::sqrt(squares / count);
  out.min = values.front();
  out.p50 = percentile(values, 50);
  out.p90 = percentile(values, 90);
  out.p99 = percentile(values, 99);
  out.max = values.back();
  return out;
}

bool Goal::met(const RequestRecord& record) const {
  return record.failure == Failure::none && (ttft_ms <= 0 || record.ttft_ms <= ttft_ms) &&
         (tpot_ms <= 0 || record.tpot_ms() <= tpot_ms) && (e2e_ms <= 0 || record.e2e_ms <= e2e_ms);
}

Figures figures_of(const LoadRun& run, const Goal& goal) {
  Figures out;
  std::vector<double> ttft, tpot, itl, e2e, late;
  for (const RequestRecord& record : run.records) {
    if (record.failure != Failure::none) {
      ++out.failed;
      continue;
    }
    ++out.completed;
    out.good += goal.met(record) ? 1 : 0;
    out.prompt_tokens += record.prompt_tokens;
    out.output_tokens += record.output_tokens;
    out.cached_tokens += record.cached_tokens;
    out.counted_by_server = out.counted_by_server && record.counted_by_server;
    ttft.push_back(record.ttft_ms);
    e2e.push_back(record.e2e_ms);
    late.push_back(record.late_ms);
    if (record.output_tokens > 1) tpot.push_back(record.tpot_ms());
    itl.insert(itl.end(), record.itl_ms.begin(), record.itl_ms.end());
  }
  if (run.seconds > 0) {
    out.requests_per_s = static_cast<double>(out.completed) / run.seconds;
    out.output_tokens_per_s = static_cast<double>(out.output_tokens) / run.seconds;
    out.total_tokens_per_s = static_cast<double>(out.output_tokens + out.prompt_tokens) / run.seconds;
    out.goodput = static_cast<double>(out.good) / run.seconds;
  }
  if (!run.records.empty()) out.good_share = static_cast<double>(out.good) / static_cast<double>(run.records.size());
  out.ttft_ms = summarize(std::move(ttft));
  out.tpot_ms = summarize(std::move(tpot));
  out.itl_ms = summarize(std::move(itl));
  out.e2e_ms = summarize(std::move(e2e));
  out.late_ms = summarize(std::move(late));
  return out;
}

}  // namespace headrace::load
