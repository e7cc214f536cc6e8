#pragma once
// unary(x f32 [...]) -> f32 [...]: one function of each element, any rank up to kMaxRank. In place is allowed.

#include <string>
#include <string_view>

#include "ops/op.h"

namespace headrace::ops {

// With alpha a and beta b where a function has them:
enum class UnaryKind : uint8_t {
  relu, leaky_relu,          // x < 0 ? a * x : x
  clip,                      // min(max(x, a), b); NaN stays
  sigmoid, hard_sigmoid,     // min(max(a * x + b, 0), 1)
  silu, hard_swish,          // x * sigmoid(x); x * min(max(x / 6 + 0.5, 0), 1)
  gelu_erf, gelu_tanh,
  elu, softplus, mish,       // x < 0 ? a * (exp(x) - 1) : x; log(1 + exp(x)); x * tanh(softplus(x))
  softcap,                   // a * tanh(x / a), which bounds logits (Gemma 2); a above 0
  tanh, erf, exp, log, sqrt, reciprocal, neg, abs, floor, ceil, round, sign, sin, cos,  // round: halves to even
};
std::string_view unary_name(UnaryKind kind);
// Hugging Face's hidden_act: silu, swish, gelu, gelu_pytorch_tanh, gelu_new, relu.
Result<UnaryKind> parse_hidden_act(std::string_view name);

struct UnaryAttrs {
  UnaryKind kind = UnaryKind::relu;
  float alpha = 0.0f, beta = 0.0f;
  bool operator==(const UnaryAttrs&) const = default;
  std::string describe() const;
};
extern const Op unary;

// The function on one element in double: what every reference and every epilogue means.
double apply_unary(const UnaryAttrs& attrs, double x);
// What is wrong with alpha or beta for the kind; empty when nothing is. For infer() of every op that has such a function.
std::string_view wrong_parameters(const UnaryAttrs& attrs);

}  // namespace headrace::ops
