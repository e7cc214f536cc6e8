// AffineGrid and GridSample.
#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

Status affine_grid(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* theta, context.input(0));
  HR_ASSIGN_OR_RETURN(const Dims size, context.integers(1));
  HR_ASSIGN_OR_RETURN(const int64_t align, context.integer("align_corners", 0));
  if (size.size() != 4 && size.size() != 5) {
    return make_status(Code::malformed, "size: want 4 or 5 numbers, got {}", size.size());
  }
  if (*std::ranges::min_element(size) < 0) return make_status(Code::malformed, "size [{}]: want none below 0", fmt::join(size, ", "));
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  HR_RETURN_IF_ERROR(want_dims(*theta, {size[0], axes, axes + 1}, "theta"));
  const Dims spatial(size.begin() + 2, size.end());
  Dims dims = {size[0]};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  dims.push_back(axes);
  return compute(theta->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> matrices, Numbers<W>::of(*theta));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    auto to = y.begin();
    const int64_t points = product(spatial);
    for (int64_t n = 0; points > 0 && n < size[0]; ++n) {
      const W* matrix = matrices.data() + n * axes * (axes + 1);
      for (int64_t p = 0; p < points; ++p) {
        // Coordinates from the last axis (x) to the first.
        double at[3] = {};
        int64_t rest = p;
        for (int64_t k = 0; k < axes; ++k) {
          const int64_t length = spatial[static_cast<size_t>(axes - 1 - k)], i = rest % length;
          rest /= length;
          const auto count = static_cast<double>(length);
          at[k] = align == 0    ? (2 * static_cast<double>(i) + 1) / count - 1
                  : length == 1 ? -1
                                : 2 * static_cast<double>(i) / (count - 1) - 1;
        }
        for (int64_t r = 0; r < axes; ++r) {
          const W* row = matrix + r * (axes + 1);
          double sum = row[axes];
          for (int64_t k = 0; k < axes; ++k) sum += row[k] * at[k];
          *to++ = static_cast<W>(sum);
        }
      }
    }
    return put(context, 0, theta->dtype(), dims, y);
  });
}

enum class Mode : uint8_t { nearest, linear, cubic };
enum class Padding : uint8_t { zeros, border, reflection };

struct Sampling {
  Mode mode;
  Padding padding;
  bool align;
};

