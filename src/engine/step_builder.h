#pragma once
// Writes the rows of one step into a StepPlan, field by field as runtime/step_plan.h says. Keeps its lists from step to step:
// nothing is allocated once builder and plan have seen their largest step. Not thread-safe.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/block_manager.h"
#include "engine/sequence.h"
#include "runtime/step_plan.h"

namespace headrace::engine {

class StepBuilder {
 public:
  // Right after Scheduler::schedule(): the tables of each row's sequence reach the end of the row. `copies` go before the rows.
  void build(uint64_t step, std::span<const ScheduledSequence> rows, int num_groups, std::span<const BlockCopy> copies,
             runtime::StepPlan& plan);

 private:
  runtime::StepCounts count(std::span<const ScheduledSequence> rows);
  void write_lists(std::span<const BlockCopy> copies, runtime::StepPlan& plan) const;

  std::vector<std::pair<int32_t, float>> biases_;  // of all rows
  std::vector<int32_t> bias_end_;                  // by logit row
  bool want_logprobs_ = false;
};

}  // namespace headrace::engine
