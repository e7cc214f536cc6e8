// Resize and Upsample: each output element is a weighted sum of input elements. The weights are a product over the axes, so
// axes go one by one, in double.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

constexpr int64_t kMaxTaps = int64_t{1} << 20, kMaxAllTaps = int64_t{1} << 24;  // of one output place along an axis, of all

enum class Mode : uint8_t { nearest, linear, cubic };

struct Options {
  Mode mode = Mode::nearest;
  // Before opset 11, whose document leaves the nearest open: down where an axis grows, up where it shrinks, as ONNX Runtime has
  // it.
  std::string coordinates = "asymmetric", nearest = "by scale";
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
  bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

struct Axis {
  int64_t from = 1, to = 1;  // lengths
  double scale = 1;
  double start = 0, end = 1;  // region of interest
  bool stays(const Options& options) const { return from == to && scale == 1 && !options.crops(); }
};

// Where an output's coordinate lies in the input.
double original(const Axis& axis, const Options& options, int64_t at) {
  const auto x = static_cast<double>(at), from = static_cast<double>(axis.from), to = static_cast<double>(axis.to);
  const double half_pixel = (x + 0.5) / axis.scale - 0.5;
  if (options.coordinates == "half_pixel") return half_pixel;
  if (options.coordinates == "pytorch_half_pixel") return axis.to > 1 ? half_pixel : 0;
  // By the scale, as in ONNX's own tests: the resized length is a fraction where the scale makes it one.
  if (options.coordinates == "align_corners") return axis.to > 1 ? x * (from - 1) / (axis.scale * from - 1) : 0;
  if (options.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (options.coordinates == "half_pixel_symmetric") return from / 2 * (1 - to / (axis.scale * from)) + half_pixel;
  if (options.crops()) {
    if (axis.to <= 1) return 0.5 * (axis.start + axis.end) * (from - 1);
    return axis.start * (from - 1) + x * (axis.end - axis.start) * (from - 1) / (to - 1);
  }
  return x / axis.scale;
}

double nearest(double x, const std::string& mode, double scale) {
  if (mode == "floor" || (mode == "by scale" && scale >= 1)) return std::floor(x);
  if (mode == "ceil" || mode == "by scale") return std::ceil(x);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

// The kernels, by distance: a triangle, and Keys' cubic.
double weight_at(Mode mode, double distance, double a) {
  const double x = std::abs(distance);
  if (mode == Mode::linear) return std::max(0.0, 1 - x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

struct Tap {
  int64_t from;
  double weight;
};

// What an output coordinate takes from the input; indices outside count as the edge's.
std::vector<Tap> taps_of(const Axis& axis, const Options& options, double x) {
  // A region of interest may lie anywhere: further out than this an index and the next are one number, and nothing else is inside.
  constexpr double kFar = 0x1p40;
  x = std::clamp(x, -kFar, kFar);
  const auto inside = [&](double index) {
    return static_cast<int64_t>(std::clamp(index, 0.0, static_cast<double>(axis.from - 1)));
  };
  if (options.mode == Mode::nearest) return {{inside(nearest(x, options.nearest, axis.scale)), 1}};
  const double stretch = options.antialias ? std::min(axis.scale, 1.0) : 1;
  const double reach = (options.mode == Mode::linear ? 1 : 2) / stretch;
  std::vector<Tap> taps;
  double sum = 0;
  for (double index = std::floor(x - reach); index <= std::ceil(x + reach); ++index) {
    const double weight = weight_at(options.mode, (index - x) * stretch, options.cubic_a);
    if (weight == 0 || (options.exclude_outside && (index < 0 || index > static_cast<double>(axis.from - 1)))) continue;
    taps.push_back({inside(index), weight});
    sum += weight;
  }
  if (options.antialias || options.exclude_outside) {
    for (Tap& tap : taps) tap.weight /= sum;
  }
  return taps;
}

bool is_outside(const Axis& axis, double x) { return x < 0 || x > static_cast<double>(axis.from - 1); }

// Elements taken as they are: any type.
void resize_nearest(Tensor& output, const Tensor& input, const std::vector<Axis>& axes, const Options& options,
                    const Tensor& extrapolated) {
  const Dims strides = contiguous_strides(input.dims());
  Dims index(axes.size(), 0);
  int64_t at = 0;
  do {
    int64_t source = 0;
    bool outside = false;
    for (size_t i = 0; i < axes.size(); ++i) {
      const double x = axes[i].stays(options) ? static_cast<double>(index[i]) : original(axes[i], options, index[i]);
      outside = outside || (options.crops() && is_outside(axes[i], x));
      source += taps_of(axes[i], options, x).front().from * strides[i];
    }
    copy_elements(output, at++, outside ? extrapolated : input, outside ? 0 : source);
  } while (next_index(index, output.dims()));
}

Result<std::vector<double>> resize_weighted(OpContext& context, std::vector<double> values, Dims dims,
                                            const std::vector<Axis>& axes, const Options& options) {
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    if (axis.stays(options)) continue;
    const int64_t outer = product(dims, 0, static_cast<int>(i)),
                  inner = product(dims, static_cast<int>(i) + 1, static_cast<int>(dims.size()));
    dims[i] = axis.to;
    HR_ASSIGN_OR_RETURN(const int64_t count, count_elements(dims));
    HR_RETURN_IF_ERROR(context.graphs().charge(static_cast<uint64_t>(count) * sizeof(double)));
    std::vector<double> next(static_cast<size_t>(count), 0);
    for (int64_t to = 0; to < axis.to; ++to) {
      for (const Tap& tap : taps_of(axis, options, original(axis, options, to))) {
        for (int64_t o = 0; o < outer; ++o) {
          const double* from = values.data() + (o * axis.from + tap.from) * inner;
          double* into = next.data() + (o * axis.to + to) * inner;
          for (int64_t k = 0; k < inner; ++k) into[k] += tap.weight * from[k];
        }
      }
    }
    values = std::move(next);
  }
  if (!options.crops()) return values;
  Dims index(axes.size(), 0);
  size_t at = 0;
  do {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (is_outside(axes[i], original(axes[i], options, index[i]))) values[at] = options.extrapolation;
    }
    ++at;
  } while (next_index(index, dims));
  return values;
}

Status resize_with(OpContext& context, const Tensor& input, const std::vector<Axis>& axes, const Options& options) {
  Dims dims;
  for (const Axis& axis : axes) {
    dims.push_back(axis.to);
    if (axis.from == 0 && axis.to > 0) return make_status(Code::malformed, "an axis of 0 cannot become {} long", axis.to);
    const double taps = options.antialias && axis.to > 0 ? 4 / std::min(axis.scale, 1.0) : 0;
    if (taps > static_cast<double>(kMaxTaps) || taps * static_cast<double>(axis.to) > static_cast<double>(kMaxAllTaps)) {
      return make_status(Code::resource_exhausted, "a scale of {} with antialias for a length of {}", axis.scale, axis.to);
    }
    HR_RETURN_IF_ERROR(context.graphs().charge(static_cast<uint64_t>(taps) * sizeof(Tap)));
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, input, dims));
  if (output->elements() == 0) return {};
  if (options.mode == Mode::nearest) {
    Tensor extrapolated(input.dtype(), {});
    dispatch_number(input.dtype(), [&]<class T>() { *extrapolated.data<T>() = from_double<T>(options.extrapolation); });
    resize_nearest(*output, input, axes, options, extrapolated);
    return {};
  }
  Status status;
  const bool known = dispatch_number(input.dtype(), [&]<class T>() {
    std::vector<double> values;
    for (const T value : input.values<T>()) values.push_back(static_cast<double>(worth(value)));
    const auto resized = resize_weighted(context, std::move(values), input.dims(), axes, options);
    if (!resized) {
      status = resized.error();
      return;
    }
    for (int64_t i = 0; i < output->elements(); ++i) output->data<T>()[i] = from_double<T>((*resized)[static_cast<size_t>(i)]);
  });
  return known ? status : make_status(Code::unsupported, "interpolation of {}", dtype_name(input.dtype()));
}

Result<Mode> mode_of(const NodeReader& context) {
  HR_ASSIGN_OR_RETURN(const std::string mode, context.text("mode", "nearest"));
  if (mode == "nearest") return Mode::nearest;
  if (mode == "linear" || mode == "bilinear") return Mode::linear;
  if (mode == "cubic" && context.opset() >= 11) return Mode::cubic;
  return error(Code::malformed, "mode \"{}\" in opset {}", mode, context.opset());
}

// How long `axis` becomes under a scale, by the arithmetic of the scale's type.
Status set_scale(Axis& axis, float scale, bool crops) {
  if (!(scale > 0) || !std::isfinite(scale)) return make_status(Code::malformed, "scales: want numbers above 0, got {}", scale);
  const float part = crops ? static_cast<float>(axis.end - axis.start) : 1;
  const float to = std::floor(static_cast<float>(axis.from) * part * scale);
  if (!(to >= 0) || to > static_cast<float>(kMaxElements))
    return make_status(Code::malformed, "{} with a scale of {} becomes {} long", axis.from, scale, to);
  axis.scale = static_cast<double>(scale);
  axis.to = static_cast<int64_t>(to);
  return {};
}

Status scale_all(std::vector<Axis>& axes, std::span<const int> order, std::span<const float> scales, bool crops) {
  if (scales.size() != order.size())
    return make_status(Code::malformed, "scales: want {}, got {}", order.size(), scales.size());
  for (size_t i = 0; i < order.size(); ++i)
    HR_RETURN_IF_ERROR(set_scale(axes[static_cast<size_t>(order[i])], scales[i], crops));
  return {};
}

Result<std::vector<float>> floats_of(const Tensor& tensor) {
  std::vector<float> values;
  const bool known = dispatch<float, double, f16>(tensor.dtype(), [&]<class T>() {
    for (const T value : tensor.values<T>()) values.push_back(static_cast<float>(worth(value)));
  });
  if (!known) return error(Code::malformed, "scales or roi: want floats, got {}", dtype_name(tensor.dtype()));
  return values;
}

Result<std::vector<float>> floats_input(const OpContext& context, int index) {
  HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(index));
  return floats_of(*tensor);
}

std::vector<Axis> axes_of(const Tensor& input) {
  std::vector<Axis> axes;
  for (const int64_t dim : input.dims()) axes.push_back({.from = dim, .to = dim});
  return axes;
}

// Upsample, and Resize before opset 11.
Status upsample(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  Options options;
  HR_ASSIGN_OR_RETURN(options.mode, mode_of(context));
  std::vector<float> scales;
  if (context.opset() < 9) {
    HR_ASSIGN_OR_RETURN(scales, context.numbers("scales", {}));
  } else {
    HR_ASSIGN_OR_RETURN(scales, floats_input(context, 1));
  }
  std::vector<Axis> axes = axes_of(*input);
  std::vector<int> order(axes.size());
  std::iota(order.begin(), order.end(), 0);
  HR_RETURN_IF_ERROR(scale_all(axes, order, scales, false));
  return resize_with(context, *input, axes, options);
}

Status check_one_of(const char* what, const std::string& given, std::initializer_list<std::string_view> known) {
  if (std::ranges::find(known, given) != known.end()) return {};
  return make_status(Code::malformed, "{}: want one of {}, got \"{}\"", what, fmt::join(known, ", "), given);
}

Result<Options> options_of(const NodeReader& context) {
  Options options;
  HR_ASSIGN_OR_RETURN(options.mode, mode_of(context));
  HR_ASSIGN_OR_RETURN(options.coordinates, context.text("coordinate_transformation_mode", "half_pixel"));
  HR_ASSIGN_OR_RETURN(options.nearest, context.text("nearest_mode", "round_prefer_floor"));
  HR_ASSIGN_OR_RETURN(const float cubic_a, context.number("cubic_coeff_a", -0.75f));
  HR_ASSIGN_OR_RETURN(const float extrapolation, context.number("extrapolation_value", 0));
  HR_ASSIGN_OR_RETURN(const int64_t exclude_outside, context.integer("exclude_outside", 0));
  HR_ASSIGN_OR_RETURN(const int64_t antialias, context.integer("antialias", 0));
  HR_RETURN_IF_ERROR(check_one_of("coordinate_transformation_mode", options.coordinates,
                                  {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                                   "tf_crop_and_resize", "tf_half_pixel_for_nn"}));
  HR_RETURN_IF_ERROR(
      check_one_of("nearest_mode", options.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  options.cubic_a = static_cast<double>(cubic_a);
  options.extrapolation = static_cast<double>(extrapolation);
  options.exclude_outside = exclude_outside != 0;
  options.antialias = antialias != 0 && options.mode != Mode::nearest;
  return options;
}

// `sizes` as the policy has it: as they are, or one scale for all.
Status size_all(std::vector<Axis>& axes, std::span<const int> order, const Dims& sizes, const std::string& policy) {
  HR_RETURN_IF_ERROR(check_one_of("keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"}));
  if (sizes.size() != order.size()) return make_status(Code::malformed, "sizes: want {}, got {}", order.size(), sizes.size());
  double common = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    Axis& axis = axes[static_cast<size_t>(order[i])];
    if (sizes[i] < 0 || sizes[i] > kMaxElements)
      return make_status(Code::malformed, "sizes: want 0 to {}, got {}", kMaxElements, sizes[i]);
    axis.to = sizes[i];
    axis.scale = axis.from == 0 ? 1 : static_cast<double>(axis.to) / static_cast<double>(axis.from);
    common = i == 0 ? axis.scale : policy == "not_larger" ? std::min(common, axis.scale) : std::max(common, axis.scale);
  }
  if (policy == "stretch") return {};
  for (const int i : order) {
    Axis& axis = axes[static_cast<size_t>(i)];
    const double to = std::floor(common * static_cast<double>(axis.from) + 0.5);
    if (to > static_cast<double>(kMaxElements))
      return make_status(Code::resource_exhausted, "an axis of {} becomes {} long", axis.from, to);
    axis.to = static_cast<int64_t>(to);
    axis.scale = common;
  }
  return {};
}

Status crop_all(std::vector<Axis>& axes, std::span<const int> order, std::span<const float> roi) {
  if (roi.size() != 2 * order.size()) return make_status(Code::malformed, "roi: want {}, got {}", 2 * order.size(), roi.size());
  for (size_t i = 0; i < order.size(); ++i) {
    Axis& axis = axes[static_cast<size_t>(order[i])];
    axis.start = static_cast<double>(roi[i]);
    axis.end = static_cast<double>(roi[i + order.size()]);
    if (!std::isfinite(axis.start) || !std::isfinite(axis.end)) return make_status(Code::malformed, "roi: want finite numbers");
  }
  return {};
}

Status resize(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Options options, options_of(context));
  HR_ASSIGN_OR_RETURN(const std::string policy, context.text("keep_aspect_ratio_policy", "stretch"));
  std::vector<Axis> axes = axes_of(*input);
  Dims listed(axes.size());
  std::iota(listed.begin(), listed.end(), 0);
  HR_ASSIGN_OR_RETURN(listed, context.integers("axes", listed));
  HR_ASSIGN_OR_RETURN(const std::vector<int> order, normalize_axes(listed, input->rank()));
  if (options.crops()) {
    HR_ASSIGN_OR_RETURN(const std::vector<float> roi, floats_input(context, 1));
    HR_RETURN_IF_ERROR(crop_all(axes, order, roi));
  }
  // What has no elements counts as left out: exporters write so.
  const auto given = [&](int i) {
    return context.has_input(i) && context.value(i).tensor() != nullptr && context.value(i).tensor()->elements() > 0;
  };
  if (given(2) == given(3) && input->rank() > 0) return make_status(Code::malformed, "want either scales or sizes");
  if (given(3)) {
    HR_ASSIGN_OR_RETURN(const Dims sizes, context.integers(3));
    HR_RETURN_IF_ERROR(size_all(axes, order, sizes, policy));
  } else if (given(2)) {
    HR_ASSIGN_OR_RETURN(const std::vector<float> scales, floats_input(context, 2));
    HR_RETURN_IF_ERROR(scale_all(axes, order, scales, options.crops()));
  }
  return resize_with(context, *input, axes, options);
}

