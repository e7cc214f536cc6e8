#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "load/plot.h"
#include "load/report.h"

namespace headrace::load {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --back: #fbfbfa; --card: #ffffff; --ink: #1d2327; --soft: #66707a; --rule: #e2e5e8;
  --c0: #1668b8; --c1: #c2571a; --c2: #2c8a4b; --c3: #8a4fb3; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --card: #1c2024; --ink: #e6e9ec; --soft: #98a2ac;
  --rule: #31373d;
  --c0: #6db3f2; --c1: #f0a070; --c2: #7fd49a; --c3: #c79be8; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1160px; padding: 28px 20px 60px; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 17px; margin: 34px 0 10px; } .sub, .note { color: var(--soft);
  margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; margin-top: 22px; }
.tile, figure, .table { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
.tile { padding: 12px 16px; } .tile b { display: block; font-size: 24px; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 14px; }
figure { margin: 0; padding: 8px; } svg { display: block; width: 100%; height: auto; }
.table { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 14px; text-align: right; border-top: 1px solid var(--rule); white-space: nowrap; }
tr:first-child > * { border-top: 0; } th { color: var(--soft); font-weight: 500; }
td:first-child, th:first-child { text-align: left; } td.wide { text-align: left; white-space: normal;
  overflow-wrap: anywhere; }
tr.best td { font-weight: 600; color: var(--c2); } .bad { color: var(--bad); }
svg text { fill: var(--soft); font: 11.5px system-ui, sans-serif; } svg .title { fill: var(--ink); font-size: 13px;
  font-weight: 600; }
svg .x { text-anchor: middle; } svg .y, svg .legend { text-anchor: end; } .grid { stroke: var(--rule); stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); }
  .c2 { stroke: var(--c2); }
.c3 { stroke: var(--c3); } .dot { fill: var(--card); stroke-width: 2; } svg .t0 { fill: var(--c0); }
  svg .t1 { fill: var(--c1); }
svg .t2 { fill: var(--c2); } svg .t3 { fill: var(--c3); }
)";

constexpr int kCurvePoints = 200, kTimeBins = 120;

std::string figure(const Plot& plot) {
  return "<figure>" + plot_svg(plot) + "</figure>\n";
}

// The share of values up to x, as far as the 99.9th percentile: one straggler should not squeeze the rest.
Plot cdf(std::string title, std::vector<double> values) {
  Plot plot{.title = std::move(title), .x_label = "ms", .y_label = "share of them", .y_max = 1};
  std::sort(values.begin(), values.end());
  Line line;
  for (int i = 0; i <= kCurvePoints && !values.empty(); ++i) {
    const double percent = 99.9 * i / kCurvePoints;
    line.points.emplace_back(percentile(values, percent), percent / 100);
  }
  plot.lines.push_back(std::move(line));
  return plot;
}

// Output tokens a second, and requests under way, over the run.
std::string over_time(const LoadRun& run) {
  if (run.seconds <= 0) return "";
  const double width = run.seconds / kTimeBins;
  std::vector<double> tokens(kTimeBins), requests(kTimeBins);
  const auto bin = [&](double seconds) { return std::clamp(static_cast<int>(seconds / width), 0, kTimeBins - 1); };
  for (const RequestRecord& record : run.records) {
    if (record.failure != Failure::none) continue;
    const double weight = static_cast<double>(record.output_tokens) / static_cast<double>(record.itl_ms.size() + 1);
    double at = record.start_s + record.ttft_ms * 1e-3;
    tokens[bin(at)] += weight / width;
    for (const float gap : record.itl_ms) tokens[bin(at += gap * 1e-3)] += weight / width;
    const double end = record.start_s + record.e2e_ms * 1e-3;
    for (int i = bin(record.start_s); i <= bin(end); ++i) {
      requests[i] += (std::min(end, (i + 1) * width) - std::max(record.start_s, i * width)) / width;
    }
  }
  Line token_line, request_line;
  for (int i = 0; i < kTimeBins; ++i) {
    token_line.points.emplace_back((i + 0.5) * width, tokens[i]);
    request_line.points.emplace_back((i + 0.5) * width, requests[i]);
  }
  return figure({.title = "Output tokens over time", .x_label = "s", .y_label = "tokens/s", .lines = {token_line}}) +
         figure({.title = "Requests under way", .x_label = "s", .y_label = "requests", .lines = {request_line}});
}

