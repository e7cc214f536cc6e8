#pragma once
// sample(logits f32 [R, V], temperature f32 [R], top_p f32 [R], min_p f32 [R], top_k i32 [R], seed_lo i32 [R],
//        seed_hi i32 [R], stream i32 [R], sample_pos i32 [R], sample_slot i32 [R], last_token i32 state [slots]) -> tokens i32 [R]
// Temperature 0: arg-max, the lowest id on a tie. Otherwise logits / temperature; keep the top_k largest (all that tie with
// the k-th), then the smallest set in falling probability whose sum reaches top_p (at least one), then drop what is below
// min_p * the largest probability; draw by inverse CDF in rising id order with u = the first output of
// Philox4x32-10(key = seed, counter = (sample_pos, stream, 0, 0)) as (x + 0.5) / 2^32 (Salmon et al. 2011). Probabilities are float64.
// A row with NaN or no finite logit gives -1 (+inf counts as not finite). sample_slot >= 0 stores the token into last_token.

#include "ops/op.h"

namespace headrace::ops {
struct SampleAttrs {
  bool operator==(const SampleAttrs&) const = default;
  std::string describe() const { return {}; }
};
// Where each input stands.
namespace sample_input {
enum Index { kLogits, kTemperature, kTopP, kMinP, kTopK, kSeedLo, kSeedHi, kStream, kSamplePos, kSampleSlot, kLastToken };
}
extern const Op sample;

// Philox4x32-10, the counter-based generator behind every random number of Headrace.
struct Philox {
  static std::array<uint32_t, 4> block(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);
};
}  // namespace headrace::ops
