#pragma once
// Static batching, as a baseline for the engine's continuous batching, on the same runner and kernels. Requests are taken in
// groups in the order in which they come. The prompts of a group are padded on the left to the longest of them, and every
// padded token goes through the program; then all rows decode until the longest answer is whole, those that have ended too.
// Padding has keys and values of its own that no real token sees, so answers are those of the engine. What a batched matrix of
// scores would cost more, the masked scores between tokens and padding, is not paid: the baseline is better by that than one
// that pays it. One thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/serving_model.h"
#include "runtime/local_runner.h"

namespace headrace::engine {

struct StaticRequest {
  std::vector<int32_t> prompt;  // at least one id
  int32_t max_tokens = 1;       // the answer has as many: no id ends it
};

struct StaticAnswer {
  std::vector<int32_t> tokens;
  TimePoint first_token, last_token;
};

struct StaticStats {
  uint64_t steps = 0;
  uint64_t step_tokens = 0;  // that went through the program: padding and rows that had ended included
  uint64_t seq_steps = 0;    // sums over all steps: rows of the group,
  uint64_t live_tokens = 0;  // tokens of answers under way that lie in the cache,
  uint64_t slots = 0;        // and the tokens that the group has room for: rows * the longest prompt and answer
};

class StaticBatch {
 public:
  // At most `batch` requests in a group, whose longest prompt and longest answer together have at most `context` tokens. Of the
  // options the sizes of batches and cache do not count, except max_batched_tokens: a group's prompts are cut into steps of so
  // many. Errors: those of ServingModel::open; invalid_argument for a batch over max_batched_tokens; unsupported for an
  // embedder.
  static Result<std::unique_ptr<StaticBatch>> open(const std::string& path, const ServingOptions& options, int64_t batch,
                                                   int64_t context);

  // Greedy answers, in the order of the requests. `group_done` hears how many requests have been answered; false stops
  // (cancelled).
  Result<std::vector<StaticAnswer>> run(std::span<const StaticRequest> requests,
                                        const std::function<bool(size_t)>& group_done = {});

  const StaticStats& stats() const { return stats_; }
  int32_t vocab_size() const { return runner_->limits().vocab_size; }
  runtime::RunnerMemory memory() const { return runner_->memory(); }

 private:
  // A row of the group: its padding is a sequence of its own, in blocks of its own.
  struct Row {
    const StaticRequest* request = nullptr;
    StaticAnswer* answer = nullptr;
    int32_t padding = 0;
    int32_t first_block = 0, first_padding_block = 0;
    int32_t next = 0;  // the id that was sampled last
  };
  // A run of tokens of one sequence in one step.
  struct Run {
    int32_t sequence = 0;          // row i is sequence i, its padding batch_ + i
    int32_t first = 0, count = 0;  // positions
    int32_t first_block = 0;
    const int32_t* ids = nullptr;  // of these positions; null: padding
    bool sample = false;
  };
  // Block `index` of the run's sequence in a group's pool.
  int32_t block_of(int group, const Run& run, int32_t index) const;
  Status run_group(std::span<Row> rows);
  Result<std::vector<int32_t>> step(std::span<const Run> runs);

  StaticBatch() = default;
  std::unique_ptr<runtime::LocalRunner> runner_;
  runtime::StepPlan plan_;
  int32_t batch_ = 0, context_ = 0;
  std::vector<int32_t> ring_blocks_;  // by group: a sequence's blocks are used in turn, so many; 0: each has a block of its own
  uint64_t step_ = 0;
  StaticStats stats_;
};

}  // namespace headrace::engine
