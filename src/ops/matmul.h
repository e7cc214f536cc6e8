#pragma once
// matmul(x f32 [T, K], weight [N, K], bias weight [N]?) -> f32 [T, N]: y = x * weight^T + bias; any weight format.
//
// quantize_rows(x f32 [T, K]) -> q i8 [T, K], scale f32 [T, K/32], sum i32 [T, K/32]
// Symmetric 8-bit blocks of kActivationBlock values: scale = max|x| / 127, q = round to nearest even, sum = the block's sum
// of q (what offset formats multiply by their minimum).
//
// matmul_q8(q, scale, sum, weight [N, K], bias weight [N]?) -> f32 [T, N]: block-quantized weights only; integer dot products
// exact, one float multiply-add per block in rising block order.

#include "ops/op.h"

namespace headrace::ops {
inline constexpr int kActivationBlock = 32;

struct MatmulAttrs {
  bool operator==(const MatmulAttrs&) const = default;
  std::string describe() const { return {}; }
};
extern const Op matmul;
extern const Op quantize_rows;
extern const Op matmul_q8;
}  // namespace headrace::ops
