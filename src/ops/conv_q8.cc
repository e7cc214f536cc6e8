#include "ops/conv_q8.h"

#include "ops/shapes.h"

namespace headrace::ops {
namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& a = attrs.as<ConvQ8Attrs>();
  if (!(a.conv.epilogue == Epilogue())) return error(Code::invalid_argument, "conv_q8: its epilogue stands in q8");
  auto floats = conv.infer(float_operands(inputs), a.conv);
  if (!floats) return tl::unexpected(floats.error().with_context("conv_q8"));
  return infer_q8("conv_q8", inputs, a.q8, (*floats)[0].shape);
}

Cost cost(const NodeSizes& sizes) { return conv.cost(sizes); }

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& a = attrs.as<ConvQ8Attrs>();
  conv.reference(a.conv, float_operands(inputs, a.q8), outputs);
  finish_q8(a.q8, inputs, outputs[0]);
}

struct Size {
  std::string name;
  std::array<int64_t, 4> x;  // N, H, W, C
  int64_t out_channels;
  std::array<int64_t, 2> window;
  ConvAttrs conv;
  Q8ProductAttrs q8;
  DType dtype = DType::u8;
  bool bench = false;
};

OpCase make_case(const Size& size) {
  const ConvAttrs& a = size.conv;
  const int64_t terms = size.x[3] / a.groups * size.window[0] * size.window[1];
  OpCase one{.name = size.name, .attrs = ConvQ8Attrs{a, size.q8}, .bench = size.bench};
  one.inputs.push_back({.dtype = size.dtype, .dims = {size.x.begin(), size.x.end()}, .scale = size.dtype == DType::u8 ? 256.0 : 128.0});
  one.inputs.push_back({.dtype = DType::i8, .dims = {size.out_channels, size.x[3] / a.groups, size.window[0], size.window[1]}});
  for (int64_t i = 0; i < elements_of(one.inputs[1].dims); ++i) {
    one.inputs[1].values.push_back(i % 11 == 0 ? -128 : static_cast<double>(i * 40503 / 8 % 255) - 127);
  }
  std::vector<int64_t> out = {size.x[0]};
  for (int axis = 0; axis < 2; ++axis) {
    out.push_back(a.windows(axis, size.window[axis]).count(size.x[1 + axis]));
  }
  out.push_back(size.out_channels);
  add_q8_inputs(one, size.q8, terms, out);
  return one;
}

std::vector<OpCase> cases() {
  const Quantization u8{DType::u8, 0.02f, 0}, i8{DType::i8, 0.03f, -5};
  const Epilogue bias{.bias = true}, bias_relu{.bias = true, .activation = UnaryAttrs{UnaryKind::relu}};
  const Q8ProductAttrs plain{.x_zero = 128}, to_u8{.x_zero = 113, .epilogue = bias_relu, .y = u8};
  const Q8ProductAttrs to_i8{.x_zero = -9, .epilogue = bias, .y = i8};
  const ConvAttrs same{.pads = {1, 1, 1, 1}};
  std::vector<Size> sizes = {
      {"one_element", {1, 1, 1, 1}, 1, {1, 1}, {}, plain},
      {"empty_batch", {0, 5, 5, 3}, 4, {3, 3}, {}, to_u8},
      {"odd_3x3", {2, 7, 9, 5}, 19, {3, 3}, same, to_u8},
      {"odd_1x1", {2, 5, 7, 33}, 50, {1, 1}, {}, to_u8},
      {"whole_1x1", {2, 5, 7, 32}, 50, {1, 1}, {}, plain},
      {"signed_1x1", {2, 5, 7, 32}, 50, {1, 1}, {}, to_i8, DType::i8},
      {"signed_3x3", {1, 6, 7, 11}, 20, {3, 3}, same, to_i8, DType::i8},
      {"1x1_stride_2", {1, 9, 8, 24}, 40, {1, 1}, {.stride = {2, 2}}, plain},
      {"stem_small", {1, 23, 21, 3}, 16, {7, 7}, {.stride = {2, 2}, .pads = {3, 3, 3, 3}}, to_u8},
      {"asymmetric_pads", {1, 6, 8, 4}, 17, {3, 2}, {.stride = {2, 1}, .pads = {0, 1, 1, 0}}, plain},
      {"pads_past_the_window", {1, 3, 3, 4}, 5, {2, 2}, {.pads = {3, 4, 2, 3}}, to_u8},
      {"dilated", {1, 12, 11, 8}, 18, {3, 3}, {.dilation = {2, 3}, .pads = {2, 3, 2, 3}}, plain},
      {"groups", {2, 6, 5, 12}, 18, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 3}, to_u8},
      {"groups_of_16", {1, 6, 5, 32}, 64, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 2}, to_u8},
      {"depthwise", {2, 7, 8, 21}, 21, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 21}, to_u8},
      {"depthwise_32", {1, 9, 9, 32}, 32, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 32}, plain},
      {"depthwise_signed", {1, 9, 9, 24}, 24, {3, 3}, {.stride = {2, 2}, .pads = {1, 1, 1, 1}, .groups = 24}, to_i8, DType::i8},
      {"depthwise_dilated", {1, 9, 10, 16}, 16, {3, 3}, {.dilation = {2, 2}, .pads = {2, 2, 2, 2}, .groups = 16}, to_u8},
      {"depthwise_large", {1, 24, 25, 5}, 5, {23, 23}, {.pads = {3, 3, 3, 3}, .groups = 5}, plain},
      {"depthwise_doubled", {1, 5, 6, 7}, 14, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 7}, to_u8},
      {"one_dimensional", {2, 1, 40, 10}, 20, {1, 5}, {.stride = {1, 2}, .pads = {0, 2, 0, 2}}, to_u8},
      {"long_sums", {1, 3, 3, 300}, 18, {3, 3}, same, plain},
  };
  for (const auto& [name, q8] : q8_cases()) sizes.push_back({name, {1, 4, 5, 9}, 20, {3, 3}, same, q8});
  for (const int64_t n : {1, 8}) {
    const std::string batch = fmt::format("_b{}", n);
    sizes.push_back({"resnet50_3x3_56" + batch, {n, 56, 56, 64}, 64, {3, 3}, same, to_u8, DType::u8, true});
    sizes.push_back({"resnet50_1x1_256_64" + batch, {n, 56, 56, 256}, 64, {1, 1}, {}, to_u8, DType::u8, true});
    sizes.push_back({"resnet50_3x3_7" + batch, {n, 7, 7, 512}, 512, {3, 3}, same, to_u8, DType::u8, true});
    sizes.push_back({"mobilenet_depthwise_192_28" + batch, {n, 28, 28, 192}, 192, {3, 3}, {.pads = {1, 1, 1, 1}, .groups = 192}, to_u8,
                     DType::u8, true});
  }
  std::vector<OpCase> all;
  for (const Size& size : sizes) all.push_back(make_case(size));
  return all;
}

}  // namespace

const Op conv_q8{
    .name = "conv_q8",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = [](std::span<const ValueType>, const Attrs& attrs) { return q8_tolerance(attrs.as<ConvQ8Attrs>().q8); },
    .cases = cases,
};

}  // namespace headrace::ops
