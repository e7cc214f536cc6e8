#pragma once
// Elementwise ops of two operands of one type, f32 or bf16 [T, H]. add(a, b), mul(a, b); gated_activation(gate, up) = unary(gate) * up in
// one pass; operands may be strided windows of a merged projection. In place is allowed. (binary.h is the general form.)

#include "ops/unary.h"

namespace headrace::ops {
struct ElementwiseAttrs {
  bool operator==(const ElementwiseAttrs&) const = default;
  std::string describe() const { return {}; }
};
extern const Op add;
extern const Op mul;
extern const Op gated_activation;  // attributes: UnaryAttrs
}  // namespace headrace::ops
