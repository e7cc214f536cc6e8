#include <cmath>
#include <nlohmann/json.hpp>

#include "load/report.h"

namespace headrace::load {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

Json summary_json(const Summary& s) {
  return {{"mean", rounded(s.mean)}, {"std", rounded(s.std)}, {"min", rounded(s.min)}, {"p50", rounded(s.p50)},
          {"p90", rounded(s.p90)},   {"p99", rounded(s.p99)}, {"max", rounded(s.max)}, {"count", s.count}};
}

Json figures_json(const Figures& f, const Goal& goal) {
  Json out = {{"completed", f.completed},
              {"failed", f.failed},
              {"prompt_tokens", f.prompt_tokens},
              {"cached_tokens", f.cached_tokens},
              {"output_tokens", f.output_tokens},
              {"tokens_counted_by", f.counted_by_server ? "usage" : "chunks"},
              {"requests_per_s", rounded(f.requests_per_s)},
              {"output_tokens_per_s", rounded(f.output_tokens_per_s)},
              {"total_tokens_per_s", rounded(f.total_tokens_per_s)},
              {"ttft_ms", summary_json(f.ttft_ms)},
              {"tpot_ms", summary_json(f.tpot_ms)},
              {"itl_ms", summary_json(f.itl_ms)},
              {"e2e_ms", summary_json(f.e2e_ms)},
              {"late_ms", summary_json(f.late_ms)}};
  if (goal.any()) {
    out["goodput_requests_per_s"] = rounded(f.goodput);
    out["good_share"] = rounded(f.good_share);
  }
  return out;
}

}  // namespace

std::string report_json(const Report& report) {
  Json out = {{"date", report.date}, {"config", Json::object()}, {"note", report.note}};
  for (const auto& [name, value] : report.config) out["config"][name] = value;
  const LoadRun& run = report.run;
  out.update({{"duration_s", rounded(run.seconds)},
              {"interrupted", run.interrupted},
              {"unfinished", run.unfinished},
              {"retries", run.retries},
              {"peak_concurrency", run.peak_concurrency},
              {"client_cpu_s", rounded(run.cpu_seconds)},
              {"errors", Json::object()}});
  for (int i = 1; i < kNumFailures; ++i) {
    const FailureCount& failure = run.failures[static_cast<size_t>(i)];
    if (failure.count == 0) continue;
    out["errors"][failure_name(static_cast<Failure>(i))] = {{"count", failure.count}, {"example", failure.example}};
  }
  if (report.goal.any()) {
    out["goal"] = Json::object();
    const auto set = [&out](const char* name, double value) {
      if (value > 0) out["goal"][name] = value;
    };
    set("ttft_ms", report.goal.ttft_ms);
    set("tpot_ms", report.goal.tpot_ms);
    set("e2e_ms", report.goal.e2e_ms);
  }
  out.update(figures_json(report.figures, report.goal));
  if (report.sweep) {
    Json points = Json::array();
    for (const SweepPoint& point : report.sweep->points) {
      Json row = {{"rate", std::isinf(point.rate) ? Json("inf") : Json(rounded(point.rate))}};
      row.update(figures_json(point.figures, report.goal));
      points.push_back(std::move(row));
    }
    out["sweep"] = {{"best_rate", rounded(report.sweep->best_rate)},
                    {"failed_rate", rounded(report.sweep->failed_rate)},
                    {"points", std::move(points)}};
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace headrace::load