// Folded at both ends until it lies between them.
template <class W>
W reflect(W x, W low, W high) {
  const W range = high - low;
  if (range <= 0) return low;
  if (x >= low && x <= high) return x;
  const W beyond = x < low ? low - x : x - high, turns = std::floor(beyond / range), rest = beyond - turns * range;
  const bool even = std::fmod(turns, W{2}) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

// Along one axis: which elements count (-1: zero) and how much.
struct Taps {
  int count = 0;
  std::array<int64_t, 4> at{};
  std::array<double, 4> weight{};
};

template <class W>
Taps taps_at(W normal, int64_t length, const Sampling& how) {
  const auto size = static_cast<W>(length);
  const W low = how.align ? 0 : W(-0.5), high = how.align ? size - 1 : size - W(0.5);
  W x = how.align ? (normal + 1) / 2 * (size - 1) : ((normal + 1) * size - 1) / 2;
  if (std::isnan(x)) x = -1e9f;  // as far outside as what is huge
  x = std::clamp<W>(x, -1e9f, 1e9f);
  if (how.mode == Mode::nearest) x = std::nearbyint(x);
  if (x < low || x > high) {
    if (how.padding == Padding::border) x = std::clamp<W>(x, 0, size - 1);
    else if (how.padding == Padding::reflection) x = reflect(x, low, high);
  }
  Taps taps;
  const W floor = std::floor(x);
  auto first = static_cast<int64_t>(floor);
  const double part = static_cast<double>(x - floor);
  if (how.mode == Mode::nearest) {
    taps.count = 1;
    first = static_cast<int64_t>(std::trunc(x));
    taps.weight = {1};
  } else if (how.mode == Mode::linear) {
    taps.count = 2;
    taps.weight = {1 - part, part};
  } else {
    taps.count = 4;
    --first;
    constexpr double a = -0.75;
    const auto near = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    const auto far = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    taps.weight = {far(part + 1), near(part), near(1 - part), far(2 - part)};
  }
  for (int i = 0; i < taps.count; ++i) {
    int64_t at = first + i;
    if (at < 0 || at >= length) {
      if (how.padding == Padding::zeros) {
        at = -1;
      } else {
        if (how.padding == Padding::reflection) {
          at = static_cast<int64_t>(reflect(static_cast<double>(at), static_cast<double>(low), static_cast<double>(high)));
        }
        at = std::clamp<int64_t>(at, 0, length - 1);
      }
    }
    taps.at[static_cast<size_t>(i)] = at;
  }
  return taps;
}

// The elements that make one result: offsets within a channel and weights; those that are zero are left out.
struct Samples {
  std::vector<std::pair<int64_t, double>> list;
};

void combine(const std::vector<Taps>& taps, const Dims& steps, size_t axis, int64_t offset, double weight, Samples& samples) {
  if (axis == taps.size()) {
    samples.list.emplace_back(offset, weight);
    return;
  }
  for (int i = 0; i < taps[axis].count; ++i) {
    const int64_t at = taps[axis].at[static_cast<size_t>(i)];
    if (at >= 0) {
      combine(taps, steps, axis + 1, offset + at * steps[axis], weight * taps[axis].weight[static_cast<size_t>(i)], samples);
    }
  }
}

Status grid_sample(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* grid, context.input(1));
  HR_ASSIGN_OR_RETURN(const std::string mode, context.text("mode", "linear"));
  HR_ASSIGN_OR_RETURN(const std::string padding, context.text("padding_mode", "zeros"));
  HR_ASSIGN_OR_RETURN(const int64_t align, context.integer("align_corners", 0));
  Sampling how{};
  how.align = align != 0;
  if (mode == "nearest") how.mode = Mode::nearest;
  else if (mode == "linear" || mode == "bilinear") how.mode = Mode::linear;
  else if (mode == "cubic" || mode == "bicubic") how.mode = Mode::cubic;
  else return make_status(Code::malformed, "mode: want linear, nearest or cubic, got {}", mode);
  if (padding == "zeros") how.padding = Padding::zeros;
  else if (padding == "border") how.padding = Padding::border;
  else if (padding == "reflection") how.padding = Padding::reflection;
  else return make_status(Code::malformed, "padding_mode: want zeros, border or reflection, got {}", padding);
  const auto rank = static_cast<size_t>(std::max(x->rank() - 2, 0));
  if (rank < 1 || rank > 8 || grid->rank() != x->rank() || grid->dim(0) != x->dim(0) ||
      grid->dims().back() != static_cast<int64_t>(rank)) {
    return make_status(Code::malformed, "X and grid of dims [{}] and [{}] do not go together", fmt::join(x->dims(), ", "),
                       fmt::join(grid->dims(), ", "));
  }
  const Dims spatial(x->dims().begin() + 2, x->dims().end()), steps = contiguous_strides(spatial);
  const Dims points_dims(grid->dims().begin() + 1, grid->dims().end() - 1);
  Dims dims = {x->dim(0), x->dim(1)};
  dims.insert(dims.end(), points_dims.begin(), points_dims.end());
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, x->dtype(), dims));
  if (output->elements() == 0) return {};
  const int64_t points = product(points_dims), size = product(spatial), channels = x->dim(1);
  if (size == 0) return make_status(Code::malformed, "X: an image of [{}]", fmt::join(spatial, ", "));
  // each(n, point, samples) is called for every point.
  const auto for_points = [&](auto&& each) -> Status {
    return compute(grid->dtype(), [&]<class W>() -> Status {
      HR_ASSIGN_OR_RETURN(const Numbers<W> places, Numbers<W>::of(*grid));
      std::vector<Taps> taps(rank);
      Samples samples;
      for (int64_t n = 0; n < x->dim(0); ++n) {
        for (int64_t p = 0; p < points; ++p) {
          const W* place = places.data() + (n * points + p) * static_cast<int64_t>(rank);
          // The grid holds x first, which is the last axis.
          for (size_t i = 0; i < rank; ++i) taps[i] = taps_at(place[rank - 1 - i], spatial[i], how);
          samples.list.clear();
          combine(taps, steps, 0, 0, 1, samples);
          each(n, p, samples);
        }
      }
      return {};
    });
  };
  if (how.mode == Mode::nearest) {
    // One element or none, of any type.
    return for_points([&](int64_t n, int64_t p, const Samples& samples) {
      for (int64_t c = n * channels; !samples.list.empty() && c < (n + 1) * channels; ++c) {
        copy_elements(*output, c * points + p, *x, c * size + samples.list.front().first);
      }
    });
  }
  Status status;
  const bool known = dispatch_number(x->dtype(), [&]<class T>() {
    status = for_points([&](int64_t n, int64_t p, const Samples& samples) {
      for (int64_t c = n * channels; c < (n + 1) * channels; ++c) {
        double sum = 0;
        for (const auto& [offset, weight] : samples.list) {
          sum += weight * static_cast<double>(widen(x->data<T>()[c * size + offset]));
        }
        if constexpr (std::is_integral_v<T>) output->data<T>()[c * points + p] = saturated<T>(sum);
        else output->data<T>()[c * points + p] = narrow<T>(sum);
      }
    });
  });
  return known ? status : unknown_type(x->dtype());
}

// ---- types

Status infer_affine_grid(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact theta, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> size, context.elements(1));
  std::optional<Shape> shape;
  if (size) {
    if (size->size() != 4 && size->size() != 5) return make_status(Code::malformed, "size: want 4 or 5 numbers, got {}", size->size());
    HR_ASSIGN_OR_RETURN(shape, shape_of(*size));
    shape->erase(shape->begin() + 1);
    shape->push_back(dim_of(static_cast<int64_t>(size->size()) - 2));
  }
  context.set(0, theta.dtype, std::move(shape));
  return {};
}

Status infer_grid_sample(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact grid, context.input(1));
  HR_RETURN_IF_ERROR(want_rank_from(x, 3, "X"));
  if (x.shape) HR_RETURN_IF_ERROR(want_rank(grid, x.shape->size(), "grid"));
  const size_t rank = x.shape ? x.shape->size() : grid.shape ? grid.shape->size() : 0;
  std::optional<Shape> shape;
  if (rank >= 3) {
    shape = unknown_shape(rank);
    if (x.shape) std::copy_n(x.shape->begin(), 2, shape->begin());
    if (grid.shape) {
      HR_ASSIGN_OR_RETURN((*shape)[0], agreed((*shape)[0], (*grid.shape)[0], "grid's batch"));
      std::copy(grid.shape->begin() + 1, grid.shape->end() - 1, shape->begin() + 2);
    }
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"AffineGrid", 20, affine_grid, infer_affine_grid},
    {"GridSample", 16, grid_sample, infer_grid_sample},
};

}  // namespace

std::span<const OpRow> ops_grid() { return kRows; }

}  // namespace headrace::onnx
