#pragma once
// What crosses from the engine to a model runner in one step: one flat block of offsets and plain numbers. It can be
// copied to pinned memory, broadcast to ranks, recorded and replayed. Back comes a ticket, then a StepResult.

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "ops/logprobs.h"

namespace headrace::runtime {

// The arrays of a plan, in the order in which they lie in the block. The graph's input values carry these names.
//   T tokens, S sequences, R logit rows, G KV groups, B block-table columns, E biased logits, H tokens of history, C block copies
enum class StepField : uint8_t {
  token_src,      // i32 [T]    an id, or -(slot + 1): the token sampled last for that slot, read on the device
  positions,      // i32 [T]    absolute position within its sequence
  token_type,     // i32 [T]    segment of the text, for encoders that tell two apart
  query_start,    // i32 [S+1]  sequence s owns tokens [query_start[s], query_start[s+1])
  context_len,    // i32 [S]    tokens of s in the cache after this step
  logit_rows,     // i32 [R]    token indexes whose logits are wanted, rising
  sample_slot,    // i32 [R]    slot whose last token the row's sample becomes; -1: do not store
  temperature,    // f32 [R]    0: arg-max, the lowest id on a tie
  top_p,          // f32 [R]    1: off
  min_p,          // f32 [R]    0: off
  typical_p,      // f32 [R]    1: off
  repetition_penalty,  // f32 [R]  1: off
  frequency_penalty,   // f32 [R]  0: off
  presence_penalty,    // f32 [R]  0: off
  top_k,          // i32 [R]    0: off
  seed_lo,        // i32 [R]    Philox key: the request's seed
  seed_hi,        // i32 [R]
  stream,         // i32 [R]    Philox counter: which sequence of the request (n, best_of)
  sample_pos,     // i32 [R]    Philox counter: the position that the sample will take
  target,         // i32 [R]    the id whose log-probability is wanted; -1: the row's own sample
  num_logprobs,   // i32 [R]    so many of the best ids are listed beside it, at most kMaxLogprobs; -1: none, nor the target's
  bias_start,     // i32 [R+1]  row r's logits change by biases [bias_start[r], bias_start[r+1])
  bias_token,     // i32 [E]    an id
  bias_value,     // f32 [E]    added to its logit; -inf: the id cannot be drawn
  history_start,  // i32 [R+1]  what the penalties of row r look at: tokens [history_start[r], history_start[r+1]) of history
  output_start,   // i32 [R]    from here on they are the answer's, before it the prompt's
  history,        // i32 [H]    as token_src
  kv_slot,        // i32 [G][T] block * kKvBlockTokens + offset; block 0 takes padding
  block_table,    // i32 [G][S][B]  unused entries, and those behind a group's window, are 0
  copy_group,     // i32 [C]    before anything else, in this order, block copy_src[c] of a group is copied to copy_dst[c]
  copy_src,       // i32 [C]
  copy_dst,       // i32 [C]
};
inline constexpr int kNumStepFields = 32;
inline constexpr int32_t kMaxStepCount = 1 << 24;  // what any count of a step may be
inline constexpr int32_t kMaxLogprobs = ops::kMaxLogprobs;  // ids that one row can list
const char* step_field_name(StepField field);

struct StepCounts {
  int32_t tokens = 0;      // T, padded to the bucket by the runner where the device wants it
  int32_t seqs = 0;        // S
  int32_t logit_rows = 0;  // R
  int32_t groups = 1;      // G
  int32_t blocks = 1;      // B
  int32_t biases = 0;      // E
  int32_t history = 0;     // H
  int32_t copies = 0;      // C
  bool operator==(const StepCounts&) const = default;
};

enum StepFlags : uint32_t {
  kWantLogits = 1,    // bring the R logit rows to the host
  kWantLogprobs = 2,  // bring what num_logprobs asks for
};

// The head of the block.
struct StepHeader {
  uint64_t bytes = 0;  // of the whole block
  uint64_t step = 0;   // rising number
  StepCounts counts;
  uint32_t flags = 0;
  int32_t bucket_tokens = 0;
  uint64_t offsets[kNumStepFields] = {};  // from the start of the block, 64-byte aligned
};

class StepPlan {
 public:
  // Lays out the fields and fills them with zeros, those of logit rows with what asks for nothing: an arg-max that is stored nowhere
  // and no log-probabilities. Reuses memory from the last call: no allocation once it has seen the largest counts.
  void reset(uint64_t step, const StepCounts& counts, uint32_t flags = 0, int32_t bucket_tokens = 0);

  // Becomes `plan` with counts no less than its own and no copies, so that steps of one bucket have one layout: what is added computes
  // tokens of no sequence that are written to block 0, sequences of no tokens, and logit rows that ask for nothing.
  void pad(const StepPlan& plan, StepCounts counts);

  const StepHeader& header() const { return *reinterpret_cast<const StepHeader*>(block_.data()); }
  std::span<const std::byte> block() const { return {reinterpret_cast<const std::byte*>(block_.data()), header().bytes}; }
  // A plan from a block that came from elsewhere. Every offset and count is checked. Errors: malformed.
  static bool valid(std::span<const std::byte> block);

  int64_t field_elements(StepField field) const;
  std::span<int32_t> ints(StepField field) { return {static_cast<int32_t*>(at(field)), size_of(field)}; }
  std::span<const int32_t> ints(StepField field) const {
    return {static_cast<const int32_t*>(const_cast<StepPlan*>(this)->at(field)), size_of(field)};
  }
  std::span<float> floats(StepField field) { return {static_cast<float*>(at(field)), size_of(field)}; }
  std::span<const float> floats(StepField field) const {
    return {static_cast<const float*>(const_cast<StepPlan*>(this)->at(field)), size_of(field)};
  }
  // Group g's part of kv_slot [T] and of block_table [S][B].
  std::span<int32_t> kv_slots(int group) {
    return ints(StepField::kv_slot).subspan(size_t(group) * header().counts.tokens, header().counts.tokens);
  }
  std::span<int32_t> block_row(int group, int seq) {
    const StepCounts& c = header().counts;
    return ints(StepField::block_table).subspan((size_t(group) * c.seqs + seq) * c.blocks, c.blocks);
  }

 private:
  void* at(StepField field) {
    return reinterpret_cast<std::byte*>(block_.data()) + header().offsets[static_cast<int>(field)];
  }
  size_t size_of(StepField field) const { return static_cast<size_t>(field_elements(field)); }

  std::vector<uint64_t> block_;  // 8-byte units keep the header aligned
};

struct StepResult {
  uint64_t step = 0;
  std::vector<int32_t> tokens;  // [R]; -1 for a row of which nothing can be drawn (ops/sample.h): that request fails, others do not
  std::vector<float> logits;    // [R][vocab] with kWantLogits, else empty
  // With kWantLogprobs, else empty: natural logarithms of the softmax of the raw logits, before any bias or penalty. Entries that
  // num_logprobs does not ask for have no meaning; a row whose logits are not finite has NaN.
  std::vector<float> logprobs;      // [R] of the row's target
  std::vector<int32_t> top_ids;     // [R][kMaxLogprobs] by falling probability, the lower id first on a tie
  std::vector<float> top_logprobs;  // [R][kMaxLogprobs]
  std::vector<float> embeddings;  // [S][embedding_size] of an embedder, else empty
};

}  // namespace headrace::runtime
