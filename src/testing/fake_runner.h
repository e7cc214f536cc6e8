#pragma once
// A model runner without a model, for tests of the engine and of all that stands on it. It keeps a pool of token ids where
// a model keeps keys and values, and makes each next token a pure function of the ids that it reads back through the block
// table: wrong paging, a wrong position or a wrong sampling parameter gives wrong tokens. Plans are checked as a strict
// device would check them. Runs a step when it is waited for, in order, however deep the pipeline.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/model_runner.h"

namespace headrace::testing {

// What decides a sampled token beside the ids before it.
struct FakeSampling {
  float temperature = 0.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  int32_t top_k = 0;
  uint64_t seed = 0;
  int32_t stream = 0;
  float typical_p = 1.0f;
  float repetition_penalty = 1.0f, frequency_penalty = 0.0f, presence_penalty = 0.0f;
  int32_t num_prompt = 0;  // tokens of the prompt, where a penalty is set
  std::vector<std::pair<int32_t, float>> biases;  // -inf: the id is not drawn
};

struct FakeModel {
  int32_t vocab_size = 512;
  int32_t max_context = 2048;
  int32_t max_tokens = 512;  // of one step
  int32_t max_seqs = 16;
  std::vector<int32_t> num_blocks = {1025};  // one entry a KV group, block 0 included
  std::vector<int32_t> windows;              // of the groups; empty: none has one
  int32_t max_scored_tokens = 16;            // logit rows of a step beyond max_seqs
  int depth = 0;
  int32_t embedding_size = 0;  // more than 0: an embedder, without KV (num_blocks does not count)

  // What it says. With `reply`, the token after ids that end with its first k is its token k (the largest such k < size),
  // and after the whole of it `eos_id`. Else a hash of ids and sampling; one token in `eos_one_in` is eos_id (0: none).
  std::vector<int32_t> reply;
  int32_t eos_id = -1;
  int32_t eos_one_in = 0;
  // Rows for which it is true have logits, or an embedding, that are not finite.
  std::function<bool(std::span<const int32_t> ids)> not_finite;

  // Called with the number of a step; an error is what submit or wait returns, the step undone.
  std::function<Status(uint64_t step)> on_submit, on_wait;
  std::chrono::microseconds step_delay{0};  // from submit to the end of wait, at least

  // The token after `ids`: what a run of its own would give. -1 where not_finite.
  int32_t next_token(std::span<const int32_t> ids, const FakeSampling& sampling) const;
  // Up to max_tokens tokens after `prompt`, without a runner and with the same sampling for all; ends before eos_id unless
  // `ignore_eos`, or at -1.
  std::vector<int32_t> answer(std::span<const int32_t> prompt, int32_t max_tokens, const FakeSampling& sampling,
                              bool ignore_eos = false) const;
  // The [vocab] logits behind next_token: the token's stands out at 1, the others are below.
  std::vector<float> logits(std::span<const int32_t> ids, const FakeSampling& sampling) const;
  // Of an embedder: thousandths from -1 to 1 that are a function of the ids.
  std::vector<float> embedding(std::span<const int32_t> ids) const;
};

class FakeRunner final : public runtime::ModelRunner {
 public:
  explicit FakeRunner(FakeModel model);

  const runtime::RunnerLimits& limits() const override { return limits_; }
  Result<runtime::Ticket> submit(const runtime::StepPlan& plan) override;
  Result<runtime::StepResult> wait(runtime::Ticket ticket) override;
  runtime::RunnerMemory memory() const override;

 private:
  struct Submitted {
    runtime::StepPlan plan;
    std::chrono::steady_clock::time_point at;
  };
  Status check(const runtime::StepPlan& plan) const;
  runtime::StepResult run(const runtime::StepPlan& plan);
  FakeSampling row_sampling(const runtime::StepPlan& plan, int r, std::span<const int32_t> ids) const;
  // The ids at positions [0, length) of sequence `s`, read through group `group`'s block table. A place that holds another position
  // gives a negative id; so does every place behind the group's window.
  std::vector<int32_t> read_back(const runtime::StepPlan& plan, int group, int s, int32_t length) const;

  // A place of the pool: which id was written, and at which position of its sequence.
  struct Cell {
    int32_t id = -1;
    int32_t position = -1;
  };
  const FakeModel model_;
  runtime::RunnerLimits limits_;
  std::vector<std::vector<Cell>> pools_;  // [group][block * kKvBlockTokens + offset]
  std::vector<int32_t> last_token_;       // [slot]
  std::deque<Submitted> submitted_;
};

}  // namespace headrace::testing
