#pragma once
// matmul(x f32 [T, K], weight [N, K], bias weight [N]?) -> f32 [T, N]: y = x * weight^T + bias; any weight format.
//
// quantize_rows(x f32 [T, K]) -> q i8 [T, K], scale f32 [T, K/32], sum i32 [T, K/32]
// Symmetric 8-bit blocks of kActivationBlock values, in float32 steps that every kernel takes alike (outputs agree to
// the bit): peak = max|x|, scale = peak / 127, q = x * (127 / peak) rounded half to even, sum = the block's sum of q (what
// offset formats multiply by their minimum). A block with a peak below kActivationFloor is all zeros, scale too.
//
// matmul_q8(q, scale, sum, weight [N, K], bias weight [N]?) -> f32 [T, N]: weights of q4_0, q4_1 or q8_0; integer dot products
// exact, then per block in rising order acc = fma(dot, weight_scale * scale, acc) and, for offset formats,
// acc = fma(weight_min, scale * sum, acc); the bias last.

#include "ops/op.h"

namespace headrace::ops {
inline constexpr int kActivationBlock = 32;
inline constexpr float kActivationFloor = 0x1p-100f;

struct MatmulAttrs {
  bool operator==(const MatmulAttrs&) const = default;
  std::string describe() const { return {}; }
};
extern const Op matmul;
extern const Op quantize_rows;
extern const Op matmul_q8;
}  // namespace headrace::ops
