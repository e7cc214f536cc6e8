#include "ops/conv.h"

#include <cmath>

namespace headrace::ops {
namespace {

std::string describe_window(const ConvAttrs& a) {
  std::string text = fmt::format("stride={}x{}", a.stride[0], a.stride[1]);
  if (a.dilation != std::array<int64_t, 2>{1, 1}) text += fmt::format(" dilation={}x{}", a.dilation[0], a.dilation[1]);
  if (a.pads != std::array<int64_t, 4>{}) text += fmt::format(" pads={},{},{},{}", a.pads[0], a.pads[1], a.pads[2], a.pads[3]);
  if (a.output_pad != std::array<int64_t, 2>{}) text += fmt::format(" output_pad={}x{}", a.output_pad[0], a.output_pad[1]);
  if (a.groups != 1) text += fmt::format(" groups={}", a.groups);
  return text;
}

Windows windows_of(const ConvAttrs& a, const Shape& weight, int axis) {
  return a.windows(axis, weight[2 + axis].constant());
}

// x, weight and attributes fit each other, but for the channels.
InputCheck check_inputs(std::string_view op, std::span<const ValueType> inputs, const ConvAttrs& a) {
  InputCheck check(op, inputs, input_names({"x", "weight"}, a.epilogue));
  check.tensor(0, DType::f32, 4).tensor(1, DType::f32, 4).constant_dims();
  if (!check.ok()) return check;
  for (int axis = 0; axis < 2; ++axis) check_windows(check, windows_of(a, inputs[1].shape, axis));
  const Dim& outer = inputs[1].shape[0];
  check.require(a.groups >= 1 && outer.constant() % a.groups == 0, "groups must be above 0 and divide the weight's first axis");
  check.require(inputs[1].shape[1].constant() >= 1 && outer.constant() >= 1, "want a weight of at least one channel");
  return check;
}

Result<std::vector<ValueType>> infer_conv(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& a = attrs.as<ConvAttrs>();
  InputCheck check = check_inputs("conv", inputs, a);
  if (!check.ok()) return check.outputs({});
  const Shape& x = inputs[0].shape;
  const Shape& weight = inputs[1].shape;
  check.dim(0, 3, weight[1] * a.groups);
  check.require(a.output_pad == std::array<int64_t, 2>{}, "output_pad belongs to conv_transpose");
  Shape out{x[0]};
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t count = windows_of(a, weight, axis).count(x[1 + axis].constant());
    check.require(count > 0, fmt::format("axis {} of x, {} elements with pads {} and {}, is shorter than the window", 1 + axis,
                                         x[1 + axis].constant(), a.pads[axis], a.pads[2 + axis]));
    out.push_back(count);
  }
  out.push_back(weight[0]);
  check_epilogue(check, a.epilogue, 2, out);
  return check.outputs({ValueType::tensor(DType::f32, out)});
}

Result<std::vector<ValueType>> infer_transpose(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& a = attrs.as<ConvAttrs>();
  InputCheck check = check_inputs("conv_transpose", inputs, a);
  if (!check.ok()) return check.outputs({});
  const Shape& x = inputs[0].shape;
  const Shape& weight = inputs[1].shape;
  check.dim(0, 3, weight[0]);
  Shape out{x[0]};
  for (int axis = 0; axis < 2; ++axis) {
    const Windows windows = windows_of(a, weight, axis);
    const int64_t size = x[1 + axis].constant();
    check.require(size >= 1 && size <= kMaxWindowAttr, fmt::format("axis {} of x: want 1 to 2^30 elements", 1 + axis));
    check.require(a.output_pad[axis] >= 0 && a.output_pad[axis] <= kMaxWindowAttr, "output_pad: want 0 to 2^30");
    if (!check.ok()) return check.outputs({});
    const int64_t count = windows.covered(size, a.output_pad[axis]);
    check.require(count > 0, fmt::format("axis {}: the pads cut away the whole output", 1 + axis));
    out.push_back(count);
  }
  out.push_back(weight[1] * a.groups);
  check_epilogue(check, a.epilogue, 2, out);
  return check.outputs({ValueType::tensor(DType::f32, out)});
}

int64_t elements(const Shape& shape) { return shape.elements(Bindings()); }

// Each output element (conv) or input element (conv_transpose) meets one weight of each place and channel of its group.
Cost cost_of(const NodeSizes& sizes, const Shape& each, const Dim& channels) {
  const Shape& weight = sizes.inputs[1].shape;
  const double terms = static_cast<double>(channels.constant() * weight[2].constant() * weight[3].constant());
  return {.flops = 2.0 * static_cast<double>(elements(each)) * terms, .bytes = all_bytes(sizes)};
}

// Calls use(n, oh, ow, o, ih, iw, c, weight) for each product of a convolution of `image` into `result`.
template <class Use>
void each_product(const ConvAttrs& a, const std::vector<int64_t>& image, const std::vector<int64_t>& result, const HostTensor& weight,
                  const Use& use) {
  const int64_t per_group = weight.dims[1], out_per_group = weight.dims[0] / a.groups;
  for (int64_t n = 0; n < result[0]; ++n) {
    for (int64_t oh = 0; oh < result[1]; ++oh) {
      for (int64_t ow = 0; ow < result[2]; ++ow) {
        for (int64_t o = 0; o < weight.dims[0]; ++o) {
          for (int64_t kh = 0; kh < weight.dims[2]; ++kh) {
            const int64_t ih = oh * a.stride[0] - a.pads[0] + kh * a.dilation[0];
            for (int64_t kw = 0; kw < weight.dims[3] && ih >= 0 && ih < image[1]; ++kw) {
              const int64_t iw = ow * a.stride[1] - a.pads[1] + kw * a.dilation[1];
              for (int64_t c = 0; c < per_group && iw >= 0 && iw < image[2]; ++c) {
                const int64_t at = ((o * per_group + c) * weight.dims[2] + kh) * weight.dims[3] + kw;
                use(((n * image[1] + ih) * image[2] + iw) * image[3] + o / out_per_group * per_group + c,
                    ((n * result[1] + oh) * result[2] + ow) * result[3] + o, weight.values[at]);
              }
            }
          }
        }
      }
    }
  }
}

void finish(const ConvAttrs& a, std::span<const HostValue> inputs, HostTensor& out) {
  for (size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] = apply_epilogue(a.epilogue, inputs, 2, static_cast<int64_t>(i), static_cast<int64_t>(i) % out.dims[3], out.values[i]);
  }
}

