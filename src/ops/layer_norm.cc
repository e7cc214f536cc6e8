#include "ops/layer_norm.h"

#include <cmath>

#include "ops/input_check.h"

namespace headrace::ops {

std::string LayerNormAttrs::describe() const {
  return fmt::format("eps={:g}", eps);
}

namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("layer_norm", inputs, {"x", "weight", "bias"});
  check.tensor(0, DType::f32, 2).float_vector_weight(1).same_dim(1, 0, 0, 1);
  check.float_vector_weight(2).same_dim(2, 0, 0, 1);
  check.require(attrs.as<LayerNormAttrs>().eps >= 0, "eps must not be negative");
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}

// The sum; subtract, square, add; subtract, times the inverse root, times the weight, plus the bias.
Cost cost(const NodeSizes& sizes) {
  return {.flops = 8.0 * static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)),
          .bytes = all_bytes(sizes)};
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& x = inputs[0].tensor;
  const std::vector<double>&weight = inputs[1].tensor.values, &bias = inputs[2].tensor.values;
  const int64_t width = x.dims[1];
  for (int64_t row = 0; row < x.dims[0]; ++row) {
    const double* in = x.values.data() + row * width;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i) mean += in[i] / static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) variance += (in[i] - mean) * (in[i] - mean) / static_cast<double>(width);
    const double inverse = 1.0 / std::sqrt(variance + static_cast<double>(attrs.as<LayerNormAttrs>().eps));
    for (int64_t i = 0; i < width; ++i) {
      outputs[0].values[row * width + i] = (in[i] - mean) * inverse * weight[i] + bias[i];
    }
  }
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

std::vector<OpCase> cases() {
  const auto make = [](std::string name, CaseInput x, Format format, float eps = 1e-12f) {
    const int64_t width = x.dims[1];
    return OpCase{.name = std::move(name),
                  .attrs = LayerNormAttrs{eps},
                  .inputs = {std::move(x), vector(width, format), vector(width, format)}};
  };
  // Its mean and its distances from it are exact, and eps alone decides.
  CaseInput constant = rows(2, 32);
  constant.values.assign(64, 2.0);
  std::vector<OpCase> all = {
      make("two_columns", rows(3, 2), Format::f32, 1e-5f),
      make("odd_width", rows(5, 37), Format::f32),
      make("tail_of_three_chains", rows(3, 111), Format::bf16),
      make("f16_weights", rows(7, 130), Format::f16, 1e-6f),
      make("constant_rows", std::move(constant), Format::f32),
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
  return all;
}

}  // namespace

const Op layer_norm{
    .name = "layer_norm",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .in_place = {{0, 0}},
    .tolerance = tolerance,
    .cases = cases,
};

}  // namespace headrace::ops
