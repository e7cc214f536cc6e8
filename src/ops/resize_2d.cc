#include "ops/resize_2d.h"

#include <algorithm>
#include <cmath>

#include "ops/input_check.h"

namespace headrace::ops {

std::string Resize2dAttrs::describe() const {
  constexpr std::string_view kCoordinates[] = {"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"};
  constexpr std::string_view kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  std::string text = fmt::format("{} {} size={}x{}", mode == Mode::nearest ? "nearest" : "linear",
                                 kCoordinates[static_cast<size_t>(coordinates)], size[0], size[1]);
  if (mode == Mode::nearest) text += fmt::format(" {}", kRoundings[static_cast<size_t>(rounding)]);
  if (coordinates != Coordinates::align_corners) text += fmt::format(" scale={:g}x{:g}", scale[0], scale[1]);
  return text;
}

ResizePlace resize_place(const Resize2dAttrs& attrs, int axis, int64_t out, int64_t in_dim) {
  using Rounding = Resize2dAttrs::Rounding;
  const int64_t out_dim = attrs.size[axis];
  const float scale = attrs.scale[axis], o = static_cast<float>(out);
  float x = 0;
  switch (attrs.coordinates) {
    case Resize2dAttrs::Coordinates::half_pixel:
      x = (o + 0.5f) / scale - 0.5f;
      break;
    case Resize2dAttrs::Coordinates::pytorch_half_pixel:
      x = out_dim > 1 ? (o + 0.5f) / scale - 0.5f : 0.0f;
      break;
    case Resize2dAttrs::Coordinates::asymmetric:
      x = o / scale;
      break;
    case Resize2dAttrs::Coordinates::align_corners:
      x = out_dim > 1 ? o * static_cast<float>(in_dim - 1) / static_cast<float>(out_dim - 1) : 0.0f;
      break;
  }
  const float last = static_cast<float>(in_dim - 1);
  if (attrs.mode == Resize2dAttrs::Mode::linear) {
    const float inside = std::clamp(x, 0.0f, last);
    const auto first = static_cast<int64_t>(inside);
    return {first, std::min(first + 1, in_dim - 1), inside - static_cast<float>(first)};
  }
  const float below = std::floor(x);
  float nearest = below;
  switch (attrs.rounding) {
    case Rounding::round_prefer_floor:
      nearest = x - below > 0.5f ? below + 1 : below;
      break;
    case Rounding::round_prefer_ceil:
      nearest = x - below >= 0.5f ? below + 1 : below;
      break;
    case Rounding::floor:
      break;
    case Rounding::ceil:
      nearest = std::ceil(x);
      break;
  }
  const auto place = static_cast<int64_t>(std::clamp(nearest, 0.0f, last));
  return {place, place, 0.0f};
}

namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& resize = attrs.as<Resize2dAttrs>();
  InputCheck check("resize_2d", inputs, {"x"});
  check.tensor(0, DType::f32, 4);
  if (!check.ok()) return check.outputs({});
  const Shape& x = inputs[0].shape;
  constexpr int64_t kMost = int64_t{1} << 24;  // beyond it places are no longer exact in float32
  for (int axis = 0; axis < 2; ++axis) {
    const Dim& dim = x[axis + 1];
    check.require(dim.is_constant() && dim.constant() >= 1 && dim.constant() <= kMost,
                  "height and width of x must be constants from 1 to 2^24");
    check.require(resize.size[axis] >= 1 && resize.size[axis] <= kMost,
                  fmt::format("size must be from 1 to 2^24, got {}", resize.size[axis]));
    check.require(resize.scale[axis] > 0 && std::isfinite(resize.scale[axis]),
                  fmt::format("scale must be a number above 0, got {}", resize.scale[axis]));
  }
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(DType::f32, {x[0], Dim(resize.size[0]), Dim(resize.size[1]), x[3]})});
}