void reference_conv(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& a = attrs.as<ConvAttrs>();
  const HostTensor& x = inputs[0].tensor;
  HostTensor& out = outputs[0];
  each_product(a, x.dims, out.dims, inputs[1].tensor,
               [&](int64_t from, int64_t to, double weight) { out.values[to] += weight * x.values[from]; });
  finish(a, inputs, out);
}

// The gradient: every product of the convolution that maps the output's image to x, the other way round.
void reference_transpose(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& a = attrs.as<ConvAttrs>();
  const HostTensor& x = inputs[0].tensor;
  HostTensor& out = outputs[0];
  each_product(a, out.dims, x.dims, inputs[1].tensor,
               [&](int64_t to, int64_t from, double weight) { out.values[to] += weight * x.values[from]; });
  finish(a, inputs, out);
}

// One case: an image, a weight, attributes.
struct Size {
  std::string name;
  std::array<int64_t, 4> x;  // N, H, W, C
  int64_t out_channels;
  std::array<int64_t, 2> window;
  ConvAttrs attrs;
  bool bench = false;
};

OpCase make_case(const Size& size, bool transpose) {
  const ConvAttrs& a = size.attrs;
  const int64_t channels = size.x[3];
  const double terms = static_cast<double>(channels / a.groups * size.window[0] * size.window[1]);
  std::vector<int64_t> weight = {size.out_channels, channels / a.groups, size.window[0], size.window[1]};
  if (transpose) weight = {channels, size.out_channels / a.groups, size.window[0], size.window[1]};
  OpCase one{.name = size.name,
             .attrs = a,
             .inputs = {{.dims = {size.x.begin(), size.x.end()}}, {.dims = weight, .scale = 1.0 / std::sqrt(terms)}},
             .bench = size.bench};
  if (a.epilogue.bias) one.inputs.push_back({.dims = {size.out_channels}});
  if (!a.epilogue.residual) return one;
  std::vector<int64_t> out = {size.x[0]};
  for (int axis = 0; axis < 2; ++axis) {
    const Windows windows = a.windows(axis, size.window[axis]);
    const int64_t in = size.x[1 + axis];
    out.push_back(transpose ? windows.covered(in, a.output_pad[axis]) : windows.count(in));
  }
  out.push_back(size.out_channels);
  one.inputs.push_back({.dims = out});
  return one;
}

