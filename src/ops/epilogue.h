#pragma once
// What a matrix product or convolution does with each result before it is stored:
//   y = activation(product + bias[column] + residual)
// bias f32 [columns] and residual (of the output's shape) are the last inputs, in that order, where they are there.

#include <optional>
#include <string>

#include "ops/input_check.h"
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

// For infer() and references; the epilogue's inputs stand after `first` others.
std::vector<std::string_view> input_names(std::vector<std::string_view> first, const Epilogue& epilogue);
void check_epilogue(InputCheck& check, const Epilogue& epilogue, int first, const Shape& output);
// The output's element `index`, in `column` of its last axis.
double apply_epilogue(const Epilogue& epilogue, std::span<const HostValue> inputs, int first, int64_t index, int64_t column,
                      double product);
// Every kind of epilogue that a case should have, with a name for each.
std::vector<std::pair<std::string, Epilogue>> epilogue_cases();
// A float32 sum of `terms` products of order 1 and what an epilogue adds to its error.
Tolerance product_tolerance(int64_t terms, const Epilogue& epilogue);

}  // namespace headrace::ops
