#include "ops/layer_norm.h"

#include <cmath>

#include "ops/input_check.h"

namespace headrace::ops {

std::string LayerNormAttrs::describe() const {
  return fmt::format("eps={:g}", eps);
}

namespace {

// The bias stands behind the weight.
void check_vectors(InputCheck& check, std::span<const ValueType> inputs, const Attrs& attrs, int weight) {
  check.tensor(0, DType::f32).rows(0);
  for (const int vector : {weight, weight + 1}) {
    check.float_vector(vector);
    if (check.ok()) check.same_dim(vector, 0, 0, inputs[0].shape.rank() - 1);
  }
  check.require(attrs.as<LayerNormAttrs>().eps >= 0, "eps must not be negative");
}
Result<std::vector<ValueType>> infer_layer_norm(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("layer_norm", inputs, {"x", "weight", "bias"});
  check_vectors(check, inputs, attrs, 1);
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}
Result<std::vector<ValueType>> infer_add_layer_norm(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("add_layer_norm", inputs, {"x", "residual", "weight", "bias"});
  check_vectors(check, inputs, attrs, 2);
  check.same_type(1, 0);
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0], inputs[0]});
}

// The sum; subtract, square, add; subtract, times the inverse root, times the weight, plus the bias. The sum of the fused form.
Cost cost_of(const NodeSizes& sizes, double operations) {
  return {.flops = operations * static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)),
          .bytes = all_bytes(sizes)};
}
Cost cost_layer_norm(const NodeSizes& sizes) { return cost_of(sizes, 8); }
Cost cost_add_layer_norm(const NodeSizes& sizes) { return cost_of(sizes, 9); }

void normalize(const Attrs& attrs, const std::vector<double>& x, const std::vector<double>& weight, const std::vector<double>& bias,
               std::vector<double>& y) {
  const auto width = static_cast<int64_t>(weight.size());
  for (size_t begin = 0; begin < x.size(); begin += weight.size()) {
    const double* in = x.data() + begin;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i) mean += in[i] / static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) variance += (in[i] - mean) * (in[i] - mean) / static_cast<double>(width);
    const double inverse = 1.0 / std::sqrt(variance + static_cast<double>(attrs.as<LayerNormAttrs>().eps));
    for (int64_t i = 0; i < width; ++i) y[begin + i] = (in[i] - mean) * inverse * weight[i] + bias[i];
  }
}
void reference_layer_norm(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  normalize(attrs, inputs[0].tensor.values, inputs[1].tensor.values, inputs[2].tensor.values, outputs[0].values);
}
void reference_add_layer_norm(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    outputs[0].values[i] = inputs[0].tensor.values[i] + inputs[1].tensor.values[i];
  }
  normalize(attrs, outputs[0].values, inputs[2].tensor.values, inputs[3].tensor.values, outputs[1].values);
}

// float32 sums of up to some thousand terms in 64 chains; the mean's rounding is felt where x is near it.
Tolerance tolerance(std::span<const ValueType>, const Attrs&) {
  return {.absolute = 2e-6, .relative = 3e-6};
}

CaseInput rows(int64_t count, int64_t width, double scale = 1.0, bool strided = false) {
  return {.dims = {count, width}, .scale = scale, .strided = strided};
}
CaseInput vector(int64_t width, Format format) {
  return {.kind = ValueType::Kind::weight, .format = format, .dims = {width}};
}
// As graphs hold it.
CaseInput constant(int64_t width) { return {.dims = {width}}; }

std::vector<OpCase> cases_layer_norm() {
  const auto make = [](std::string name, CaseInput x, Format format, float eps = 1e-12f) {
    const int64_t width = x.dims[1];
    return OpCase{.name = std::move(name),
                  .attrs = LayerNormAttrs{eps},
                  .inputs = {std::move(x), vector(width, format), vector(width, format)}};
  };
  // Its mean and its distances from it are exact, and eps alone decides.
  CaseInput level = rows(2, 32);
  level.values.assign(64, 2.0);
  std::vector<OpCase> all = {
      make("two_columns", rows(3, 2), Format::f32, 1e-5f),
      make("odd_width", rows(5, 37), Format::f32),
      make("tail_of_three_chains", rows(3, 111), Format::bf16),
      make("f16_weights", rows(7, 130), Format::f16, 1e-6f),
      make("constant_rows", std::move(level), Format::f32),
      make("tiny_values", rows(2, 64, 1e-4), Format::f32, 1e-5f),
      make("large_values", rows(2, 64, 1e6), Format::f32),
      make("strided", rows(4, 96, 1.0, true), Format::f32),
      make("empty", rows(0, 96), Format::f32),
      make("minilm_batch", rows(512, 384), Format::f32),
      make("bert_large_sentence", rows(16, 1024), Format::f16),
  };
  for (size_t i = all.size() - 2; i < all.size(); ++i) {
    all[i].bench = true;
    all[i].phase = "prefill";
  }
  const auto of_graph = [&](std::string name, std::vector<int64_t> dims, bool bench = false) {
    const int64_t width = dims.back();
    const CaseInput x{.dims = std::move(dims)};
    all.push_back({.name = std::move(name), .attrs = LayerNormAttrs{}, .inputs = {x, constant(width), constant(width)}, .bench = bench});
  };
  of_graph("constants", {4, 37});
  of_graph("three_axes", {2, 3, 50});
  of_graph("four_axes", {2, 3, 2, 17});
  of_graph("vit", {8, 128, 768}, true);
  return all;
}

std::vector<OpCase> cases_add_layer_norm() {
  std::vector<OpCase> all;
  const auto add = [&](std::string name, CaseInput x, CaseInput weight, bool bench = false) {
    all.push_back({.name = std::move(name), .attrs = LayerNormAttrs{}, .inputs = {x, x, weight, weight}, .bench = bench});
  };
  add("odd_width", rows(5, 37), vector(37, Format::f32));
  add("half_weights", rows(3, 66), vector(66, Format::bf16));
  add("strided", rows(4, 96, 1.0, true), constant(96));
  add("empty", rows(0, 96), constant(96));
  add("three_axes", {.dims = {2, 3, 50}}, constant(50));
  add("bert_base", rows(1024, 768), constant(768), true);
  return all;
}

}  // namespace

const Op layer_norm{
    .name = "layer_norm",
    .infer = infer_layer_norm,
    .cost = cost_layer_norm,
    .reference = reference_layer_norm,
    .in_place = {{0, 0}},
    .tolerance = tolerance,
    .cases = cases_layer_norm,
};

const Op add_layer_norm{
    .name = "add_layer_norm",
    .infer = infer_add_layer_norm,
    .cost = cost_add_layer_norm,
    .reference = reference_add_layer_norm,
    .in_place = {{0, 1}, {0, 0}},
    .tolerance = tolerance,
    .cases = cases_add_layer_norm,
};

}  // namespace headrace::ops
