#pragma once
// Elementwise ops of one shape. add(a, b), mul(a, b): f32; activation(x) by kind; gated_activation(gate, up) =
// activation(gate) * up in one pass; operands may be strided windows of a merged projection. In place is allowed.

#include "ops/op.h"

namespace headrace::ops {
enum class ActivationKind : uint8_t { silu, gelu_erf, gelu_tanh, relu };
std::string_view activation_name(ActivationKind kind);
// Hugging Face's hidden_act: silu, swish, gelu, gelu_pytorch_tanh, gelu_new, relu.
Result<ActivationKind> parse_activation(std::string_view name);

struct ElementwiseAttrs {
  bool operator==(const ElementwiseAttrs&) const = default;
  std::string describe() const { return {}; }
};
struct ActivationAttrs {
  ActivationKind kind = ActivationKind::silu;
  bool operator==(const ActivationAttrs&) const = default;
  std::string describe() const;
};
extern const Op add;
extern const Op mul;
extern const Op activation;
extern const Op gated_activation;
}  // namespace headrace::ops
