#pragma once
// kv_write(k, v [T, kv_heads * head_dim] of f32 or bf16, kv_slot i32 [T], kv state) -> (nothing)
// Stores row t at block kv_slot[t] / 16, place kv_slot[t] % 16, rounded to the pool's dtype. k and v may be strided.
// In an i8 pool each head's vector of a token has a scale: peak / 127, where peak is its largest magnitude, and codes
// x * (127 / peak) in float32, rounded to the nearest integer, halves to even. A peak below kKvFloor: scale and codes 0.
// A vector that holds NaN or infinity: scale NaN, codes 0, so that what sees it is NaN and what does not is untouched.
//
// attention(q f32 or bf16 [T, heads * head_dim], kv state, query_start i32 [S+1], context_len i32 [S], block_table i32 [S, B])
//   -> the type of q
// Causal attention over the paged cache. Sequence s owns query rows [query_start[s], query_start[s+1]); its last query stands
// at position context_len[s] - 1; query position p sees keys max(0, p - window + 1) .. p. Head h reads kv head
// h * kv_heads / heads. softcap c: c * tanh(score / c) before the mask. sinks: one more logit per head in the softmax.
//
// attention_ragged(q, k, v f32 [T, ...], query_start i32 [S+1]) -> f32 [T, heads * head_dim]
// The same without a cache: keys and values are the sequence's own rows; causal or bidirectional (encoders, embedders).
// A bidirectional window w is symmetric: position p sees keys p - w + 1 .. p + w - 1.
//
// Numerics: keys are taken in chunks at absolute multiples of kAttentionChunk; each chunk gives (maximum, sum, weighted
// values); chunks are merged in rising order. So a row's bits do not depend on batch, chunked prefill or split.
// Online softmax: Milakov & Gimelshein 2018; Dao et al. 2022 (arXiv:2205.14135).

#include "ops/op.h"

namespace headrace::ops {
inline constexpr int kAttentionChunk = 256;
inline constexpr float kKvFloor = 0x1p-100f;  // 127 / peak and peak / 127 stay normal numbers

struct AttentionAttrs {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  float scale = 0.0f;    // multiplies q . k
  int32_t window = 0;    // 0: all
  float softcap = 0.0f;  // 0: off
  bool causal = true;    // attention_ragged only
  std::vector<float> sinks;  // empty, or one per head
  bool operator==(const AttentionAttrs&) const = default;
  std::string describe() const;
};
struct KvWriteAttrs {
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  bool operator==(const KvWriteAttrs&) const = default;
  std::string describe() const;
};
extern const Op kv_write;
extern const Op attention;
extern const Op attention_ragged;
}  // namespace headrace::ops
