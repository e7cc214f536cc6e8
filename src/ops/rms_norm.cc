#include "ops/rms_norm.h"

#include <cmath>

#include "ops/input_check.h"

namespace headrace::ops {

std::string RmsNormAttrs::describe() const {
  std::string text = fmt::format("eps={:g}", eps);
  if (offset != 0.0f) text += fmt::format(" offset={:g}", offset);
  if (heads != 1) text += fmt::format(" heads={}", heads);
  if (out != DType::f32) text += fmt::format(" {}", dtype_name(out));
  return text;
}

namespace {

void check_out(InputCheck& check, const RmsNormAttrs& attrs) {
  check.require(attrs.out == DType::f32 || attrs.out == DType::bf16, "out must be f32 or bf16");
}

Result<std::vector<ValueType>> infer_rms_norm(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("rms_norm", inputs, {"x", "weight"});
  const auto& a = attrs.as<RmsNormAttrs>();
  check.rows(0).float_vector(1);
  check_out(check, a);
  check.require(a.eps >= 0, "eps must not be negative").require(a.heads >= 1, "heads must be at least 1");
  if (!check.ok()) return check.outputs({});
  const int last = inputs[0].shape.rank() - 1;
  if (a.heads == 1) {
    check.same_dim(1, 0, 0, last);
  } else {
    const Dim width = inputs[0].shape[last];
    check.require(width.is_constant() && width.constant() % a.heads == 0, "heads must divide the width of x");
    if (check.ok()) check.dim(1, 0, width.constant() / a.heads);
  }
  return check.outputs({ValueType::tensor(a.out, inputs[0].shape)});
}

Result<std::vector<ValueType>> infer_add_rms_norm(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("add_rms_norm", inputs, {"x", "residual", "weight"});
  const auto& a = attrs.as<RmsNormAttrs>();
  check.rows(0).tensor(1, DType::f32).float_vector(2);
  check.require(check.ok() && inputs[0].shape == inputs[1].shape, "x and residual must have one shape");
  check_out(check, a);
  if (check.ok()) check.same_dim(2, 0, 0, inputs[0].shape.rank() - 1);
  check.require(a.eps >= 0, "eps must not be negative").require(a.heads == 1, "heads must be 1");
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[1], ValueType::tensor(a.out, inputs[0].shape)});
}

// Square, add; times the inverse root, times the weight; the sum of the fused form.
Cost cost_rms_norm(const NodeSizes& sizes) {
  return {.flops = 4.0 * static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)),
          .bytes = all_bytes(sizes)};
}
Cost cost_add_rms_norm(const NodeSizes& sizes) {
  return {.flops = 5.0 * static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)),
          .bytes = all_bytes(sizes)};
}

void normalize(const RmsNormAttrs& attrs, const HostTensor& x, const HostTensor& weight, HostTensor& y) {
  const auto width = static_cast<int64_t>(weight.values.size());
  const int64_t heads = width == 0 ? 0 : static_cast<int64_t>(x.values.size()) / width;
  for (int64_t row = 0; row < heads; ++row) {
    const double* in = x.values.data() + row * width;
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += in[i] * in[i];
    const double inverse =
        1.0 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(attrs.eps));
    for (int64_t i = 0; i < width; ++i) {
      y.values[row * width + i] = in[i] * inverse * (weight.values[i] + static_cast<double>(attrs.offset));
    }
  }
}

void reference_rms_norm(const Attrs& attrs, std::span<const HostValue> inputs,
                        std::span<HostTensor> outputs) {
  normalize(attrs.as<RmsNormAttrs>(), inputs[0].tensor, inputs[1].tensor, outputs[0]);
}

void reference_add_rms_norm(const Attrs& attrs, std::span<const HostValue> inputs,
                            std::span<HostTensor> outputs) {
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    outputs[0].values[i] = inputs[0].tensor.values[i] + inputs[1].tensor.values[i];
  }
  normalize(attrs.as<RmsNormAttrs>(), outputs[0], inputs[2].tensor, outputs[1]);
}

// float32 sums of up to some thousand squares in 16 lanes.
Tolerance tolerance(std::span<const ValueType>, const Attrs& attrs) {
  return rounded_to(attrs.as<RmsNormAttrs>().out, {.absolute = 1e-6, .relative = 3e-6});
}

CaseInput rows(int64_t count, int64_t width, double scale = 1.0, bool strided = false) {
  return {.dims = {count, width}, .scale = scale, .strided = strided};
}
CaseInput vector(int64_t width, Format format) {
  return {.kind = ValueType::Kind::weight, .format = format, .dims = {width}};
}

CaseInput bf16(CaseInput input) {
  input.dtype = DType::bf16;
  return input;
}

