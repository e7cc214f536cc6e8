#pragma once
// layer_norm(x f32 [..., H], weight [H], bias [H]) -> f32 [..., H], of rank 2 or more
// y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias, Ba, Kiros & Hinton 2016 (arXiv:1607.06450).
//
// add_layer_norm(x f32 [..., H], residual f32 [..., H], weight [H], bias [H]) -> sum f32 [..., H], y f32 [..., H]
// sum = x + residual, y = layer_norm(sum): one pass over memory instead of two. sum may take x's or residual's storage.

#include "ops/op.h"

namespace headrace::ops {
struct LayerNormAttrs {
  float eps = 1e-5f;
  bool operator==(const LayerNormAttrs&) const = default;
  std::string describe() const;
};
extern const Op layer_norm;
extern const Op add_layer_norm;
}  // namespace headrace::ops
