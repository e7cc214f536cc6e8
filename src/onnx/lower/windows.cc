// What slides over images: convolutions, pools, resizing. Headrace's ops take channels last, so each stands between two transposes, which
// a pass then moves out of the way. One-dimensional ones become two-dimensional with a height of 1.
#include <algorithm>

#include "onnx/lower.h"
#include "onnx/ops/window.h"
#include "ops/conv.h"
#include "ops/pool_2d.h"
#include "ops/resize_2d.h"

namespace headrace::onnx {
namespace {

// [N, C, L] -> [N, C, 1, L]
ValueId as_image(LowerContext& context, ValueId value) {
  Dims dims = context.dims_of(value);
  if (dims.size() == 3) dims.insert(dims.begin() + 2, 1);
  return context.reshape(value, dims);
}

// Two numbers, height first, of one or two.
template <class T = int64_t>
std::array<T, 2> both(const std::vector<T>& values, T otherwise) {
  return values.size() == 1 ? std::array<T, 2>{otherwise, values[0]} : std::array<T, 2>{values[0], values[1]};
}
std::array<int64_t, 4> pads_of(const Window& window) {
  const auto begin = both(window.begin, int64_t{0}), end = both(window.end, int64_t{0});
  return {begin[0], begin[1], end[0], end[1]};
}

bool is_image(const LowerContext& context) {
  return context.all_f32() && (context.rank(0) == 3 || context.rank(0) == 4);
}

void set_image(LowerContext& context, ValueId value) {
  context.set(0, context.reshape(context.to_channels_first(value), context.output_dims(0)));
}

// x, weight and, where it is there, bias.
std::vector<ValueId> conv_inputs(LowerContext& context, ValueId x, ValueId weight, ValueId bias) {
  std::vector<ValueId> inputs = {context.to_channels_last(as_image(context, x)), as_image(context, weight)};
  if (bias != kNone) inputs.push_back(bias);
  return inputs;
}
ValueId bias_of(LowerContext& context) { return context.has_input(2) ? context.input(2) : kNone; }

Dims kernel_of(const Dims& weight) { return Dims(weight.begin() + 2, weight.end()); }

bool conv(LowerContext& context) {
  if (!is_image(context)) return false;
  const ValueId y = emit_conv(context, context.input(0), context.input(1), bias_of(context));
  if (y == kNone) return false;
  context.set(0, y);
  return true;
}

bool conv_transpose(LowerContext& context) {
  if (!is_image(context) || context.rank(1) != context.rank(0)) return false;
  const Dims x = context.dims(0);
  Result<Window> window = window_attributes(context, std::span(x).subspan(2), kernel_of(context.dims(1)));
  const Result<int64_t> groups = context.integer("group", 1);
  const Result<Dims> extra = context.NodeReader::integers("output_padding", Dims(x.size() - 2, 0));
  const Result<std::string> auto_pad = context.text("auto_pad", "NOTSET");
  // Dims that the model sets need other pads: the host has the rule.
  if (!window || !groups || !extra || !auto_pad || *auto_pad != "NOTSET" || context.has("output_shape")) return false;
  if (extra->size() != x.size() - 2) return false;
  ops::ConvAttrs attrs{.stride = both(window->strides, int64_t{1}),
                       .dilation = both(window->dilations, int64_t{1}),
                       .pads = pads_of(*window),
                       .output_pad = both(*extra, int64_t{0}),
                       .groups = *groups};
  attrs.epilogue.bias = context.has_input(2);
  set_image(context, context.emit(ops::conv_transpose, attrs, conv_inputs(context, context.input(0), context.input(1), bias_of(context))));
  return true;
}

// Whether each window covers an element of the image: what no window covers has no average.
bool covers_something(const Window& window) {
  for (size_t i = 0; i < window.rank(); ++i) {
    const int64_t in = window.input[i], extent = window.extent(i), last = (window.output[i] - 1) * window.strides[i] - window.begin[i];
    const bool padded = window.begin[i] + window.end[i] > 0 || last + extent > in;
    // Taps further apart than the image is long may stand on both sides of it.
    if (window.begin[i] >= extent || last >= in || (padded && window.dilations[i] > std::max<int64_t>(1, in))) return false;
  }
  return true;
}

template <ops::Pool2dAttrs::Kind kind>
bool pool(LowerContext& context) {
  if (context.wants_output(1)) return context.decline("its indices are read");
  if (!is_image(context)) return false;
  const Dims x = context.dims(0);
  const Result<int64_t> ceil_mode = context.integer("ceil_mode", 0), count_pads = context.integer("count_include_pad", 0);
  if (!ceil_mode || !count_pads) return false;
  const Result<Window> window = make_window(context, std::span(x).subspan(2), {}, *ceil_mode != 0);
  if (!window || (kind == ops::Pool2dAttrs::Kind::average && !covers_something(*window))) return false;
  const ops::Pool2dAttrs attrs{.kind = kind,
                               .window = both(window->kernel, int64_t{1}),
                               .stride = both(window->strides, int64_t{1}),
                               .dilation = both(window->dilations, int64_t{1}),
                               .pads = pads_of(*window),
                               .ceil_mode = *ceil_mode != 0,
                               .count_pads = *count_pads != 0};
  set_image(context, context.emit(ops::pool_2d, attrs, {context.to_channels_last(as_image(context, context.input(0)))}));
  return true;
}

// Resize and Upsample of the last two of four axes.
bool resize(LowerContext& context) {
  if (context.rank(0) != 4 || context.dtype(0) != DType::f32) return false;
  const bool upsample = context.node().op == "Upsample", old = upsample || context.opset() < 11;
  const Result<std::string> mode = context.text("mode", "nearest");
  const Result<std::string> places = context.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  const Result<std::string> rounding = context.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  const Result<std::string> aspect = context.text("keep_aspect_ratio_policy", "stretch");
  const Result<int64_t> antialias = context.integer("antialias", 0);
  if (!mode || !places || !rounding || !aspect || !antialias) return false;
  if (*antialias != 0 || *aspect != "stretch" || context.has("axes")) return false;
  ops::Resize2dAttrs attrs;
  using Attrs = ops::Resize2dAttrs;
  if (*mode == "linear" || *mode == "bilinear") attrs.mode = Attrs::Mode::linear;
  else if (*mode != "nearest") return false;
  if (*places == "pytorch_half_pixel") attrs.coordinates = Attrs::Coordinates::pytorch_half_pixel;
  else if (*places == "asymmetric") attrs.coordinates = Attrs::Coordinates::asymmetric;
  else if (*places == "align_corners") attrs.coordinates = Attrs::Coordinates::align_corners;
  else if (*places != "half_pixel") return false;
  if (*rounding == "round_prefer_ceil") attrs.rounding = Attrs::Rounding::round_prefer_ceil;
  else if (*rounding == "floor") attrs.rounding = Attrs::Rounding::floor;
  else if (*rounding == "ceil") attrs.rounding = Attrs::Rounding::ceil;
  else if (*rounding != "round_prefer_floor") return false;
  const Dims from = context.dims(0), to = context.output_dims(0);
  if (from[0] != to[0] || from[1] != to[1] || *std::ranges::min_element(from) == 0) return false;
  attrs.size = {to[2], to[3]};
  std::vector<float> scales;
  const int at = upsample || context.opset() < 11 ? 1 : 2;
  if (upsample && context.opset() < 9) {
    const Result<std::vector<float>> given = context.numbers("scales", {});
    if (!given) return false;
    scales = *given;
  } else if (context.has_input(at)) {
    const Tensor* given = context.constant(at);
    if (given == nullptr || given->dtype() != DType::f32) return false;
    scales.assign(given->data<float>(), given->data<float>() + given->elements());
  }
  const bool scaled = scales.size() == 4;
  const auto by_length = [&](size_t axis) { return static_cast<float>(to[axis]) / static_cast<float>(from[axis]); };
  if (!scaled) scales = {1, 1, by_length(2), by_length(3)};
  // A scale next to 1 keeps the length and moves the places all the same.
  if (scales[0] != 1 || scales[1] != 1) return false;
  // ONNX aligns the corners of a length that is a fraction; Headrace's op those of the output.
  const auto whole = [&](size_t axis) { return scales[axis] * static_cast<float>(from[axis]) == static_cast<float>(to[axis]); };
  if (attrs.coordinates == Attrs::Coordinates::align_corners && scaled && (!whole(2) || !whole(3))) return false;
  attrs.scale = {scales[2], scales[3]};
  set_image(context, context.emit(ops::resize_2d, attrs, {context.to_channels_last(context.input(0))}));
  return true;
}

constexpr LowerRow kRows[] = {
    {"AveragePool", pool<ops::Pool2dAttrs::Kind::average>},
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"MaxPool", pool<ops::Pool2dAttrs::Kind::max>},
    {"Resize", resize},
    {"Upsample", resize},
};

}  // namespace

ValueId emit_conv(LowerContext& context, ValueId x, ValueId weight, ValueId bias) {
  const Dims x_dims = context.dims_of(x), weight_dims = context.dims_of(weight);
  if ((x_dims.size() != 3 && x_dims.size() != 4) || weight_dims.size() != x_dims.size()) return kNone;
  const Result<Window> window = make_window(context, std::span(x_dims).subspan(2), kernel_of(weight_dims));
  const Result<int64_t> groups = context.integer("group", 1);
  if (!window || !groups) return kNone;
  ops::ConvAttrs attrs{.stride = both(window->strides, int64_t{1}),
                       .dilation = both(window->dilations, int64_t{1}),
                       .pads = pads_of(*window),
                       .groups = *groups};
  attrs.epilogue.bias = bias != kNone;
  const ValueId y = context.emit(ops::conv, attrs, conv_inputs(context, x, weight, bias));
  return context.reshape(context.to_channels_first(y), context.output_dims(0));
}

std::span<const LowerRow> lower_windows();
std::span<const LowerRow> lower_windows() { return kRows; }

}  // namespace headrace::onnx
