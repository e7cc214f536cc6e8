#pragma once
// A concrete tensor as kernels see it: a pointer, dims and strides. A plain view: it owns nothing.

#include <array>
#include <cstdint>

#include "core/dtype.h"
#include "core/shape.h"

namespace headrace {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  uint8_t rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  std::array<int64_t, kMaxRank> strides{};  // in elements

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t dim(int axis) const { return dims[axis]; }
  // The first element of index `row` along the outermost axis.
  template <class T>
  T* row(int64_t index) const {
    return static_cast<T*>(data) + index * strides[0];
  }
  int64_t elements() const {
    int64_t count = 1;
    for (int axis = 0; axis < rank; ++axis) count *= dims[axis];
    return count;
  }
};

// A packed view of `shape` under `bindings` at `data`.
TensorView contiguous_view(void* data, DType dtype, const Shape& shape, const Bindings& bindings);

}  // namespace headrace