std::vector<OpCase> cases_rms_norm() {
  const RmsNormAttrs plain{.eps = 1e-5f}, to_bf16{.eps = 1e-5f, .out = DType::bf16};
  return {
      {.name = "one_element", .attrs = plain, .inputs = {rows(3, 1), vector(1, Format::f32)}},
      {.name = "odd_width", .attrs = plain, .inputs = {rows(5, 37), vector(37, Format::f32)}},
      {.name = "bf16_weight", .attrs = plain, .inputs = {rows(2, 100), vector(100, Format::bf16)}},
      {.name = "weight_plus_one",
       .attrs = RmsNormAttrs{.eps = 1e-6f, .offset = 1.0f},
       .inputs = {rows(7, 130), vector(130, Format::f16)}},
      {.name = "tiny_values", .attrs = plain, .inputs = {rows(2, 64, 1e-12), vector(64, Format::f32)}},
      {.name = "large_values", .attrs = plain, .inputs = {rows(2, 64, 1e6), vector(64, Format::f32)}},
      {.name = "strided", .attrs = plain, .inputs = {rows(4, 96, 1.0, true), vector(96, Format::f32)}},
      {.name = "empty", .attrs = plain, .inputs = {rows(0, 96), vector(96, Format::f32)}},
      {.name = "constant_weight", .attrs = plain, .inputs = {rows(5, 37), {.dims = {37}}}},
      {.name = "three_axes", .attrs = plain, .inputs = {{.dims = {2, 3, 37}}, {.dims = {37}}}},
      {.name = "to_bf16", .attrs = to_bf16, .inputs = {rows(5, 37), vector(37, Format::f32)}},
      {.name = "bf16_to_bf16", .attrs = to_bf16, .inputs = {bf16(rows(3, 4096)), vector(4096, Format::bf16)}},
      {.name = "bf16_to_f32", .attrs = plain, .inputs = {bf16(rows(4, 96, 1.0, true)), vector(96, Format::f32)}},
      {.name = "bf16_heads",
       .attrs = RmsNormAttrs{.eps = 1e-6f, .heads = 4, .out = DType::bf16},
       .inputs = {bf16(rows(5, 512, 1.0, true)), vector(128, Format::bf16)}},
      {.name = "heads",
       .attrs = RmsNormAttrs{.eps = 1e-6f, .offset = 1.0f, .heads = 3},
       .inputs = {rows(5, 111, 1.0, true), vector(37, Format::bf16)}},
      {.name = "smollm2_decode",
       .attrs = plain,
       .inputs = {rows(1, 576), vector(576, Format::f32)},
       .bench = true,
       .phase = "decode"},
      {.name = "smollm2_prefill",
       .attrs = plain,
       .inputs = {rows(512, 576), vector(576, Format::f32)},
       .bench = true,
       .phase = "prefill"},
  };
}

std::vector<OpCase> cases_add_rms_norm() {
  const RmsNormAttrs plain{.eps = 1e-5f}, to_bf16{.eps = 1e-5f, .out = DType::bf16};
  return {
      {.name = "odd_width", .attrs = plain, .inputs = {rows(5, 37), rows(5, 37), vector(37, Format::f32)}},
      {.name = "weight_plus_one",
       .attrs = RmsNormAttrs{.eps = 1e-6f, .offset = 1.0f},
       .inputs = {rows(3, 66), rows(3, 66), vector(66, Format::bf16)}},
      {.name = "three_axes", .attrs = plain, .inputs = {{.dims = {2, 3, 37}}, {.dims = {2, 3, 37}}, {.dims = {37}}}},
      {.name = "strided",
       .attrs = plain,
       .inputs = {rows(4, 96, 1.0, true), rows(4, 96, 1.0, true), vector(96, Format::f32)}},
      {.name = "to_bf16", .attrs = to_bf16, .inputs = {rows(5, 37), rows(5, 37), vector(37, Format::f32)}},
      {.name = "bf16_to_bf16", .attrs = to_bf16, .inputs = {bf16(rows(3, 4096)), rows(3, 4096), vector(4096, Format::bf16)}},
      {.name = "empty", .attrs = plain, .inputs = {rows(0, 96), rows(0, 96), vector(96, Format::f32)}},
      {.name = "smollm2_decode",
       .attrs = plain,
       .inputs = {rows(1, 576), rows(1, 576), vector(576, Format::f32)},
       .bench = true,
       .phase = "decode"},
      {.name = "smollm2_prefill",
       .attrs = plain,
       .inputs = {rows(512, 576), rows(512, 576), vector(576, Format::f32)},
       .bench = true,
       .phase = "prefill"},
  };
}

}  // namespace

const Op rms_norm{
    .name = "rms_norm",
    .infer = infer_rms_norm,
    .cost = cost_rms_norm,
    .reference = reference_rms_norm,
    .in_place = {{0, 0}},
    .tolerance = tolerance,
    .cases = cases_rms_norm,
};

const Op add_rms_norm{
    .name = "add_rms_norm",
    .infer = infer_add_rms_norm,
    .cost = cost_add_rms_norm,
    .reference = reference_add_rms_norm,
    .in_place = {{0, 1}, {0, 0}},
    .tolerance = tolerance,
    .cases = cases_add_rms_norm,
};

}  // namespace headrace::ops
