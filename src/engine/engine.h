#pragma once
// The serving engine: continuous batching over a paged KV cache. Requests go through a queue to one engine thread, which
// schedules, submits step plans to the model runner and hands out events. All public functions are thread-safe.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/config.h"
#include "engine/request.h"
#include "runtime/model_runner.h"

namespace headrace::engine {

struct EngineStats {
  uint64_t requests_waiting = 0, requests_running = 0;
  // A request of which some choice was aborted, or failed, counts as that.
  uint64_t requests_finished = 0, requests_aborted = 0, requests_failed = 0, requests_rejected = 0;
  uint64_t prompt_tokens = 0, generation_tokens = 0, preemptions = 0, steps = 0;
  // Over all groups, block 0 of each left out. Used: by running sequences or the prefix cache; cached: of the used ones,
  // those that the prefix cache alone holds and gives up when memory is short.
  uint64_t kv_blocks_total = 0, kv_blocks_used = 0, kv_blocks_cached = 0;
  uint64_t prefix_hit_tokens = 0, prefix_query_tokens = 0;
  // Sums over all steps, over running sequences: one each, their tokens that lie in the KV cache, and the tokens that their blocks
  // have room for (over all groups). live / slots is how full the allocated blocks were.
  uint64_t seq_steps = 0, kv_live_token_steps = 0, kv_slot_steps = 0;
};

// Called on the engine thread for every step and every finished request (metrics). Must return at once.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // `seconds`: what the step added, from its submission or the end of the step before it, whichever is later.
  virtual void on_step(double seconds, int tokens, int seqs) = 0;
  virtual void on_finish(const RequestTiming& timing, FinishReason reason) = 0;
};

class Engine {
 public:
  // Starts the engine thread. `eos_ids` end a choice unless its request ignores them.
  Engine(std::unique_ptr<runtime::ModelRunner> runner, const EngineConfig& config, std::vector<int32_t> eos_ids);
  ~Engine();  // shutdown()

  // A request with the same prompt, sampling and seed gives the same tokens whatever else runs.
  // Errors: invalid_argument (empty prompt, an id outside the vocabulary, a parameter out of range, two that have no meaning
  // together, prompt + 1 or a text to embed over the context: the message says both lengths), unsupported (a kind of request that the
  // model does not answer, prompt_logprobs where the runner has no rows for them), resource_exhausted (queue full, or more KV than the whole pool), unavailable (shutting down, the device is
  // lost, or the deadline has passed). max_tokens is cut to what the context has left.
  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);
  // The request, or one choice of it, ends with FinishReason::abort at the next step boundary. Unknown ids are ignored.
  static constexpr int32_t kAllChoices = -1;
  void abort(RequestId id, int32_t choice = kAllChoices);
  // The same for a choice whose end its reader has found, such as a stop string: it ends with FinishReason::stop.
  void stop(RequestId id, int32_t choice);

  // At the next step boundary the cached prefixes that no sequence uses are forgotten.
  void clear_prefix_cache();

  EngineStats stats() const;
  // The runner's, with max_context cut to the configured one.
  const runtime::RunnerLimits& limits() const;
  runtime::RunnerMemory memory() const;
  void set_observer(std::shared_ptr<EngineObserver> observer);

  // Finishes nothing more: running requests end with abort, later ones are refused. Idempotent. Not from a sink.
  void shutdown();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::engine
