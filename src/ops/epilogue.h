#pragma once
// What a matrix product or convolution does with each result before it is stored:
//   y = activation(product + bias[column] + residual)
// bias f32 [columns] and residual (of the output's shape) are the last inputs, in that order, where they are there.

#include <optional>
#include <string>

#include "ops/unary.h"

namespace headrace::ops {

struct Epilogue {
  bool bias = false;
  bool residual = false;
  std::optional<UnaryAttrs> activation;

  int num_inputs() const { return int{bias} + int{residual}; }
  bool operator==(const Epilogue&) const = default;
  // " +bias +residual relu"; empty for none.
  std::string describe() const {
    std::string text;
    if (bias) text += " +bias";
    if (residual) text += " +residual";
    if (activation) text += " " + activation->describe();
    return text;
  }
};

}  // namespace headrace::ops
