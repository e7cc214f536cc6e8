#pragma once
// What an engine refuses on arrival: what its model does not answer, what no load would ever leave room for, and parameters that are
// wrong in themselves (check_request). Immutable and thread-safe: callers' threads ask it, the engine thread does not.

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/block_manager.h"
#include "engine/config.h"
#include "engine/request.h"
#include "engine/scheduler.h"

namespace headrace::engine {

// What the scheduler may plan for this runner.
SchedulerLimits scheduler_limits(const EngineConfig& config, const runtime::RunnerLimits& runner);

// So many tokens of a sequence may be under way: its chunks in all steps that the runner takes before a result.
int32_t max_uncommitted(const SchedulerLimits& scheduler, const runtime::RunnerLimits& runner);

class Admission {
 public:
  Admission(const runtime::RunnerLimits& runner, const SchedulerLimits& scheduler, std::span<const int32_t> eos_ids);
  // Cuts max_tokens to what the context has left. Errors: those of Engine::submit but for queue, shutdown and deadline.
  Status check(Request& request) const;

 private:
  Status check_kind(const Request& request) const;
  Status check_inputs(const Request& request) const;
  Status check_size(Request& request) const;
  Status check_beams(const Request& request) const;

  const runtime::RunnerLimits runner_;
  const SchedulerLimits scheduler_;
  const std::vector<int32_t> eos_ids_;
  const KvCapacity kv_;
};

}  // namespace headrace::engine
