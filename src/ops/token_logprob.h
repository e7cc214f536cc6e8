#pragma once
// token_logprob(logits f32 [R, V], target i32 [R]) -> f32 [R]: the natural logarithm of the probability that the row's softmax gives
// its target. A target outside the vocabulary gives 0: nothing was asked. A row with NaN, +infinity or no finite logit gives
// NaN.

#include "ops/op.h"

namespace headrace::ops {
struct TokenLogprobAttrs {
  bool operator==(const TokenLogprobAttrs&) const = default;
  std::string describe() const { return {}; }
};
extern const Op token_logprob;
}  // namespace headrace::ops
