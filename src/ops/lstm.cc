#include "ops/lstm.h"

#include <algorithm>
#include <cmath>

#include "ops/input_check.h"

namespace headrace::ops {

std::string LstmAttrs::describe() const {
  constexpr std::string_view kNames[] = {"forward", "reverse", "bidirectional"};
  return fmt::format("{}{}", kNames[static_cast<size_t>(direction)], lengths ? " lengths" : "");
}

namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& given) {
  const auto& attrs = given.as<LstmAttrs>();
  std::vector<std::string_view> names = {"x", "w", "r", "bias", "h0", "c0"};
  if (attrs.lengths) names.push_back("lengths");
  InputCheck check("lstm", inputs, std::move(names));
  check.tensor(0, DType::f32, 3).tensor(1, DType::f32, 3).tensor(2, DType::f32, 3).tensor(3, DType::f32, 2);
  check.tensor(4, DType::f32, 3).tensor(5, DType::f32, 3);
  if (attrs.lengths) check.tensor(6, DType::i32, 1);
  check.constant_dims();
  if (!check.ok()) return check.outputs({});
  const Dim steps = inputs[0].shape[0], batch = inputs[0].shape[1], directions(attrs.directions());
  const int64_t hidden = inputs[2].shape[2].constant();
  check.require(hidden > 0 && hidden <= (int64_t{1} << 24), fmt::format("hidden size {}: want 1 to 2^24", hidden));
  if (!check.ok()) return check.outputs({});
  for (const int weight : {1, 2}) check.dim(weight, 0, directions).dim(weight, 1, Dim(4 * hidden));
  check.same_dim(1, 2, 0, 2).dim(3, 0, directions).dim(3, 1, Dim(8 * hidden));
  for (const int state : {4, 5}) check.dim(state, 0, directions).dim(state, 1, batch).dim(state, 2, Dim(hidden));
  if (attrs.lengths) check.dim(6, 0, batch);
  const ValueType state = ValueType::tensor(DType::f32, {directions, batch, Dim(hidden)});
  return check.outputs({ValueType::tensor(DType::f32, {steps, directions, batch, Dim(hidden)}), state, state});
}

// Two products, and five exponentials an element of y.
Cost cost(const NodeSizes& sizes) {
  const auto elements = static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings));
  const auto terms = static_cast<double>(sizes.inputs[0].shape[2].constant() + sizes.inputs[2].shape[2].constant());
  return {.flops = elements * (8 * terms + 100), .bytes = all_bytes(sizes)};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void reference(const Attrs& given, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& attrs = given.as<LstmAttrs>();
  const std::vector<double>&x = inputs[0].tensor.values, &w = inputs[1].tensor.values, &r = inputs[2].tensor.values;
  const std::vector<double>& bias = inputs[3].tensor.values;
  const int64_t steps = inputs[0].tensor.dims[0], batch = inputs[0].tensor.dims[1], terms = inputs[0].tensor.dims[2];
  const int64_t hidden = inputs[2].tensor.dims[2], rows = 4 * hidden;
  std::ranges::fill(outputs[0].values, 0.0);
  outputs[1].values = inputs[4].tensor.values;
  outputs[2].values = inputs[5].tensor.values;
  std::vector<double> gates(static_cast<size_t>(rows));
  for (int64_t d = 0; d < attrs.directions(); ++d) {
    for (int64_t b = 0; b < batch; ++b) {
      const auto length = attrs.lengths ? static_cast<int64_t>(inputs[6].tensor.values[b]) : steps;
      double* h = outputs[1].values.data() + (d * batch + b) * hidden;
      double* c = outputs[2].values.data() + (d * batch + b) * hidden;
      for (int64_t s = 0; s < length; ++s) {
        const int64_t at = attrs.backward(d) ? length - 1 - s : s;
        for (int64_t i = 0; i < rows; ++i) {
          double sum = bias[2 * d * rows + i] + bias[(2 * d + 1) * rows + i];
          for (int64_t k = 0; k < terms; ++k) sum += w[(d * rows + i) * terms + k] * x[(at * batch + b) * terms + k];
          for (int64_t k = 0; k < hidden; ++k) sum += r[(d * rows + i) * hidden + k] * h[k];
          gates[i] = sum;
        }
        for (int64_t i = 0; i < hidden; ++i) {
          c[i] = sigmoid(gates[2 * hidden + i]) * c[i] + sigmoid(gates[i]) * std::tanh(gates[3 * hidden + i]);
          h[i] = sigmoid(gates[hidden + i]) * std::tanh(c[i]);
        }
        std::copy_n(h, hidden, outputs[0].values.begin() + ((at * attrs.directions() + d) * batch + b) * hidden);
      }
    }
  }
}