std::string distributions(const LoadRun& run) {
  std::vector<double> ttft, itl, e2e;
  for (const RequestRecord& record : run.records) {
    if (record.failure != Failure::none) continue;
    ttft.push_back(record.ttft_ms);
    e2e.push_back(record.e2e_ms);
    itl.insert(itl.end(), record.itl_ms.begin(), record.itl_ms.end());
  }
  return figure(cdf("Time to first token", std::move(ttft))) + figure(cdf("Inter-token latency", std::move(itl))) +
         figure(cdf("End-to-end latency", std::move(e2e)));
}

std::string summary_table(const Figures& figures) {
  std::string out =
      "<div "
      "class=\"table\"><table><tr><th>ms</th><th>mean</th><th>std</th><th>min</th><th>p50</th><th>p90</th><th>p99</th><th>max</"
      "th></tr>\n";
  const auto row = [&out](const char* name, const Summary& s) {
    out += fmt::format(
        "<tr><td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.2f}</"
        "td></tr>\n",
        name, s.mean, s.std, s.min, s.p50, s.p90, s.p99, s.max);
  };
  row("Time to first token (TTFT)", figures.ttft_ms);
  row("Time per output token (TPOT)", figures.tpot_ms);
  row("Inter-token latency (ITL)", figures.itl_ms);
  row("End-to-end latency (E2E)", figures.e2e_ms);
  row("Sent behind its time", figures.late_ms);
  return out + "</table></div>\n";
}

std::string sweep_section(const SweepResult& sweep) {
  std::vector<const SweepPoint*> points;
  for (const SweepPoint& point : sweep.points) points.push_back(&point);
  std::sort(points.begin(), points.end(), [](const SweepPoint* a, const SweepPoint* b) { return a->rate < b->rate; });
  Line goodput{.name = "goodput", .dots = true}, offered{.name = "completed", .dots = true};
  Line ttft{.name = "TTFT p99", .dots = true}, tpot{.name = "TPOT p99", .dots = true};
  std::string rows;
  for (const SweepPoint* point : points) {
    const Figures& f = point->figures;
    rows += fmt::format(
        "<tr{}><td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.1f}%</td><td>{:.0f}</td><td>{:.1f}</td><td>{:.2f}</"
        "td><td>{:.1f}</td><td>{}</td></tr>\n",
        point->rate == sweep.best_rate ? " class=\"best\"" : "",
        std::isinf(point->rate) ? "all at once" : fmt::format("{:.2f}", point->rate), f.requests_per_s, f.goodput,
        f.good_share * 100, f.output_tokens_per_s, f.ttft_ms.p99, f.tpot_ms.p99, f.e2e_ms.p99, f.failed);
    if (std::isinf(point->rate)) continue;
    goodput.points.emplace_back(point->rate, f.goodput);
    offered.points.emplace_back(point->rate, f.requests_per_s);
    ttft.points.emplace_back(point->rate, f.ttft_ms.p99);
    tpot.points.emplace_back(point->rate, f.tpot_ms.p99);
  }
  std::string out = "<h2>Sweep over rates</h2>\n<div class=\"plots\">\n";
  if (!goodput.points.empty()) {
    out += figure({.title = "Requests that meet the goal",
                   .x_label = "requests/s sent",
                   .y_label = "requests/s",
                   .lines = {goodput, offered}});
    out += figure({.title = "TTFT, 99th percentile", .x_label = "requests/s sent", .y_label = "ms", .lines = {ttft}});
    out += figure({.title = "TPOT, 99th percentile", .x_label = "requests/s sent", .y_label = "ms", .lines = {tpot}});
  }
  return out +
         "</div>\n<p></p><div class=\"table\"><table><tr><th>rate sent</th><th>requests/s</th><th>goodput</th><th>met the "
         "goal</th>"
         "<th>output tokens/s</th><th>TTFT p99</th><th>TPOT p99</th><th>E2E p99</th><th>failed</th></tr>\n" +
         rows + "</table></div>\n";
}

