#pragma once
// rotary(x f32 [B, S, heads * head_dim], cos f32 [B or 1, S, R / 2], sin f32 like cos) -> f32 like x
// Rotary embedding, Su et al. 2021 (arXiv:2104.09864), by tables that the graph brings (ONNX's RotaryEmbedding); rope.h computes them
// from positions. Pair i of each head turns by the angle whose cosine and sine stand at i. With R = rotary_dim, pairs are (i, i + R / 2),
// or (2i, 2i + 1) when interleaved. The rest of the head passes through. In place is allowed.

#include "ops/op.h"

namespace headrace::ops {
struct RotaryAttrs {
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;
  bool interleaved = false;
  bool operator==(const RotaryAttrs&) const = default;
  std::string describe() const;
};
extern const Op rotary;
}  // namespace headrace::ops
