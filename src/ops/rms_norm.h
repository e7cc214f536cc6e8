#pragma once
// rms_norm(x f32 or bf16 [..., H], weight [H / heads]) -> y [..., H] in the dtype `out`, of rank 2 or more
// y = x / sqrt(mean(x^2) + eps) * (weight + offset), Zhang & Sennrich 2019 (arXiv:1910.07467). `offset` is 1 for families
// that store weight - 1. With `heads` above 1 each of a row's heads is normalized by itself, with one weight for all (the
// query and key norms of Qwen3 and Gemma 3).
//
// add_rms_norm(x f32 or bf16 [..., H], residual f32 [..., H], weight [H]) -> sum f32 [..., H], y [..., H] in the dtype `out`
// sum = x + residual, y = rms_norm(sum) of one head: one pass over memory instead of three. sum may take residual's storage.

#include "ops/op.h"

namespace headrace::ops {
struct RmsNormAttrs {
  float eps = 1e-5f;
  float offset = 0.0f;
  int32_t heads = 1;  // rms_norm only
  DType out = DType::f32;  // or bf16
  bool operator==(const RmsNormAttrs&) const = default;
  std::string describe() const;
};
extern const Op rms_norm;
extern const Op add_rms_norm;
}  // namespace headrace::ops
