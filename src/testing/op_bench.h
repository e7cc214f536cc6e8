#pragma once
// Bench rows of every op from its declaration: the cases marked bench, timed on every kernel of this machine or of its device.
// And the support table, which follows from the same cases.

#include <functional>
#include <string>
#include <vector>

#include "ops/op.h"

namespace headrace::testing {

// Runs `work` on every member of a team and returns when all have ended.
using RunOnTeam = std::function<void(const std::function<void(Team&)>& work)>;

struct BenchOptions {
  std::string op;           // only this op; empty: all
  std::string case_filter;  // only cases whose name holds this
  std::string phase;        // only cases of this phase; empty: all
  DeviceKind device = DeviceKind::cpu;  // cuda: device 0 of the plug-in, which has been loaded; no teams
  std::string isa;          // only this instruction set; empty: all that run here
  std::vector<int> threads = {1};
  bool cold = false;         // go through copies of the data that together pass the caches
  double seconds = 0.2;      // measuring time of a row
  double roof_gb_per_s = 0;  // of this machine; 0: not known
  double roof_tflop_per_s = 0;
};

struct BenchRow {
  std::string op, name, phase, kernel, isa;
  int threads = 1;
  int samples = 0;
  double median_us = 0, min_us = 0;
  double spread = 0;    // (90th - 10th percentile) / median
  double gb_per_s = 0;  // by the op's cost(): the fewest bytes, so caches can push it past the memory's roof
  double tflop_per_s = 0;
  double share_of_roof = 0;  // the larger of the two shares; 0 without roofs

  std::string to_json() const;
};

// Measures in order and hands over each row as it is done. On a device, calls are captured as one graph, as those of a step are, and timed
// by its own clock: launches from the host are not in the figure. Errors: not_found when no case matches; internal from the device.
Status run_op_bench(const BenchOptions& options, const std::function<RunOnTeam(int threads)>& make_team,
                    const std::function<void(const BenchRow&)>& take);

// Markdown: op, kernel, instruction set, layout, formats and dtypes, whether row-invariant.
std::string support_table();

}  // namespace headrace::testing
