#include "ops/pool_2d.h"

#include <algorithm>
#include <limits>

#include "ops/quantize_linear.h"
#include "ops/window.h"

namespace headrace::ops {
namespace {

using Kind = Pool2dAttrs::Kind;

Windows windows_of(const Pool2dAttrs& a, int axis) {
  return {a.window[axis], a.stride[axis], a.dilation[axis], a.pads[axis], a.pads[2 + axis]};
}

Result<std::vector<ValueType>> infer_pool(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& a = attrs.as<Pool2dAttrs>();
  InputCheck check("pool_2d", inputs, {"x"});
  const bool in_8_bits = check.ok() && a.kind == Kind::max && is_8_bit(inputs[0].dtype);
  check.tensor(0, in_8_bits ? inputs[0].dtype : DType::f32, 4).constant_dims();
  for (int axis = 0; axis < 2; ++axis) check_windows(check, windows_of(a, axis));
  if (!check.ok()) return check.outputs({});
  const Shape& x = inputs[0].shape;
  Shape out{x[0]};
  for (int axis = 0; axis < 2; ++axis) {
    const Windows windows = windows_of(a, axis);
    const int64_t count = windows.count(x[1 + axis].constant(), a.ceil_mode);
    check.require(count > 0, fmt::format("axis {} of x, {} elements with pads {} and {}, is shorter than the window", 1 + axis,
                                         x[1 + axis].constant(), windows.pad_begin, windows.pad_end));
    out.push_back(count);
  }
  out.push_back(x[3]);
  return check.outputs({ValueType::tensor(inputs[0].dtype, out)});
}

Cost cost_pool(const NodeSizes& sizes) {
  const auto& a = sizes.attrs.as<Pool2dAttrs>();
  const double outputs = static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings));
  return {.flops = outputs * static_cast<double>(a.window[0]) * static_cast<double>(a.window[1]), .bytes = all_bytes(sizes)};
}

void reference_pool(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& a = attrs.as<Pool2dAttrs>();
  const HostTensor& x = inputs[0].tensor;
  HostTensor& out = outputs[0];
  const int64_t height = x.dims[1], width = x.dims[2], channels = x.dims[3];
  for (int64_t i = 0; i < static_cast<int64_t>(out.values.size()); ++i) {
    const int64_t c = i % channels, ow = i / channels % out.dims[2], oh = i / channels / out.dims[2] % out.dims[1];
    const int64_t n = i / channels / out.dims[2] / out.dims[1];
    double largest = is_8_bit(out.dtype) ? range_of(out.dtype).low : -std::numeric_limits<double>::infinity(), sum = 0;
    int64_t inside = 0, padded = 0;
    for (int64_t kh = 0; kh < a.window[0]; ++kh) {
      const int64_t ih = oh * a.stride[0] - a.pads[0] + kh * a.dilation[0];
      for (int64_t kw = 0; kw < a.window[1]; ++kw) {
        const int64_t iw = ow * a.stride[1] - a.pads[1] + kw * a.dilation[1];
        padded += ih < height + a.pads[2] && iw < width + a.pads[3] ? 1 : 0;
        if (ih < 0 || ih >= height || iw < 0 || iw >= width) continue;
        const double value = x.values[((n * height + ih) * width + iw) * channels + c];
        largest = std::max(largest, value);
        sum += value;
        ++inside;
      }
    }
    out.values[i] = a.kind == Kind::max ? largest : sum / static_cast<double>(a.count_pads ? padded : inside);
  }
}

Tolerance tolerance_pool(std::span<const ValueType>, const Attrs& attrs) {
  if (attrs.as<Pool2dAttrs>().kind == Kind::max) return {0, 0};
  return {1e-6, 1e-5};
}

