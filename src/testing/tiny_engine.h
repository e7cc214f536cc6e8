#pragma once
// A whole engine on one of the tiny checkpoints of tests/golden, and the answers of a request with every bit of them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "graph/passes.h"
#include "runtime/device_queue.h"
#include "testing/engine_load.h"

namespace headrace::testing {

struct TinyEngineOptions {
  std::string checkpoint;  // below tests/golden
  int threads = 1;
  DtypePolicy policy;
  Isa isa = detect_isa();
  std::shared_ptr<runtime::DeviceQueue> queue;  // null: the CPU
  std::vector<std::string> skip_passes;
  bool row_invariant = false;
  int32_t kv_tokens = 4096;
  engine::EngineConfig config{.max_seqs = 8, .target_tpot_ms = 0, .check_every_step = true};
  std::vector<int32_t> eos_ids;
};
// Ends the process when the checkpoint cannot be opened.
std::unique_ptr<engine::Engine> open_tiny_engine(const TinyEngineOptions& options);

struct Answer {
  struct Choice {
    std::vector<int32_t> tokens;
    std::vector<engine::TokenLogprob> logprobs;
    int32_t end_token = -1;
    engine::FinishReason finish = engine::FinishReason::none;
  };
  std::vector<Choice> choices;
  std::vector<engine::TokenLogprob> prompt_logprobs;
  int32_t cached_tokens = 0;
};
// What the sink of a request that has ended heard.
Answer answer_of(const CollectingSink& sink, int32_t choices);
// Submits and waits.
Answer ask(engine::Engine& engine, const engine::Request& request);
// The first difference, in any bit; empty: none. `whole` false: `got` may end early, as after an abort.
std::string difference(const Answer& got, const Answer& wanted, bool whole = true);

}  // namespace headrace::testing
