#include "ops/rotary.h"

#include "ops/input_check.h"
#include "ops/rope.h"

namespace headrace::ops {

std::string RotaryAttrs::describe() const {
  return fmt::format("heads={} head_dim={} rotary_dim={}{}", heads, head_dim, rotary_dim, interleaved ? " interleaved" : "");
}

namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& a = attrs.as<RotaryAttrs>();
  InputCheck check("rotary", inputs, {"x", "cos", "sin"});
  check.tensor(0, DType::f32, 3).tensor(1, DType::f32, 3).tensor(2, DType::f32, 3);
  check.require(a.heads >= 1 && a.head_dim >= 1, "heads and head_dim must be at least 1");
  check.require(a.rotary_dim >= 2 && a.rotary_dim % 2 == 0 && a.rotary_dim <= a.head_dim,
                fmt::format("rotary_dim must be even and from 2 to head_dim {}, got {}", a.head_dim, a.rotary_dim));
  check.dim(0, 2, Dim(int64_t{a.heads} * a.head_dim));
  for (const int table : {1, 2}) {
    if (!check.ok()) break;
    if (!(inputs[table].shape[0] == Dim(1))) check.same_dim(table, 0, 0, 0);
    check.same_dim(table, 1, 0, 1).dim(table, 2, a.rotary_dim / 2);
  }
  check.same_dim(2, 0, 1, 0);
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}

// Four products and two sums a pair.
Cost cost(const NodeSizes& sizes) {
  return {.flops = 3 * static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& a = attrs.as<RotaryAttrs>();
  const HostTensor &x = inputs[0].tensor, &cos = inputs[1].tensor, &sin = inputs[2].tensor;
  std::vector<double>& y = outputs[0].values;
  y = x.values;
  const int64_t half = a.rotary_dim / 2;
  for (int64_t token = 0; token < x.dims[0] * x.dims[1]; ++token) {
    const int64_t row = cos.dims[0] == 1 ? token % x.dims[1] : token;
    for (int64_t head = 0; head < a.heads; ++head) {
      const int64_t begin = (token * a.heads + head) * a.head_dim;
      for (int64_t i = 0; i < half; ++i) {
        turn_pair(x.values.data() + begin, i, a.rotary_dim, a.interleaved, cos.values[row * half + i], sin.values[row * half + i],
                  y.data() + begin);
      }
    }
  }
}

Tolerance tolerance(std::span<const ValueType>, const Attrs&) { return {.absolute = 1e-6, .relative = 1e-6}; }

std::vector<OpCase> cases() {
  const auto make = [](std::string name, const RotaryAttrs& attrs, int64_t batch, int64_t tokens, int64_t tables, bool bench = false) {
    const std::vector<int64_t> table = {tables, tokens, attrs.rotary_dim / 2};
    return OpCase{.name = std::move(name),
                  .attrs = attrs,
                  .inputs = {{.dims = {batch, tokens, int64_t{attrs.heads} * attrs.head_dim}}, {.dims = table}, {.dims = table}},
                  .bench = bench};
  };
  return {
      make("halves", {.heads = 3, .head_dim = 32, .rotary_dim = 32}, 2, 5, 2),
      make("one_table", {.heads = 2, .head_dim = 64, .rotary_dim = 64}, 3, 4, 1),
      make("partial", {.heads = 2, .head_dim = 50, .rotary_dim = 22}, 2, 5, 1),
      make("interleaved", {.heads = 2, .head_dim = 36, .rotary_dim = 36, .interleaved = true}, 2, 5, 2),
      make("interleaved_partial", {.heads = 3, .head_dim = 11, .rotary_dim = 6, .interleaved = true}, 1, 3, 1),
      make("pair", {.heads = 1, .head_dim = 2, .rotary_dim = 2}, 1, 1, 1),
      make("no_tokens", {.heads = 1, .head_dim = 4, .rotary_dim = 4}, 2, 0, 1),
      make("llama_prefill", {.heads = 32, .head_dim = 64, .rotary_dim = 64}, 1, 512, 1, true),
      make("interleaved_prefill", {.heads = 16, .head_dim = 64, .rotary_dim = 64, .interleaved = true}, 1, 512, 1, true),
  };
}

// A batch entry of its own: its tables too, where they are its own.
std::vector<HostValue> row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  std::vector<HostValue> alone = slice_rows(inputs, {0}, row);
  if (inputs[1].tensor.dims[0] == 1) return alone;
  for (const int table : {1, 2}) alone[table].tensor = slice_row(inputs[table].tensor, row);
  return alone;
}

}  // namespace

const Op rotary{
    .name = "rotary",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .in_place = {{0, 0}},
    .tolerance = tolerance,
    .cases = cases,
    .row_alone = row_alone,
};

}  // namespace headrace::ops