std::vector<OpCase> cases_conv() {
  const Epilogue bias{.bias = true};
  const Epilogue bias_relu{.bias = true, .activation = UnaryAttrs{UnaryKind::relu}};
  const Epilogue bias_clip{.bias = true, .activation = UnaryAttrs{UnaryKind::clip, 0.0f, 6.0f}};
  const Epilogue bottleneck{.bias = true, .residual = true, .activation = UnaryAttrs{UnaryKind::relu}};
  std::vector<Size> sizes = {
      {"one_element", {1, 1, 1, 1}, 1, {1, 1}, {}},
      {"empty_batch", {0, 5, 5, 3}, 4, {3, 3}, {}},
      {"odd_3x3", {2, 7, 9, 5}, 19, {3, 3}, {.pads = {1, 1, 1, 1}, .epilogue = bias}},
      {"odd_1x1", {2, 5, 7, 33}, 50, {1, 1}, {.epilogue = bias}},
      {"1x1_stride_2", {1, 9, 8, 24}, 40, {1, 1}, {.stride = {2, 2}}},
      {"1x1_padded", {1, 4, 5, 6}, 7, {1, 1}, {.pads = {1, 0, 2, 1}, .epilogue = bias}},
      {"stem_small", {1, 23, 21, 3}, 16, {7, 7}, {.stride = {2, 2}, .pads = {3, 3, 3, 3}, .epilogue = bias_relu}},
      {"asymmetric_pads", {1, 6, 8, 4}, 17, {3, 2}, {.stride = {2, 1}, .pads = {0, 1, 1, 0}}},
      {"pads_past_the_window", {1, 3, 3, 4}, 5, {2, 2}, {.pads = {3, 4, 2, 3}, .epilogue = bias}},
      {"dilated", {1, 12, 11, 8}, 18, {3, 3}, {.dilation = {2, 3}, .pads = {2, 3, 2, 3}}},
      {"groups", {2, 6, 5, 12}, 18, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 3, .epilogue = bias}},
      {"groups_of_16", {1, 6, 5, 32}, 64, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 2}},
      {"depthwise", {2, 7, 8, 21}, 21, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 21, .epilogue = bias_clip}},
      {"depthwise_32", {1, 9, 9, 32}, 32, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 32, .epilogue = bias}},
      {"depthwise_stride_2", {1, 9, 10, 40}, 40, {5, 5}, {.stride = {2, 2}, .pads = {1, 2, 2, 2}, .groups = 40}},
      {"depthwise_dilated", {1, 9, 10, 16}, 16, {3, 3}, {.dilation = {2, 2}, .pads = {2, 2, 2, 2}, .groups = 16, .epilogue = bottleneck}},
      {"depthwise_narrow", {1, 2, 2, 16}, 16, {5, 5}, {.pads = {2, 2, 2, 2}, .groups = 16}},
      {"depthwise_doubled", {1, 5, 6, 7}, 14, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 7, .epilogue = bias}},
      {"one_dimensional", {2, 1, 40, 10}, 20, {1, 5}, {.stride = {1, 2}, .pads = {0, 2, 0, 2}, .epilogue = bias}},
      {"one_dimensional_depthwise", {2, 1, 33, 18}, 18, {1, 7}, {.pads = {0, 3, 0, 3}, .groups = 18}},
      {"bottleneck", {1, 7, 7, 64}, 64, {1, 1}, {.epilogue = bottleneck}},
  };
  for (const auto& [name, epilogue] : epilogue_cases()) {
    sizes.push_back({name, {1, 4, 5, 9}, 20, {3, 3}, {.pads = {1, 1, 1, 1}, .epilogue = epilogue}});
  }
  sizes.push_back({"depthwise_silu", {1, 4, 5, 20}, 20, {3, 3},
                   {.pads = {1, 1, 1, 1}, .groups = 20, .epilogue = {.bias = true, .activation = UnaryAttrs{UnaryKind::silu}}}});
  const ConvAttrs same{.pads = {1, 1, 1, 1}, .epilogue = bias_relu};
  for (const int64_t n : {1, 8}) {
    const std::string batch = fmt::format("_b{}", n);
    sizes.push_back({"resnet50_3x3_56" + batch, {n, 56, 56, 64}, 64, {3, 3}, same, true});
    sizes.push_back({"resnet50_1x1_256_64" + batch, {n, 56, 56, 256}, 64, {1, 1}, {.epilogue = bias_relu}, true});
    sizes.push_back({"resnet50_1x1_64_256_residual" + batch, {n, 56, 56, 64}, 256, {1, 1}, {.epilogue = bottleneck}, true});
    sizes.push_back({"resnet50_3x3_7" + batch, {n, 7, 7, 512}, 512, {3, 3}, same, true});
    sizes.push_back({"resnet50_stem" + batch, {n, 224, 224, 3}, 64, {7, 7},
                     {.stride = {2, 2}, .pads = {3, 3, 3, 3}, .epilogue = bias_relu}, true});
    sizes.push_back({"mobilenet_depthwise_96_s2" + batch, {n, 112, 112, 96}, 96, {3, 3},
                     {.stride = {2, 2}, .pads = {1, 1, 1, 1}, .groups = 96, .epilogue = bias_clip}, true});
    sizes.push_back({"mobilenet_depthwise_192_28" + batch, {n, 28, 28, 192}, 192, {3, 3},
                     {.pads = {1, 1, 1, 1}, .groups = 192, .epilogue = bias_clip}, true});
    sizes.push_back({"mobilenet_depthwise_960_7" + batch, {n, 7, 7, 960}, 960, {3, 3},
                     {.pads = {1, 1, 1, 1}, .groups = 960, .epilogue = bias_clip}, true});
    sizes.push_back({"mobilenet_1x1_24_144" + batch, {n, 56, 56, 24}, 144, {1, 1}, {.epilogue = bias_clip}, true});
  }
  std::vector<OpCase> cases;
  for (const Size& size : sizes) cases.push_back(make_case(size, false));
  return cases;
}

