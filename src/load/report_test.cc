#include "load/report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "load/plot.h"

namespace headrace::load {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Report some_report() {
  Report report;
  report.date = "2026-01-02T03:04:05Z";
  report.config = {{"url", "http://h<script>"}, {"model", "m & \"co\""}};
  report.note = "a note";
  report.goal = {.ttft_ms = 60};
  report.run.seconds = 2;
  report.run.retries = 1;
  for (int i = 0; i < 3; ++i) {
    RequestRecord record;
    record.start_s = 0.1 * i;
    record.ttft_ms = 50 + 20 * i;
    record.itl_ms = {10, 20};
    record.e2e_ms = record.ttft_ms + 30;
    record.prompt_tokens = 4;
    record.output_tokens = 3;
    record.counted_by_server = true;
    report.run.records.push_back(record);
  }
  report.run.records[2].failure = Failure::http_status;
  report.run.failures[static_cast<size_t>(Failure::http_status)] = {1, "429: <b>busy\xff"};
  report.figures = figures_of(report.run, report.goal);
  return report;
}

TEST(Report, JsonHasTheFieldsOfTheContract) {
  Report report = some_report();
  report.sweep = SweepResult{{{INFINITY, report.figures}, {1.5, report.figures}}, 0, 1.5};
  const auto json = nlohmann::ordered_json::parse(report_json(report));
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("date", "config", "note", "duration_s", "interrupted", "unfinished", "retries",
                                            "peak_concurrency", "client_cpu_s", "errors", "goal", "completed", "failed",
                                            "prompt_tokens", "cached_tokens", "output_tokens", "tokens_counted_by",
                                            "requests_per_s", "output_tokens_per_s", "total_tokens_per_s", "ttft_ms", "tpot_ms",
                                            "itl_ms", "e2e_ms", "late_ms", "goodput_requests_per_s", "good_share", "sweep"));
  EXPECT_EQ(json["completed"], 2);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["output_tokens"], 6);
  EXPECT_EQ(json["output_tokens_per_s"], 3.0);
  EXPECT_EQ(json["total_tokens_per_s"], 7.0);
  EXPECT_EQ(json["goodput_requests_per_s"], 0.5);
  EXPECT_EQ(json["ttft_ms"]["mean"], 60.0);
  EXPECT_EQ(json["itl_ms"]["p50"], 15.0);
  EXPECT_EQ(json["errors"]["http_status"]["count"], 1);
  EXPECT_EQ(json["goal"], (nlohmann::ordered_json{{"ttft_ms", 60.0}}));
  EXPECT_EQ(json["sweep"]["points"][0]["rate"], "inf");
  EXPECT_EQ(json["sweep"]["points"][1]["rate"], 1.5);
  EXPECT_EQ(json["sweep"]["failed_rate"], 1.5);
}

TEST(Report, TheHtmlStandsAloneAndShowsForeignTextAsText) {
  Report report = some_report();
  report.sweep = SweepResult{{{INFINITY, report.figures}, {1.5, report.figures}, {0.5, report.figures}}, 0.5, 1.5};
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr("http://h&lt;script&gt;"));
  EXPECT_THAT(html, HasSubstr("m &amp; &quot;co&quot;"));
  EXPECT_THAT(html, HasSubstr("429: &lt;b&gt;busy"));
  for (const char* reference : {"<script", " src=", "href=", "url(", "@import"}) EXPECT_THAT(html, Not(HasSubstr(reference)));
  for (const char* plot : {"Time to first token", "Inter-token latency", "End-to-end latency", "Output tokens over time",
                           "Requests under way", "Requests that meet the goal", "TTFT, 99th percentile"}) {
    EXPECT_THAT(html, HasSubstr(std::string("aria-label=\"") + plot));
  }
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("inf<")));
}

TEST(Report, ARunWithoutAnAnswerIsReportedToo) {
  Report report;
  report.figures = figures_of(report.run, report.goal);
  EXPECT_EQ(nlohmann::json::parse(report_json(report))["completed"], 0);
  EXPECT_THAT(report_html(report), Not(HasSubstr("nan")));
}

TEST(Plot, PointsLieWhereTheScaleSays) {
  // The frame: x from 58 to 506, y from 216 down to 30.
  const std::string svg = plot_svg({.title = "t",
                                    .x_label = "x",
                                    .y_label = "y",
                                    .lines = {{.name = "a", .points = {{0, 0}, {5, 1}, {10, 2}}}},
                                    .y_max = 2});
  EXPECT_THAT(svg, HasSubstr("points=\"58.0,216.0 282.0,123.0 506.0,30.0 \""));
}

}  // namespace
}  // namespace headrace::load
