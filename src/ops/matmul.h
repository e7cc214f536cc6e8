#pragma once
// matmul(x f32 [T, K], weight [N, K], bias weight [N]?) -> f32 [T, N]: y = x * weight^T + bias; any weight format.
//
// quantize_rows(x f32 [T, K]) -> q i8 [T, K], scale f32 [T, K/32], sum i32 [T, K/32]
// Symmetric 8-bit blocks of kActivationBlock values, in float32 steps that every kernel takes alike (outputs agree to
// the bit): peak = max|x|, scale = peak / 127, q = x * (127 / peak) rounded half to even, sum = the block's sum of q (what
// offset formats multiply by their minimum). A block with a peak below kActivationFloor is all zeros, scale too.
// With terms=2 the rest is quantized too, some 15 bits in all: r = x - scale * q in two roundings, q2 = r * (256 * (127 / peak))
// clamped to +-127 and rounded alike; q is then i8 [T, 2 * K], 32 bytes of q and 32 of q2 a block; scale = peak / 127 / 256 and
// sum = 256 * sum(q) + sum(q2), so that x ~= scale * (256 * q + q2).
//
// matmul_q8(q, scale, sum, weight [N, K], bias weight [N]?) -> f32 [T, N]: weights of q4_0, q4_1, q5_0, q5_1, q8_0,
// q4_k, q5_k or q6_k; integer dot products exact (with terms=2 dot = 256 * dot(q) + dot(q2), rounded once to float32), then per
// group of columns with one weight scale (a block, or its halves for q6_k) in rising order acc = fma(dot, weight_scale * scale, acc)
// and, for all but q4_0 and q8_0, acc = fma(weight_min, scale * sum, acc), where a code that means 0 makes the minimum of formats
// without one; the bias last.
//
// round_bf16(x f32 [T, K]) -> bf16 [T, K]: rounded to nearest, halves to even.
// matmul_bf16(x bf16 [T, K], weight bf16 [N, K], bias weight [N]?) -> [T, N] in the dtype `out` for even K: float32 sums of products
// of pairs of columns, in rising order where a kernel is `row_invariant`.

#include "ops/op.h"

namespace headrace::ops {
inline constexpr int kActivationBlock = 32;
inline constexpr float kActivationFloor = 0x1p-100f;

struct MatmulAttrs {
  DType out = DType::f32;  // matmul_bf16 only: or bf16
  bool operator==(const MatmulAttrs&) const = default;
  std::string describe() const { return out == DType::f32 ? "" : std::string(dtype_name(out)); }
};
// Of quantize_rows and matmul_q8: how many 8-bit terms make one activation, 1 or 2.
struct Q8Attrs {
  int32_t terms = 1;
  bool operator==(const Q8Attrs&) const = default;
  std::string describe() const;
};
// The weight formats of matmul_q8; a matmul over another block format stays in float32.
bool matmul_q8_takes(Format format);
// A bf16 matrix of whole pairs of columns.
bool matmul_bf16_takes(const ValueType& weight);
extern const Op matmul;
extern const Op quantize_rows;
extern const Op matmul_q8;
extern const Op round_bf16;
extern const Op matmul_bf16;
}  // namespace headrace::ops