// ---- types

// The axes of an input whose dims may be unknown: those are of length 1, and what becomes of them does not count.
std::vector<Axis> known_axes(const Shape& shape) {
  std::vector<Axis> axes;
  for (const Dim& dim : shape) axes.push_back({.from = is_known(dim) ? dim.value : 1, .to = is_known(dim) ? dim.value : 1});
  return axes;
}

// `from` with the axes of `order` as scales of the constant input `index` leave them.
Result<Shape> scaled(const Shape& from, std::vector<Axis> axes, std::span<const int> order, std::span<const float> scales, bool crops) {
  HR_RETURN_IF_ERROR(scale_all(axes, order, scales, crops));
  Shape shape = from;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<size_t>(order[i]);
    if (is_known(from[at])) shape[at] = dim_of(axes[at].to);
    else if (scales[i] != 1 || crops) shape[at] = {};
  }
  return shape;
}

Status infer_upsample(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const Mode mode, mode_of(context));
  std::optional<std::vector<float>> scales;
  if (context.opset() < 9) {
    HR_ASSIGN_OR_RETURN(scales, context.numbers("scales", {}));
  } else if (const Tensor* given = context.constant(1)) {
    HR_ASSIGN_OR_RETURN(scales, floats_of(*given));
  }
  std::optional<Shape> shape = x.shape;
  if (shape && scales) {
    std::vector<int> order(shape->size());
    std::iota(order.begin(), order.end(), 0);
    HR_ASSIGN_OR_RETURN(shape, scaled(*x.shape, known_axes(*shape), order, *scales, false));
  } else if (shape) {
    shape = unknown_shape(shape->size());
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

// Whether an input is there and has elements; nothing where that is not known.
std::optional<bool> has_elements(const InferContext& context, int index) {
  if (!context.has_input(index)) return false;
  const Type& type = context.fact(index).type;
  if (type.kind != Type::Kind::tensor || !type.shape) return std::nullopt;
  const Dim count = product(*type.shape);
  if (!is_known(count)) return std::nullopt;
  return count.value > 0;
}

// The dims that `sizes` asks for; those with a policy depend on all of the axes.
Result<Shape> sized(const Shape& from, std::span<const int> order, const Elements& sizes, const std::string& policy) {
  if (sizes.size() != order.size()) return error(Code::malformed, "sizes: want {}, got {}", order.size(), sizes.size());
  Shape shape = from;
  std::optional<Dims> numbers = Dims();
  for (size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<size_t>(order[i]);
    shape[at] = policy == "stretch" ? dim_of(sizes[i]) : Dim();
    if (numbers && sizes[i].number && (policy == "stretch" || is_known(from[at]))) numbers->push_back(*sizes[i].number);
    else numbers.reset();
  }
  if (!numbers) return shape;
  std::vector<Axis> axes = known_axes(from);
  HR_RETURN_IF_ERROR(size_all(axes, order, *numbers, policy));
  for (const int i : order) shape[static_cast<size_t>(i)] = dim_of(axes[static_cast<size_t>(i)].to);
  return shape;
}

Status infer_resize(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Options options, options_of(context));
  HR_ASSIGN_OR_RETURN(const std::string policy, context.text("keep_aspect_ratio_policy", "stretch"));
  context.set(0, x.dtype, std::nullopt);
  if (!x.shape) return {};
  Dims listed(x.shape->size());
  std::iota(listed.begin(), listed.end(), 0);
  HR_ASSIGN_OR_RETURN(listed, context.integers("axes", listed));
  HR_ASSIGN_OR_RETURN(const std::vector<int> order, normalize_axes(listed, static_cast<int>(x.shape->size())));
  Shape shape = *x.shape;
  for (const int i : order) shape[static_cast<size_t>(i)] = {};
  const std::optional<bool> by_scales = has_elements(context, 2), by_sizes = has_elements(context, 3);
  if (by_scales && by_sizes && *by_scales == *by_sizes && !x.shape->empty()) {
    return make_status(Code::malformed, "want either scales or sizes");
  }
  const Tensor* scales = context.constant(2);
  if (by_sizes == true && by_scales == false) {
    HR_ASSIGN_OR_RETURN(const std::optional<Elements> sizes, context.elements(3));
    if (sizes) {
      HR_ASSIGN_OR_RETURN(shape, sized(*x.shape, order, *sizes, policy));
    }
  } else if (by_scales == true && by_sizes == false && scales != nullptr && (!options.crops() || context.constant(1) != nullptr)) {
    std::vector<Axis> axes = known_axes(*x.shape);
    if (options.crops()) {
      HR_ASSIGN_OR_RETURN(const std::vector<float> roi, floats_of(*context.constant(1)));
      HR_RETURN_IF_ERROR(crop_all(axes, order, roi));
    }
    HR_ASSIGN_OR_RETURN(const std::vector<float> factors, floats_of(*scales));
    HR_ASSIGN_OR_RETURN(shape, scaled(*x.shape, std::move(axes), order, factors, options.crops()));
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"Resize", 10, upsample, infer_upsample},
    {"Resize", 11, resize, infer_resize},
    {"Upsample", 7, upsample, infer_upsample},
};

}  // namespace

std::span<const OpRow> ops_resize() { return kRows; }

}  // namespace headrace::onnx
