// Ops of images, which ONNX has channels first.
#include <algorithm>
#include <cmath>

#include "onnx/export/writer.h"
#include "ops/conv.h"
#include "ops/pool_2d.h"
#include "ops/resize_2d.h"

namespace headrace::onnx {
namespace {

template <size_t n>
Attribute list(const std::array<int64_t, n>& values) {
  return attribute(std::vector<int64_t>(values.begin(), values.end()));
}

Status write_conv_as(NodeWriter& node, const char* name) {
  const auto& attrs = node.attrs<ops::ConvAttrs>();
  const Order order = channels_first(4);
  const Dims weight = node.dims(1);
  Attributes attributes = {{"kernel_shape", attribute(std::vector<int64_t>{weight[2], weight[3]})}, {"strides", list(attrs.stride)},
                           {"dilations", list(attrs.dilation)}, {"pads", list(attrs.pads)}, {"group", attribute(attrs.groups)}};
  if (attrs.output_pad != std::array<int64_t, 2>{}) attributes["output_padding"] = list(attrs.output_pad);
  const Wire bias = attrs.epilogue.bias ? node.input(2) : Wire::none;
  const Wire product = node.add(name, {node.input(0, order), node.input(1), bias}, std::move(attributes));
  node.set(0, order, write_epilogue(node, attrs.epilogue, 2, order, product));
  return {};
}

Status write_conv(NodeWriter& node) { return write_conv_as(node, "Conv"); }
Status write_conv_transpose(NodeWriter& node) { return write_conv_as(node, "ConvTranspose"); }

// Pads and rounding that say the same windows where ONNX's two rules for the last one, which runtimes do not all keep, do not matter: the
// pads end with the last window where one more would begin behind the image, and it is rounded up only where that makes a window.
struct PoolWindows {
  std::vector<int64_t> pads;
  bool ceil_mode = false;
};
PoolWindows plain_windows(const ops::Pool2dAttrs& attrs, const Dims& in, const Dims& out) {
  PoolWindows windows{{attrs.pads.begin(), attrs.pads.end()}};
  for (size_t axis = 0; attrs.ceil_mode && axis < 2; ++axis) {
    const int64_t stride = attrs.stride[axis], extent = attrs.dilation[axis] * (attrs.window[axis] - 1) + 1, last = out[axis + 1] - 1;
    const int64_t begin = in[axis + 1] + windows.pads[axis] - extent;  // of a window that ends with the image
    int64_t& pad = windows.pads[axis + 2];
    if (begin + pad > last * stride) pad = std::min(pad, std::max<int64_t>(0, last * stride - begin));
    windows.ceil_mode = windows.ceil_mode || begin + pad < last * stride;
  }
  return windows;
}

Status write_pool(NodeWriter& node) {
  const auto& attrs = node.attrs<ops::Pool2dAttrs>();
  const Order order = channels_first(4);
  const PoolWindows windows = plain_windows(attrs, node.dims(0), node.output_dims());
  const bool max = attrs.kind == ops::Pool2dAttrs::Kind::max;
  Attributes attributes = {{"kernel_shape", list(attrs.window)}, {"strides", list(attrs.stride)}, {"dilations", list(attrs.dilation)},
                           {"pads", attribute(windows.pads)}};
  if (windows.ceil_mode) attributes["ceil_mode"] = attribute(int64_t{1});
  if (!max) attributes["count_include_pad"] = attribute(int64_t{attrs.count_pads});
  node.set(0, order, node.add(max ? "MaxPool" : "AveragePool", {node.input(0, order)}, std::move(attributes)));
  return {};
}

const char* name_of(ops::Resize2dAttrs::Coordinates coordinates) {
  using Coordinates = ops::Resize2dAttrs::Coordinates;
  switch (coordinates) {
    case Coordinates::half_pixel: return "half_pixel";
    case Coordinates::pytorch_half_pixel: return "pytorch_half_pixel";
    case Coordinates::asymmetric: return "asymmetric";
    case Coordinates::align_corners: return "align_corners";
  }
  return "";
}

const char* name_of(ops::Resize2dAttrs::Rounding rounding) {
  using Rounding = ops::Resize2dAttrs::Rounding;
  switch (rounding) {
    case Rounding::round_prefer_floor: return "round_prefer_floor";
    case Rounding::round_prefer_ceil: return "round_prefer_ceil";
    case Rounding::floor: return "floor";
    case Rounding::ceil: return "ceil";
  }
  return "";
}

// By its scales, where they give the size; otherwise by the size, where that gives the scales.
Status write_resize(NodeWriter& node) {
  const auto& attrs = node.attrs<ops::Resize2dAttrs>();
  const Order order = channels_first(4);
  const Dims dims = node.dims(0);
  // Corners are aligned by the sizes alone, whatever the scale.
  const bool corners = attrs.coordinates == ops::Resize2dAttrs::Coordinates::align_corners;
  bool by_scales = !corners, by_size = true;
  for (size_t axis = 0; axis < 2; ++axis) {
    const auto in = static_cast<float>(dims[axis + 1]);
    by_scales = by_scales && std::floor(in * attrs.scale[axis]) == static_cast<float>(attrs.size[axis]);
    by_size = by_size && (corners || attrs.scale[axis] == static_cast<float>(attrs.size[axis]) / in);
  }
  if (!by_scales && !by_size) {
    return make_status(Code::unsupported, "height and width {} x {} to {} x {} with the scales {} x {}: neither follows from the other",
                       dims[1], dims[2], attrs.size[0], attrs.size[1], attrs.scale[0], attrs.scale[1]);
  }
  const bool nearest = attrs.mode == ops::Resize2dAttrs::Mode::nearest;
  Attributes attributes = {{"mode", attribute(std::string(nearest ? "nearest" : "linear"))},
                           {"coordinate_transformation_mode", attribute(std::string(name_of(attrs.coordinates)))}};
  if (nearest) attributes["nearest_mode"] = attribute(std::string(name_of(attrs.rounding)));
  std::vector<Wire> inputs = {node.input(0, order), Wire::none};
  if (by_scales) {
    const Tensor scales = Tensor::of<float>({4}, {1.0f, 1.0f, attrs.scale[0], attrs.scale[1]});
    inputs.push_back(node.model().constant(scales, node.node().name + ".scales"));
  } else {
    inputs.insert(inputs.end(), {Wire::none, node.integers(ordered(node.output_dims(), order), "sizes")});
  }
  node.set(0, order, node.add("Resize", std::move(inputs), std::move(attributes)));
  return {};
}

constexpr ExportRow kRows[] = {
    {&ops::conv, write_conv}, {&ops::conv_transpose, write_conv_transpose}, {&ops::pool_2d, write_pool}, {&ops::resize_2d, write_resize}};

}  // namespace

std::span<const ExportRow> export_images() { return kRows; }

}  // namespace headrace::onnx
