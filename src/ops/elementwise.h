#pragma once
// Elementwise ops of one shape. add(a, b), mul(a, b): f32; activation(x) by kind; gated_activation(gate, up) =
// activation(gate) * up in one pass; operands may be strided windows of a merged projection. In place is allowed.

#include "ops/op.h"

namespace headrace::ops {
// softcap c: c * tanh(x / c), which bounds logits (Gemma 2).
enum class ActivationKind : uint8_t { silu, gelu_erf, gelu_tanh, relu, softcap };
std::string_view activation_name(ActivationKind kind);
// Hugging Face's hidden_act: silu, swish, gelu, gelu_pytorch_tanh, gelu_new, relu.
Result<ActivationKind> parse_activation(std::string_view name);

struct ElementwiseAttrs {
  bool operator==(const ElementwiseAttrs&) const = default;
  std::string describe() const { return {}; }
};
struct ActivationAttrs {
  ActivationKind kind = ActivationKind::silu;
  float cap = 0.0f;  // softcap only, above 0
  bool operator==(const ActivationAttrs&) const = default;
  std::string describe() const;
};
extern const Op add;
extern const Op mul;
extern const Op activation;
extern const Op gated_activation;
}  // namespace headrace::ops