std::vector<OpCase> cases_pool() {
  struct Size {
    std::string name;
    std::vector<int64_t> x;
    Pool2dAttrs attrs;
    bool bench = false;
  };
  const Size sizes[] = {
      {"one_element", {1, 1, 1, 1}, {}},
      {"empty_batch", {0, 4, 4, 3}, {.window = {2, 2}}},
      {"2x2", {2, 6, 8, 19}, {.window = {2, 2}, .stride = {2, 2}}},
      {"3x3_padded", {1, 7, 6, 33}, {.window = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}}},
      {"asymmetric_pads", {1, 6, 5, 20}, {.window = {3, 2}, .pads = {0, 1, 2, 0}}},
      {"ceil", {1, 6, 8, 16}, {.window = {3, 3}, .stride = {2, 2}, .ceil_mode = true}},
      {"ceil_padded", {1, 7, 8, 5}, {.window = {2, 3}, .stride = {3, 2}, .pads = {1, 1, 1, 0}, .ceil_mode = true}},
      {"ceil_drops_the_last", {1, 2, 2, 5}, {.window = {1, 1}, .stride = {3, 3}, .pads = {0, 0, 2, 2}, .ceil_mode = true}},
      {"dilated", {1, 9, 10, 18}, {.window = {3, 2}, .stride = {1, 2}, .dilation = {2, 3}, .pads = {1, 1, 1, 1}}},
      {"global", {2, 7, 7, 70}, {.window = {7, 7}}},
      {"one_dimensional", {2, 1, 21, 8}, {.window = {1, 4}, .stride = {1, 3}, .pads = {0, 1, 0, 2}}},
      {"one_channel", {1, 8, 9, 1}, {.window = {3, 3}, .pads = {1, 1, 1, 1}}},
      {"resnet50_stem", {1, 112, 112, 64}, {.window = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}}, true},
      {"resnet50_stem_b8", {8, 112, 112, 64}, {.window = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}}, true},
      {"resnet50_global", {1, 7, 7, 2048}, {.window = {7, 7}}, true},
      {"inception_3x3", {1, 35, 35, 288}, {.window = {3, 3}, .pads = {1, 1, 1, 1}}, true},
  };
  std::vector<OpCase> cases;
  for (const Size& size : sizes) {
    for (const auto& [kind, count_pads] : {std::pair{Kind::max, false}, {Kind::average, false}, {Kind::average, true}}) {
      if (size.bench && count_pads) continue;
      Pool2dAttrs attrs = size.attrs;
      attrs.kind = kind;
      attrs.count_pads = count_pads;
      const std::string_view suffix = kind == Kind::max ? "max" : count_pads ? "average_with_pads" : "average";
      cases.push_back(
          {.name = fmt::format("{}_{}", size.name, suffix), .attrs = attrs, .inputs = {{.dims = size.x}}, .bench = size.bench});
      if (kind != Kind::max) continue;
      for (const DType dtype : {DType::u8, DType::i8}) {
        cases.push_back({.name = fmt::format("{}_{}_{}", size.name, suffix, dtype_name(dtype)),
                         .attrs = attrs,
                         .inputs = {{.dtype = dtype, .dims = size.x, .scale = dtype == DType::u8 ? 256.0 : 128.0}},
                         .bench = size.bench && dtype == DType::u8});
      }
    }
  }
  return cases;
}

}  // namespace

std::string Pool2dAttrs::describe() const {
  const std::string_view name = kind == Kind::max ? "max" : "average";
  std::string text = fmt::format("{} {}x{} stride={}x{}", name, window[0], window[1], stride[0], stride[1]);
  if (dilation != std::array<int64_t, 2>{1, 1}) text += fmt::format(" dilation={}x{}", dilation[0], dilation[1]);
  if (pads != std::array<int64_t, 4>{}) text += fmt::format(" pads={},{},{},{}", pads[0], pads[1], pads[2], pads[3]);
  if (ceil_mode) text += " ceil";
  if (count_pads) text += " count_pads";
  return text;
}

const Op pool_2d{
    .name = "pool_2d",
    .infer = infer_pool,
    .cost = cost_pool,
    .reference = reference_pool,
    .tolerance = tolerance_pool,
    .cases = cases_pool,
};

}  // namespace headrace::ops
