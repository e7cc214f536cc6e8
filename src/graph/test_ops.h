#pragma once
// Small ops for the tests of graph/: one of each kind that the rewrites and the planner tell apart. They accept any rank.

#include <vector>

#include "graph/graph.h"

namespace headrace::test_ops {

struct NoAttrs {
  int tag = 0;
  bool operator==(const NoAttrs&) const = default;
  std::string describe() const { return tag == 0 ? std::string() : fmt::format("tag={}", tag); }
};

inline Result<std::vector<ValueType>> infer_same(std::span<const ValueType> inputs, const Attrs&) {
  if (inputs.empty()) return error(Code::invalid_argument, "wants an input, got none");
  for (const ValueType& input : inputs) {
    if (!(input == inputs[0])) return error(Code::invalid_argument, "inputs differ in type");
  }
  return std::vector<ValueType>{inputs[0]};
}
inline Result<std::vector<ValueType>> infer_twice(std::span<const ValueType> inputs, const Attrs&) {
  return std::vector<ValueType>{inputs[0], inputs[0]};
}
inline Result<std::vector<ValueType>> infer_nothing(std::span<const ValueType>, const Attrs&) {
  return std::vector<ValueType>{};
}
inline Result<std::vector<ValueType>> infer_first(std::span<const ValueType> inputs, const Attrs&) {
  return std::vector<ValueType>{inputs[0]};
}
// The left half of the columns.
inline Result<std::vector<ValueType>> infer_half(std::span<const ValueType> inputs, const Attrs&) {
  ValueType half = inputs[0];
  half.shape[half.shape.rank() - 1] = half.shape[half.shape.rank() - 1].constant() / 2;
  return std::vector<ValueType>{half};
}
inline TensorView view_half(const Attrs&, const TensorView& input) {
  TensorView half = input;
  half.dims[half.rank - 1] /= 2;
  return half;
}
inline void reference_sum(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  outputs[0].dims = inputs[0].tensor.dims;
  outputs[0].values.assign(inputs[0].tensor.values.size(), 1.0);
  for (const HostValue& input : inputs) {
    for (size_t i = 0; i < input.tensor.values.size(); ++i) outputs[0].values[i] += input.tensor.values[i];
  }
}

// 1 + the sum of its inputs; may overwrite its first input.
inline const Op sum = {.name = "sum", .infer = infer_same, .reference = reference_sum, .in_place = {{0, 0}}};
inline const Op copy = {.name = "copy", .infer = infer_same};
inline const Op twice = {.name = "twice", .infer = infer_twice};
inline const Op half = {.name = "half", .effects = {.view = true}, .infer = infer_half, .view = view_half};
inline const Op store = {.name = "store", .effects = {.writes_state = true}, .infer = infer_nothing};
inline const Op load = {.name = "load", .effects = {.reads_state = true}, .infer = infer_first};
inline const Op draw = {.name = "draw", .effects = {.random = true}, .infer = infer_same};

}  // namespace headrace::test_ops
