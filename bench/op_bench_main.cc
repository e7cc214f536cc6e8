// op_bench: times the ops' bench cases on this machine or its device, one JSON line a row; --support prints the support table of
// docs/ops.md.
#include <CLI/CLI.hpp>
#include <map>

#include "ops/device_plugin.h"
#include "ops/library_plugin.h"
#include "runtime/thread_team.h"
#include "testing/op_bench.h"

namespace {

using headrace::testing::BenchOptions;
using headrace::testing::BenchRow;
using headrace::testing::RunOnTeam;

int bench(const BenchOptions& options) {
  std::map<int, std::unique_ptr<headrace::runtime::ThreadTeam>> teams;
  const auto make_team = [&](int threads) -> RunOnTeam {
    auto& team = teams[threads];
    if (team == nullptr) team = std::make_unique<headrace::runtime::ThreadTeam>(threads);
    return [&team = *team](const std::function<void(headrace::Team&)>& work) { team.run(work); };
  };
  const headrace::Status status =
      headrace::testing::run_op_bench(options, make_team, [](const BenchRow& row) {
        fmt::print("{}\n", row.to_json());
        std::fflush(stdout);
      });
  if (status.ok()) return 0;
  fmt::print(stderr, "op_bench: {}\n", status.to_string());
  return headrace::exit_code(status.code());
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  bool support = false;
  std::string device = "cpu";
  CLI::App app("Times each op's bench cases, one JSON line a row.");
  app.add_option("--op", options.op, "Only this op");
  app.add_option("--case", options.case_filter, "Only cases whose name holds this");
  app.add_option("--phase", options.phase, "Only cases of this phase: prefill, decode, or h200, which a device alone runs");
  app.add_option("--device", device, "cpu, or cuda: the kernels of the plug-in on the first device")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--isa", options.isa, "Only this instruction set: generic, avx2 or avx512");
  app.add_option("--threads", options.threads, "Team sizes, e.g. --threads 1 2")->check(CLI::Range(1, 1024));
  app.add_option("--seconds", options.seconds, "Measuring time of a row")->check(CLI::Range(0.01, 60.0));
  app.add_option("--roof-gb-per-s", options.roof_gb_per_s, "Memory bandwidth to compare with");
  app.add_option("--roof-tflop-per-s", options.roof_tflop_per_s, "Arithmetic peak to compare with");
  app.add_flag("--cold", options.cold, "Go through copies of the data that pass the caches");
  app.add_flag("--support", support, "Print the support table and end");
  CLI11_PARSE(app, argc, argv);
  if (const auto plugin = headrace::load_onednn_plugin(); !plugin && device == "cpu") {
    fmt::print(stderr, "op_bench: {}\n", plugin.error().message());
  }
  if (device == "cuda") {
    options.device = headrace::DeviceKind::cuda;
    if (const auto plugin = headrace::load_cuda_plugin(); !plugin) {
      fmt::print(stderr, "op_bench: {}\n", plugin.error().message());
      return headrace::exit_code(plugin.error().code());
    }
  }
  if (support) {
    fmt::print("{}", headrace::testing::support_table());
    return 0;
  }
  return bench(options);
}
