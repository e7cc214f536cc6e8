#pragma once
// Drives scheduler, block manager, prefix cache and step builder on a fake runner with a random load, in one thread and
// from one seed. After every step the bookkeeping is recounted; every answer must be what the fake model says alone.

#include <cstdint>
#include <string>

#include "engine/scheduler.h"
#include "testing/fake_runner.h"

namespace headrace::testing {

struct SimulationOptions {
  uint64_t seed = 0;
  int64_t num_steps = 1000;  // then no request arrives any more, and all must end
  FakeModel model;
  engine::SchedulerLimits limits{.max_seqs = 8, .max_batched_tokens = 64};
  int32_t max_prompt = 100;      // prompts have 1 to max_prompt tokens, some with a beginning in common
  int32_t max_answer = 40;
  double arrivals_per_step = 0.15;
  double abort_chance = 0.002;   // of each live sequence in each step
  int32_t priorities = 2;        // classes
  int32_t max_choices = 3;
  bool weak_hash = false;        // a prefix-cache hash with few values: collisions everywhere
};

struct SimulationReport {
  std::string failure;  // empty: all went well
  int64_t steps = 0, finished = 0, aborted = 0, tokens = 0, cached_tokens = 0;
  uint64_t preemptions = 0;
  int64_t longest_wait_steps = 0;  // from arrival to the end, of any sequence
};

SimulationReport simulate_scheduler(const SimulationOptions& options);

}  // namespace headrace::testing
