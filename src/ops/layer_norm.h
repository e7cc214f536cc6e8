#pragma once
// layer_norm(x f32 [T, H], weight [H], bias [H]) -> f32 [T, H]
// y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias, Ba, Kiros & Hinton 2016 (arXiv:1607.06450).

#include "ops/op.h"

namespace headrace::ops {
struct LayerNormAttrs {
  float eps = 1e-5f;
  bool operator==(const LayerNormAttrs&) const = default;
  std::string describe() const;
};
extern const Op layer_norm;
}  // namespace headrace::ops
