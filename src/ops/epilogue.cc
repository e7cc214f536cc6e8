// What conv and gemm share: checks, references and cases of their epilogues.
#include "ops/epilogue.h"

#include <cmath>

namespace headrace::ops {

std::vector<std::string_view> input_names(std::vector<std::string_view> first, const Epilogue& epilogue) {
  if (epilogue.bias) first.push_back("bias");
  if (epilogue.residual) first.push_back("residual");
  return first;
}

void check_epilogue(InputCheck& check, const Epilogue& epilogue, int first, const Shape& output) {
  if (epilogue.activation) {
    const std::string_view wrong = wrong_parameters(*epilogue.activation);
    check.require(wrong.empty(), wrong);
  }
  if (epilogue.bias) check.tensor(first, DType::f32, 1).dim(first, 0, output[output.rank() - 1]);
  if (!epilogue.residual) return;
  const int index = first + int{epilogue.bias};
  check.tensor(index, DType::f32, output.rank());
  for (int axis = 0; axis < output.rank(); ++axis) check.dim(index, axis, output[axis]);
}

double apply_epilogue(const Epilogue& epilogue, std::span<const HostValue> inputs, int first, int64_t index, int64_t column,
                      double product) {
  if (epilogue.bias) product += inputs[first++].tensor.values[column];
  if (epilogue.residual) product += inputs[first].tensor.values[index];
  return epilogue.activation ? apply_unary(*epilogue.activation, product) : product;
}

std::vector<std::pair<std::string, Epilogue>> epilogue_cases() {
  std::vector<std::pair<std::string, Epilogue>> cases = {{"bias", {.bias = true}},
                                                         {"residual", {.residual = true}},
                                                         {"bias_residual", {.bias = true, .residual = true}}};
  const UnaryAttrs kinds[] = {{UnaryKind::relu},
                              {UnaryKind::leaky_relu, 0.125f},
                              {UnaryKind::clip, -0.5f, 1.0f},
                              {UnaryKind::sigmoid},
                              {UnaryKind::hard_sigmoid, 0.25f, 0.5f},
                              {UnaryKind::silu},
                              {UnaryKind::hard_swish},
                              {UnaryKind::gelu_erf},
                              {UnaryKind::gelu_tanh},
                              {UnaryKind::elu, 0.75f},
                              {UnaryKind::mish},
                              {UnaryKind::softcap, 2.0f},
                              {UnaryKind::tanh},
                              {UnaryKind::abs}};
  for (const UnaryAttrs& kind : kinds) {
    cases.push_back({"bias_" + std::string(unary_name(kind.kind)), {.bias = true, .activation = kind}});
  }
  cases.push_back({"bias_residual_relu", {.bias = true, .residual = true, .activation = UnaryAttrs{UnaryKind::relu}}});
  return cases;
}

// Rounding grows as sqrt(terms) by chance; none of the activations of cases has a slope above 1.2.
Tolerance product_tolerance(int64_t terms, const Epilogue& epilogue) {
  const double absolute = 1e-6 * std::sqrt(static_cast<double>(terms)) + 1e-6;
  return {epilogue.activation ? 2 * absolute + 1e-6 : absolute, 1e-5};
}

}  // namespace headrace::ops
