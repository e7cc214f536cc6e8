#pragma once
// What kernels over whole rows share: walking a row in lanes, its largest element, and sums over it in 4 x 16 fixed lanes, whose
// order depends on the width alone.

#include "kernels/cpu/f32_only.h"
#include "kernels/cpu/lanes.h"

HR_BEGIN_KERNELS
namespace {

HR_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
HR_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
HR_INLINE int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t kStride = 4 * kLanes;  // four chains hide the latency of a fused multiply-add

// Calls use(offset, count): whole lanes with kLanes, the tail with what is left.
template <class Use>
HR_INLINE void over_row(int64_t width, Use use) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) use(i, kLanes);
  if (i < width) use(i, static_cast<int>(width - i));
}

HR_INLINE Lanes load_some(const float* p, int n) {
  return n == kLanes ? load(p) : load_part(p, n);
}
HR_INLINE void store_some(float* p, Lanes a, int n) {
  if (n == kLanes) {
    store(p, a);
  } else {
    store_part(p, a, n);
  }
}

// The rows of a tensor of rank 2, which may be a window, or of a packed one of higher rank: all axes but the last count them.
struct Rows {
  float* data;
  int64_t count, width, stride;
  float* operator[](int64_t row) const { return data + row * stride; }
};
HR_INLINE Rows rows_of(const TensorView& view) {
  const int64_t width = view.dims[view.rank - 1];
  int64_t count = 1;
  for (int axis = 0; axis < view.rank - 1; ++axis) count *= view.dims[axis];
  return {view.as<float>(), count, width, view.rank == 2 ? view.strides[0] : width};
}

// The first element of row `row` of a tensor whose last axis is a row.
HR_INLINE int64_t row_offset(const TensorView& view, int64_t row) {
  int64_t offset = 0;
  for (int axis = view.rank - 2; axis >= 0; --axis) {
    offset += row % view.dims[axis] * view.strides[axis];
    row /= view.dims[axis];
  }
  return offset;
}
HR_INLINE bool rows_follow(const TensorView& view) {
  for (int axis = view.rank - 2; axis > 0; --axis) {
    if (view.strides[axis - 1] != view.strides[axis] * view.dims[axis]) return false;
  }
  return true;
}

// A vector's floats, be it a weight or a constant of a graph.
HR_INLINE const float* vector_of(const Arg& arg) {
  return arg.weight.data != nullptr ? reinterpret_cast<const float*>(arg.weight.data) : arg.tensor.as<float>();
}

// The two kernels of an op over rows: of a matrix each member keeps to its rows of axis 0; of more axes the rows are other ones.
[[maybe_unused]] bool is_matrix(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  return f32_only(inputs, outputs, attrs) && inputs[0].shape.rank() == 2;
}
[[maybe_unused]] bool has_more_axes(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  return f32_only(inputs, outputs, attrs) && inputs[0].shape.rank() > 2;
}

using Run = void (*)(const StepContext&, const NodeArgs&, Team&);
constexpr Kernel of_matrices(const Op& op, Run run) {
  return {.op = &op,
          .name = kIsaName,
          .isa = kIsa,
          .priority = kIsaPriority,
          .by_rows = true,
          .layout = WeightLayout::dense_f32,
          .supports = is_matrix,
          .run = run};
}
constexpr Kernel of_more_axes(const Op& op, Run run) {
  Kernel kernel = of_matrices(op, run);
  kernel.name = kIsaNameAxes;
  kernel.by_rows = false;
  kernel.supports = has_more_axes;
  return kernel;
}

// Element i goes to chain (i / 16) % 4, lane i % 16, by add(elements, count, chain) -> chain.
template <class Add>
HR_INLINE float sum_of_row(const float* x, int64_t width, Add add) {
  Lanes chain[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + kStride <= width; i += kStride) {
    for (int j = 0; j < 4; ++j) chain[j] = add(load(x + i + j * kLanes), kLanes, chain[j]);
  }
  for (int j = 0; j < 4; ++j) {
    const int64_t left = width - i - j * kLanes;
    if (left <= 0) break;
    const int count = static_cast<int>(left < kLanes ? left : kLanes);
    chain[j] = add(load_some(x + i + j * kLanes, count), count, chain[j]);
  }
  return sum((chain[0] + chain[1]) + (chain[2] + chain[3]));
}

HR_INLINE float sum_of_squares(const float* x, int64_t width) {
  return sum_of_row(x, width, [](Lanes v, int, Lanes chain) { return mul_add(v, v, chain); });
}

// The largest of a row of logits.
struct Peak {
  float value;
  bool usable;  // no NaN, no +infinity, something finite
};

HR_INLINE Peak find_peak(const float* x, int64_t count) {
  const Lanes infinity = broadcast(__builtin_inff());
  Lanes top = broadcast(kMinusInfinity);
  Lanes bad = zero();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Lanes v = load(x + i);
    top = max(v, top);
    bad = max(bad, if_less(v, infinity, zero(), broadcast(1.0f)));
  }
  float peak = largest(top);
  bool usable = largest(bad) == 0.0f;
  for (; i < count; ++i) {
    usable = usable && x[i] < __builtin_inff();
    peak = x[i] > peak ? x[i] : peak;
  }
  return {peak, usable && peak > kMinusInfinity};
}

}  // namespace
HR_END_KERNELS
