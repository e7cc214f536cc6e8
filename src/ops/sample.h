#pragma once
// sample(logits f32 [R, V];
//        f32 [R]: temperature, top_p, min_p, typical_p, repetition_penalty, frequency_penalty, presence_penalty;
//        i32 [R]: top_k, seed_lo, seed_hi, stream, sample_pos, sample_slot;
//        bias_start i32 [R+1], bias_token i32 [E], bias_value f32 [E];
//        history_start i32 [R+1], output_start i32 [R], history i32 [H]; last_token i32 state [slots]) -> tokens i32 [R]
//
// A row's steps, in this order; the logits that came in stay as they are:
//  1 biases [bias_start[r], bias_start[r+1]) are added; -infinity bans a token
//  2 repetition_penalty, once per distinct id of history [history_start[r], history_start[r+1]): x / penalty where x > 0, else
//    x * penalty
//  3 for ids of the history from output_start[r] on (an index into `history`): frequency_penalty times their count and
//    presence_penalty once are taken away. Ids outside the vocabulary are ignored; -(slot + 1) is last_token[slot] as it stood
//    before this step, so that no other row of the step may store into that slot
//  4 temperature 0: arg-max, the lowest id on a tie. Otherwise logits / temperature
//  5 top_k: the k largest (all that tie with the k-th)
//  6 top_p: the smallest set in falling probability whose sum reaches top_p (at least one)
//  7 min_p: drop what is below min_p * the largest probability
//  8 typical_p: in order of rising |-log p - entropy|, what is needed for a sum of typical_p (at least one) and all that tie
//    with the last of them. Meister et al. 2023; here in the order, and with the ties, of transformers
//  9 draw by inverse CDF in rising id order with u = the first output of Philox4x32-10(key = seed, counter = (sample_pos,
//    stream, 0, 0)) as (x + 0.5) / 2^32 (Salmon et al. 2011)
// Steps 1 to 3 round to float32, probabilities are float64. A row gives -1 when a parameter lies outside its range
// (sampling_distribution.h), a logit is NaN or +infinity, or none is finite after step 3. sample_slot >= 0 stores the token
// into last_token.

#include "ops/op.h"

namespace headrace::ops {
struct SampleAttrs {
  bool operator==(const SampleAttrs&) const = default;
  std::string describe() const { return {}; }
};
// Where each input stands.
namespace sample_input {
enum Index {
  kLogits,
  kTemperature,
  kTopP,
  kMinP,
  kTypicalP,
  kRepetitionPenalty,
  kFrequencyPenalty,
  kPresencePenalty,
  kTopK,
  kSeedLo,
  kSeedHi,
  kStream,
  kSamplePos,
  kSampleSlot,
  kBiasStart,
  kBiasToken,
  kBiasValue,
  kHistoryStart,
  kOutputStart,
  kHistory,
  kLastToken
};
}
extern const Op sample;

// A row's part of a list that all rows share, from its `start` [R+1]; empty or shorter where the starts do not fit the list.
struct ListPart {
  int64_t begin, end;
  static ListPart of(int64_t begin, int64_t end, int64_t count) {
    const int64_t first = begin < 0 ? 0 : begin < count ? begin : count;
    const int64_t last = end < first ? first : end < count ? end : count;
    return {first, last};
  }
};

// Philox4x32-10, the counter-based generator behind every random number of Headrace.
struct Philox {
  static std::array<uint32_t, 4> block(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);
};
}  // namespace headrace::ops
