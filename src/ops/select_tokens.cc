#include "ops/select_tokens.h"

#include "ops/input_check.h"

namespace headrace::ops {
namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("select_tokens", inputs, {"token_src", "last_token"});
  check.tensor(0, DType::i32, 1).tensor(1, DType::i32, 1);
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(DType::i32, inputs[0].shape)});
}

Cost cost(const NodeSizes& sizes) {
  return {.flops = 0, .bytes = 2 * value_bytes(sizes.inputs[0], sizes.bindings)};
}

void reference(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const std::vector<double>& last = inputs[1].tensor.values;
  for (size_t t = 0; t < outputs[0].values.size(); ++t) {
    const double source = inputs[0].tensor.values[t];
    const double slot = -source - 1;
    outputs[0].values[t] = source >= 0                               ? source
                           : slot < static_cast<double>(last.size()) ? last[static_cast<size_t>(slot)]
                                                                     : -1;
  }
}

Tolerance tolerance(std::span<const ValueType>, const Attrs&) {
  return {0, 0};
}

CaseInput ints(std::vector<double> values) {
  return {.dtype = DType::i32, .dims = {static_cast<int64_t>(values.size())}, .values = std::move(values)};
}

std::vector<OpCase> cases() {
  return {
      {.name = "ids_and_slots", .inputs = {ints({5, -1, 0, -3, 49151}), ints({7, 8, 9})}},
      {.name = "one_slot", .inputs = {ints({-1}), ints({3})}},
      {.name = "as_many_slots_as_tokens", .inputs = {ints({-2, -1}), ints({11, 12})}},
      {.name = "slot_outside_the_state", .inputs = {ints({-9, 1}), ints({11, 12})}},
      {.name = "no_tokens", .inputs = {{.dtype = DType::i32, .dims = {0}}, ints({1})}},
  };
}

std::vector<HostValue> row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  return slice_rows(inputs, {0}, row);
}

}  // namespace

const Op select_tokens{
    .name = "select_tokens",
    .effects = {.reads_state = true},
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = tolerance,
    .cases = cases,
    .row_alone = row_alone,
};

}  // namespace headrace::ops
