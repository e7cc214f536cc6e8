// `headrace graph bench`: how long a run of an ONNX model takes.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/graph_options.h"
#include "cli/model_options.h"
#include "ops/library_plugin.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAboutBench =
    "headrace graph bench - measure how long a run of an ONNX model takes\n\n"
    "One run that does not count and takes in compiling, then --runs of them, one after another.";
constexpr std::string_view kExamplesBench = "  headrace graph bench model.onnx --random 1 --runs 20\n";

}  // namespace

Status graph_bench(const std::vector<std::string>& args) {
  Options options("graph bench", kAboutBench, kExamplesBench);
  GraphOptions wanted;
  int64_t runs = 10;
  bool json = false;
  wanted.declare(options);
  options.integer(runs, "--runs", "N", "How many runs are measured", 1, 1'000'000);
  options.flag(json, "--json", "Print one JSON object");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};

  if (!wanted.no_library) (void)load_onednn_plugin();  // once a process, not once a model; where it is missing, explain says why
  const TimePoint start = Clock::now();
  HR_ASSIGN_OR_RETURN(const onnx::Session session, wanted.open());
  double load_s = seconds_between(start, Clock::now());
  HR_ASSIGN_OR_RETURN(const auto inputs, wanted.make_inputs(session));
  std::vector<double> milliseconds;
  uint64_t peak_bytes = 0;
  for (int64_t i = -1; i < runs; ++i) {
    const TimePoint begin = Clock::now();
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const auto outputs, session.run(inputs));
    const double seconds = seconds_between(begin, Clock::now());
    if (i >= 0) {
      milliseconds.push_back(1e3 * seconds);
    } else {
      load_s += seconds;
      peak_bytes = peak_rss_bytes();
    }
  }
  std::ranges::sort(milliseconds);
  const double median = milliseconds[milliseconds.size() / 2], best = milliseconds.front();
  if (json) {
    const nlohmann::ordered_json line = {{"model", wanted.model}, {"runs", runs},     {"median_ms", median},
                                         {"best_ms", best},       {"load_s", load_s}, {"peak_bytes", peak_bytes}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{:.4g} ms a run (median of {}), best {:.4g} ms; {:.3g} s from the file to the end of the first run, peak memory {:.0f} MB\n", median,
               runs, best, load_s, static_cast<double>(peak_bytes) * 1e-6);
  }
  return {};
}

}  // namespace headrace::cli
