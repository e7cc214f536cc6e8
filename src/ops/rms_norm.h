#pragma once
// rms_norm(x f32 [T, H], weight [H]) -> f32 [T, H]
// y = x / sqrt(mean(x^2) + eps) * (weight + offset), Zhang & Sennrich 2019 (arXiv:1910.07467). `offset` is 1 for families
// that store weight - 1.
//
// add_rms_norm(x f32 [T, H], residual f32 [T, H], weight [H]) -> sum f32 [T, H], y f32 [T, H]
// sum = x + residual, y = rms_norm(sum): one pass over memory instead of three. sum may take residual's storage.

#include "ops/op.h"

namespace headrace::ops {
struct RmsNormAttrs {
  float eps = 1e-5f;
  float offset = 0.0f;
  bool operator==(const RmsNormAttrs&) const = default;
  std::string describe() const;
};
extern const Op rms_norm;
extern const Op add_rms_norm;
}  // namespace headrace::ops
