#pragma once
// The engine's view of a model on its device. submit() takes a plan and returns a ticket at once (or after the work, where
// the device is the caller's own threads: depth 0); wait() gives the result. One engine thread calls it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/kv_view.h"
#include "runtime/step_plan.h"

namespace headrace::runtime {

struct Ticket {
  uint64_t step = 0;
};

struct KvGroupInfo {
  KvSpec spec;
  int32_t num_layers = 0;
  int32_t num_blocks = 0;  // block 0 included, which is never handed out
};

struct RunnerLimits {
  int32_t max_tokens = 0;   // T of one step
  int32_t max_seqs = 0;     // S and alive slots
  int32_t max_logit_rows = 0;  // R of one step: max_seqs and, of a generator, some more for prompt log-probabilities
  int32_t max_context = 0;  // tokens of one sequence
  int32_t vocab_size = 0;
  int32_t embedding_size = 0;  // more than 0: an embedder. Steps take whole sequences, max_tokens holds one of max_context
  std::vector<KvGroupInfo> groups;
  int pipeline_depth = 0;   // steps that may be in flight beyond the one waited for
};

// Bytes held and the highest ever held, for figures and metrics.
struct RunnerMemory {
  uint64_t weights = 0, kv = 0, arena = 0, peak = 0;
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual const RunnerLimits& limits() const = 0;
  // Errors: invalid_argument for a plan beyond the limits, internal or unavailable for a device failure. Copies what it
  // needs: the plan may be reused when submit returns.
  virtual Result<Ticket> submit(const StepPlan& plan) = 0;
  // Tickets are waited for in order, once each.
  virtual Result<StepResult> wait(Ticket ticket) = 0;
  virtual RunnerMemory memory() const = 0;
};

}  // namespace headrace::runtime