// Sums of float32 products, whose errors the gates carry from step to step.
Tolerance tolerance(std::span<const ValueType> inputs, const Attrs&) {
  const auto terms = static_cast<double>(inputs[0].shape[2].constant() + inputs[2].shape[2].constant());
  return {.absolute = 4e-6 + 3e-7 * std::sqrt(terms), .relative = 1e-5};
}

struct Sizes {
  int64_t steps, batch, inputs, hidden;
};

OpCase make_case(std::string name, const Sizes& s, const LstmAttrs& attrs, std::vector<double> lengths = {}, bool bench = false) {
  const int64_t d = attrs.directions(), rows = 4 * s.hidden;
  const double scale = 1 / std::sqrt(static_cast<double>(s.hidden));
  OpCase one{.name = std::move(name),
             .attrs = attrs,
             .inputs = {{.dims = {s.steps, s.batch, s.inputs}},
                        {.dims = {d, rows, s.inputs}, .scale = scale},
                        {.dims = {d, rows, s.hidden}, .scale = scale},
                        {.dims = {d, 2 * rows}, .scale = 0.5},
                        {.dims = {d, s.batch, s.hidden}},
                        {.dims = {d, s.batch, s.hidden}}},
             .bench = bench};
  if (attrs.lengths) one.inputs.push_back({.dtype = DType::i32, .dims = {s.batch}, .values = std::move(lengths)});
  return one;
}

std::vector<OpCase> cases() {
  using Direction = LstmAttrs::Direction;
  const LstmAttrs forward{}, reverse{Direction::reverse}, both{Direction::bidirectional};
  const LstmAttrs some_steps{Direction::forward, true}, some_backward{Direction::reverse, true}, some_of_both{Direction::bidirectional, true};
  return {
      make_case("one_element", {1, 1, 1, 1}, forward),
      make_case("no_steps", {0, 2, 3, 5}, both),
      make_case("no_batch", {3, 0, 4, 5}, forward),
      make_case("no_inputs", {2, 2, 0, 7}, forward),
      make_case("odd", {7, 3, 9, 21}, forward),
      make_case("odd_reverse", {7, 3, 9, 21}, reverse),
      make_case("odd_both", {5, 2, 33, 50}, both),
      make_case("lengths", {6, 4, 10, 18}, some_steps, {6, 0, 3, 1}),
      make_case("lengths_reverse", {6, 4, 10, 18}, some_backward, {2, 6, 0, 5}),
      make_case("lengths_both", {5, 3, 17, 33}, some_of_both, {5, 1, 4}),
      make_case("long_terms", {2, 2, 700, 600}, forward),
      make_case("shared_steps", {12, 14, 40, 96}, both),
      make_case("voice_chunk_128", {1, 1, 128, 128}, forward, {}, true),
      make_case("speech_100x256", {100, 1, 80, 256}, both, {}, true),
      make_case("text_batch_8x512", {32, 8, 512, 512}, forward, {}, true),
  };
}

// Alone a step is the last of those before it; a step of a reversed direction is the first of those behind it.
std::vector<HostValue> row_alone(const Attrs& given, std::span<const HostValue> inputs, int64_t row) {
  const auto& attrs = given.as<LstmAttrs>();
  if (attrs.direction != LstmAttrs::Direction::forward || attrs.lengths) return {};
  std::vector<HostValue> alone(inputs.begin(), inputs.end());
  HostTensor& x = alone[0].tensor;
  x.values.resize(static_cast<size_t>((row + 1) * x.dims[1] * x.dims[2]));
  x.dims[0] = row + 1;
  return alone;
}

}  // namespace

const Op lstm{
    .name = "lstm",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = tolerance,
    .cases = cases,
    .row_alone = row_alone,
};

}  // namespace headrace::ops