std::vector<OpCase> cases_transpose() {
  const Epilogue bias{.bias = true};
  const Epilogue all{.bias = true, .residual = true, .activation = UnaryAttrs{UnaryKind::relu}};
  const Size sizes[] = {
      {"one_element", {1, 1, 1, 1}, 1, {1, 1}, {}},
      {"empty_batch", {0, 3, 3, 2}, 4, {2, 2}, {.stride = {2, 2}}},
      {"doubles", {2, 5, 6, 9}, 19, {2, 2}, {.stride = {2, 2}, .epilogue = bias}},
      {"overlaps", {1, 5, 4, 20}, 33, {4, 4}, {.stride = {2, 2}, .pads = {1, 1, 1, 1}, .epilogue = bias}},
      {"output_pad", {1, 5, 4, 3}, 16, {3, 3}, {.stride = {2, 3}, .pads = {1, 0, 1, 1}, .output_pad = {1, 2}}},
      {"dilated", {1, 4, 5, 6}, 7, {3, 2}, {.stride = {1, 2}, .dilation = {2, 3}, .pads = {0, 2, 1, 0}, .epilogue = all}},
      {"groups", {2, 4, 3, 12}, 18, {3, 3}, {.stride = {2, 2}, .pads = {1, 1, 1, 1}, .groups = 3, .epilogue = bias}},
      {"depthwise", {1, 4, 3, 20}, 20, {4, 4}, {.stride = {2, 2}, .pads = {1, 1, 1, 1}, .groups = 20}},
      {"gaps", {1, 3, 3, 5}, 6, {1, 1}, {.stride = {3, 2}, .epilogue = all}},
      {"one_dimensional", {1, 1, 12, 8}, 16, {1, 4}, {.stride = {1, 4}, .pads = {0, 1, 0, 1}, .epilogue = bias}},
      {"unet_up_128_64", {1, 32, 32, 128}, 64, {2, 2}, {.stride = {2, 2}, .epilogue = bias}, true},
  };
  std::vector<OpCase> cases;
  for (const Size& size : sizes) cases.push_back(make_case(size, true));
  return cases;
}

Tolerance tolerance_of(std::span<const ValueType> inputs, const Attrs& attrs, int channel_axis) {
  const Shape& weight = inputs[1].shape;
  const int64_t terms = weight[channel_axis].constant() * weight[2].constant() * weight[3].constant();
  return product_tolerance(terms, attrs.as<ConvAttrs>().epilogue);
}

}  // namespace

std::string ConvAttrs::describe() const { return describe_window(*this) + epilogue.describe(); }

const Op conv{
    .name = "conv",
    .infer = infer_conv,
    .cost = [](const NodeSizes& sizes) { return cost_of(sizes, sizes.outputs[0].shape, sizes.inputs[1].shape[1]); },
    .reference = reference_conv,
    .tolerance = [](std::span<const ValueType> inputs, const Attrs& attrs) { return tolerance_of(inputs, attrs, 1); },
    .cases = cases_conv,
};

const Op conv_transpose{
    .name = "conv_transpose",
    .infer = infer_transpose,
    .cost = [](const NodeSizes& sizes) { return cost_of(sizes, sizes.inputs[0].shape, sizes.inputs[1].shape[1]); },
    .reference = reference_transpose,
    .tolerance = [](std::span<const ValueType> inputs, const Attrs& attrs) { return tolerance_of(inputs, attrs, 0); },
    .cases = cases_transpose,
};

}  // namespace headrace::ops
