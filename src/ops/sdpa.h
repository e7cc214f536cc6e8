#pragma once
// sdpa(q f32 [B, S, heads * head_dim], k f32 [B, T, kv_heads * head_dim], v f32 [B, T, kv_heads * value_dim],
//      mask f32 [B|1, heads|1, S|1, T|1]?) -> f32 [B, S, heads * value_dim]
// Attention over dense batches, as graphs have it: softmax(scale * q . k + mask) . v per head; head h reads kv head h * kv_heads / heads.
// `causal`: query s sees keys 0 .. s + (T - S). The mask is added to the scores; a row that sees nothing (all -inf) is NaN, as the
// graph's softmax gives it. Rows of q, k and v may be strided (windows of a merged projection). Online softmax: Milakov & Gimelshein
// 2018, Dao et al. 2022 (arXiv:2205.14135).

#include "ops/op.h"

namespace headrace::ops {

struct SdpaAttrs {
  int32_t heads = 1;
  int32_t kv_heads = 1;
  float scale = 1.0f;
  bool causal = false;
  bool mask = false;
  bool operator==(const SdpaAttrs&) const = default;
  std::string describe() const;
};
extern const Op sdpa;

}  // namespace headrace::ops
