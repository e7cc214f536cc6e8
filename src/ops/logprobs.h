#pragma once
// logprobs(logits f32 [R, V], tokens i32 [R], target i32 [R], num_logprobs i32 [R])
//   -> logprob f32 [R], top_id i32 [R, kMaxLogprobs], top_logprob f32 [R, kMaxLogprobs]
// Natural logarithms of the row's softmax: of the id `target`, or, where that is negative, of `tokens` (what `sample` gave),
// and of the num_logprobs best ids by falling probability, the lower id first on a tie. num_logprobs -1: nothing is asked, the
// logits are not read, and logprob is 0. What is not listed has id -1 and 0. An id outside the vocabulary has 0. A row with
// NaN, +infinity or no finite logit gives NaN and lists nothing.

#include "ops/op.h"

namespace headrace::ops {
inline constexpr int32_t kMaxLogprobs = 20;  // num_logprobs beyond it counts as this

struct LogprobsAttrs {
  bool operator==(const LogprobsAttrs&) const = default;
  std::string describe() const { return {}; }
};
extern const Op logprobs;
}  // namespace headrace::ops