// Three weighted pairs for a linear element.
Cost cost(const NodeSizes& sizes) {
  const double operations = sizes.attrs.as<Resize2dAttrs>().mode == Resize2dAttrs::Mode::linear ? 9 : 0;
  return {.flops = operations * static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& resize = attrs.as<Resize2dAttrs>();
  const HostTensor& x = inputs[0].tensor;
  const int64_t height = x.dims[1], width = x.dims[2], channels = x.dims[3];
  const auto at = [&](int64_t image, int64_t row, int64_t column, int64_t channel) {
    return x.values[((image * height + row) * width + column) * channels + channel];
  };
  size_t i = 0;
  for (int64_t image = 0; image < x.dims[0]; ++image) {
    for (int64_t row = 0; row < resize.size[0]; ++row) {
      const ResizePlace v = resize_place(resize, 0, row, height);
      const double down = v.weight;
      for (int64_t column = 0; column < resize.size[1]; ++column) {
        const ResizePlace h = resize_place(resize, 1, column, width);
        const double right = h.weight;
        for (int64_t c = 0; c < channels; ++c) {
          const double upper = (1 - right) * at(image, v.first, h.first, c) + right * at(image, v.first, h.second, c);
          const double lower = (1 - right) * at(image, v.second, h.first, c) + right * at(image, v.second, h.second, c);
          outputs[0].values[i++] = (1 - down) * upper + down * lower;
        }
      }
    }
  }
}

Tolerance tolerance(std::span<const ValueType>, const Attrs& attrs) {
  if (attrs.as<Resize2dAttrs>().mode == Resize2dAttrs::Mode::nearest) return {0, 0};
  return {.absolute = 1e-6, .relative = 1e-6};
}

std::vector<OpCase> cases() {
  using Mode = Resize2dAttrs::Mode;
  using Coordinates = Resize2dAttrs::Coordinates;
  using Rounding = Resize2dAttrs::Rounding;
  std::vector<OpCase> all;
  const auto add = [&](std::string name, const Resize2dAttrs& attrs, std::vector<int64_t> dims, bool bench = false) {
    all.push_back({.name = std::move(name), .attrs = attrs, .inputs = {CaseInput{.dims = std::move(dims)}}, .bench = bench});
  };
  for (const Coordinates coordinates :
       {Coordinates::half_pixel, Coordinates::pytorch_half_pixel, Coordinates::asymmetric, Coordinates::align_corners}) {
    const auto number = static_cast<int>(coordinates);
    for (const Rounding rounding : {Rounding::round_prefer_floor, Rounding::round_prefer_ceil, Rounding::floor, Rounding::ceil}) {
      const Resize2dAttrs up{Mode::nearest, coordinates, rounding, {8, 15}, {2.0f, 3.0f}};
      add(fmt::format("nearest_up_{}_{}", number, static_cast<int>(rounding)), up, {2, 4, 5, 7});
    }
    add(fmt::format("nearest_down_{}", number), {Mode::nearest, coordinates, Rounding::floor, {2, 3}, {0.5f, 0.6f}}, {1, 4, 5, 17});
    add(fmt::format("linear_up_{}", number), {Mode::linear, coordinates, {}, {9, 16}, {2.25f, 3.2f}}, {2, 4, 5, 37});
    add(fmt::format("linear_down_{}", number), {Mode::linear, coordinates, {}, {3, 1}, {0.6f, 0.2f}}, {1, 5, 5, 3});
  }
  add("from_one", {Mode::linear, Coordinates::align_corners, {}, {3, 4}, {3.0f, 4.0f}}, {1, 1, 1, 5});
  add("empty", {Mode::linear, Coordinates::half_pixel, {}, {3, 4}, {3.0f, 4.0f}}, {0, 1, 1, 5});
  add("fpn_nearest", {Mode::nearest, Coordinates::asymmetric, Rounding::floor, {80, 80}, {2.0f, 2.0f}}, {8, 40, 40, 128}, true);
  add("segmentation_linear", {Mode::linear, Coordinates::half_pixel, {}, {128, 128}, {4.0f, 4.0f}}, {8, 32, 32, 64}, true);
  return all;
}

}  // namespace

const Op resize_2d{
    .name = "resize_2d",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = tolerance,
    .cases = cases,
};

}  // namespace headrace::ops
