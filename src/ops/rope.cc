#include "ops/rope.h"

#include <cmath>

#include "ops/input_check.h"

namespace headrace::ops {

std::string RopeAttrs::describe() const {
  std::string text = fmt::format("heads={} head_dim={} rotary_dim={}", heads, head_dim, rotary_dim);
  if (interleaved) text += " interleaved";
  if (attention_factor != 1.0f) text += fmt::format(" attention_factor={:g}", attention_factor);
  return text;
}

namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& rope = attrs.as<RopeAttrs>();
  InputCheck check("rope", inputs, {"x", "positions", "inv_freq"});
  check.require(rope.heads > 0 && rope.head_dim > 0, "heads and head_dim must be positive");
  check.require(
      rope.rotary_dim > 0 && rope.rotary_dim % 2 == 0 && rope.rotary_dim <= rope.head_dim,
      fmt::format("rotary_dim must be even and within head_dim {}, got {}", rope.head_dim, rope.rotary_dim));
  check.activations(0, 2).dim(0, 1, int64_t{rope.heads} * rope.head_dim);
  check.tensor(1, DType::i32, 1).same_dim(1, 0, 0, 0);
  check.tensor(2, DType::f32, 1).dim(2, 0, rope.rotary_dim / 2);
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}

// Six operations a pair; sines and cosines, shared by the heads of a token, are about 40.
Cost cost(const NodeSizes& sizes) {
  const auto& rope = sizes.attrs.as<RopeAttrs>();
  const double tokens = static_cast<double>(sizes.inputs[0].shape[0].eval(sizes.bindings));
  const double pairs = rope.rotary_dim / 2;
  return {.flops = tokens * pairs * (6.0 * rope.heads + 40.0), .bytes = all_bytes(sizes)};
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& rope = attrs.as<RopeAttrs>();
  const std::vector<double>& x = inputs[0].tensor.values;
  std::vector<double>& y = outputs[0].values;
  y = x;
  const int half = rope.rotary_dim / 2;
  const int64_t width = int64_t{rope.heads} * rope.head_dim;
  for (int64_t t = 0; t < inputs[0].tensor.dims[0]; ++t) {
    for (int h = 0; h < rope.heads; ++h) {
      for (int i = 0; i < half; ++i) {
        const double angle = inputs[1].tensor.values[t] * inputs[2].tensor.values[i];
        const double c = std::cos(angle) * static_cast<double>(rope.attention_factor);
        const double s = std::sin(angle) * static_cast<double>(rope.attention_factor);
        const int64_t head = t * width + int64_t{h} * rope.head_dim;
        turn_pair(x.data() + head, i, rope.rotary_dim, rope.interleaved, c, s, y.data() + head);
      }
    }
  }
}

// In bf16 a difference of two products is as exact as the products are.
Tolerance tolerance(std::span<const ValueType> inputs, const Attrs&) {
  return rounded_to(inputs[0].dtype, {.absolute = 2e-6, .relative = 1e-6});
}

struct CaseShape {
  int64_t tokens;
  RopeAttrs attrs;
  double theta = 10000.0;
  bool strided = false;
};

std::vector<CaseInput> case_inputs(const CaseShape& shape, std::vector<double> positions) {
  CaseInput table{.dims = {shape.attrs.rotary_dim / 2}};
  for (int i = 0; i < shape.attrs.rotary_dim; i += 2) {
    table.values.push_back(std::pow(shape.theta, -static_cast<double>(i) / shape.attrs.rotary_dim));
  }
  return {
      {.dims = {shape.tokens, int64_t{shape.attrs.heads} * shape.attrs.head_dim}, .strided = shape.strided},
      {.dtype = DType::i32, .dims = {shape.tokens}, .values = std::move(positions)},
      std::move(table)};
}

std::vector<double> rising(int64_t count, int64_t from) {
  std::vector<double> positions;
  for (int64_t i = 0; i < count; ++i) positions.push_back(static_cast<double>(from + i));
  return positions;
}

std::vector<OpCase> cases() {
  const RopeAttrs query{.heads = 9, .head_dim = 64, .rotary_dim = 64};
  const RopeAttrs key{.heads = 3, .head_dim = 64, .rotary_dim = 64};
  const auto make = [](std::string name, CaseShape shape, std::vector<double> positions) {
    return OpCase{
        .name = std::move(name), .attrs = shape.attrs, .inputs = case_inputs(shape, std::move(positions))};
  };
  std::vector<OpCase> all = {
      make("two_element_head", {2, {.heads = 1, .head_dim = 2, .rotary_dim = 2}}, {0, 7}),
      make("odd_pairs", {3, {.heads = 2, .head_dim = 12, .rotary_dim = 6}}, {5, 0, 1000}),
      make("partial", {4, {.heads = 3, .head_dim = 80, .rotary_dim = 32}}, {1, 2, 3, 4}),
      make("interleaved", {4, {.heads = 3, .head_dim = 48, .rotary_dim = 48, .interleaved = true}},
           {9, 1, 0, 31}),
      make("interleaved_partial", {2, {.heads = 2, .head_dim = 24, .rotary_dim = 10, .interleaved = true}},
           {3, 4}),
      make("attention_factor",
           {2, {.heads = 2, .head_dim = 32, .rotary_dim = 32, .attention_factor = 1.1386f}}, {12, 70}),
      make("far_positions", {4, {.heads = 1, .head_dim = 64, .rotary_dim = 64}, 500000.0},
           {8191, 131071, 999999, 16777215}),
      make("strided", {3, {.heads = 2, .head_dim = 64, .rotary_dim = 64}, 10000.0, true}, {0, 1, 2}),
      make("empty", {0, query}, {}),
  };
  OpCase decode = make("smollm2_query_decode", {1, query, 100000.0}, {777});
  OpCase prefill_query = make("smollm2_query_prefill", {512, query, 100000.0}, rising(512, 0));
  OpCase prefill_key = make("smollm2_key_prefill", {512, key, 100000.0}, rising(512, 0));
  decode.bench = prefill_query.bench = prefill_key.bench = true;
  decode.phase = "decode";
  prefill_query.phase = prefill_key.phase = "prefill";
  for (OpCase* one : {&decode, &prefill_query, &prefill_key}) all.push_back(std::move(*one));
  return all;
}

std::vector<HostValue> row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  return slice_rows(inputs, {0, 1}, row);
}

}  // namespace

const Op rope{
    .name = "rope",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .in_place = {{0, 0}},
    .tolerance = tolerance,
    .cases = cases,
    .row_alone = row_alone,
};

}  // namespace headrace::ops