std::string errors_section(const LoadRun& run) {
  std::string rows;
  for (int i = 1; i < kNumFailures; ++i) {
    const FailureCount& failure = run.failures[static_cast<size_t>(i)];
    if (failure.count == 0) continue;
    rows += fmt::format("<tr><td class=\"bad\">{}</td><td>{}</td><td class=\"wide\">{}</td></tr>\n",
                        failure_name(static_cast<Failure>(i)), failure.count, escape_html(failure.example));
  }
  if (rows.empty()) return "";
  return "<h2>Failures</h2>\n<div class=\"table\"><table><tr><th>kind</th><th>requests</th><th style=\"text-align:left\">the "
         "first</th></tr>\n" +
         rows + "</table></div>\n";
}

}  // namespace

std::string report_html(const Report& report) {
  const Figures& f = report.figures;
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">\n"
      "<title>headrace bench serve</title>\n<style>" +
      std::string(kStyle) + "</style></head><body>\n";
  out += fmt::format("<h1>Load test</h1>\n<p class=\"sub\">{} &middot; {:.1f} s &middot; {} of {} requests answered{}</p>\n",
                     escape_html(report.date), report.run.seconds, f.completed, f.completed + f.failed + report.run.unfinished,
                     report.run.interrupted ? " &middot; stopped before its end" : "");
  if (!report.note.empty()) out += fmt::format("<p class=\"note\">{}</p>\n", escape_html(report.note));
  const auto tile = [&out](std::string_view value, std::string_view name) {
    out += fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", value, name);
  };
  out += "<div class=\"tiles\">\n";
  if (report.sweep) tile(fmt::format("{:.2f}", report.sweep->best_rate), "requests/s at most within the goal");
  tile(fmt::format("{:.2f}", f.requests_per_s), "requests/s");
  tile(fmt::format("{:.0f}", f.output_tokens_per_s), "output tokens/s");
  tile(fmt::format("{:.0f}", f.total_tokens_per_s), "total tokens/s");
  if (report.goal.any()) tile(fmt::format("{:.1f}%", f.good_share * 100), fmt::format("met the goal ({:.2f}/s)", f.goodput));
  tile(fmt::format("{:.1f} ms", f.ttft_ms.p50), fmt::format("TTFT, median (p99 {:.1f})", f.ttft_ms.p99));
  tile(fmt::format("{:.2f} ms", f.tpot_ms.p50), fmt::format("TPOT, median (p99 {:.2f})", f.tpot_ms.p99));
  out += "</div>\n";
  if (report.sweep) out += sweep_section(*report.sweep);
  out += "<h2>Latencies</h2>\n" + summary_table(f);
  out += "<h2>Distributions</h2>\n<div class=\"plots\">\n" + distributions(report.run) + "</div>\n";
  out += "<h2>Over time</h2>\n<div class=\"plots\">\n" + over_time(report.run) + "</div>\n" + errors_section(report.run);
  out += "<h2>Configuration</h2>\n<div class=\"table\"><table>\n";
  for (const auto& [name, value] : report.config) {
    out += fmt::format("<tr><td>{}</td><td class=\"wide\">{}</td></tr>\n", escape_html(name), escape_html(value));
  }
  return out + "</table></div>\n</body></html>\n";
}

}  // namespace headrace::load
