#pragma once
// Writes the rows of one step into a StepPlan, field by field as runtime/step_plan.h says. Allocates nothing once the plan
// has seen its largest step.

#include <cstdint>
#include <span>

#include "engine/sequence.h"
#include "runtime/step_plan.h"

namespace headrace::engine {

// Right after Scheduler::schedule(): the tables of each row's sequence reach the end of the row.
void build_step(uint64_t step, std::span<const ScheduledSequence> rows, int num_groups, runtime::StepPlan& plan);

}  // namespace headrace::engine
