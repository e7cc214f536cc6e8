#pragma once
// What the arithmetic operators share: types to compute in, loops over broadcast tensors, float tensors as one type.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "onnx/op.h"
#include "onnx/ops/numbers.h"

namespace headrace::onnx {

// f16 and bf16 are computed in float and rounded once; other types in themselves.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, f16> || std::is_same_v<T, bf16>, float, T>;

template <class T>
Wide<T> widen(T value) {
  if constexpr (std::is_same_v<T, Wide<T>>) return value;
  else return to_float(value);
}

// A double becomes f16 or bf16 by way of float.
template <class T, class W>
T narrow(W value) {
  if constexpr (std::is_same_v<T, f16>) return to_f16(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, bf16>) return to_bf16(static_cast<float>(value));
  else return static_cast<T>(value);
}

// Sums, differences and products of integers wrap around.
template <class T>
T wrap_add(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return a + b;
}
template <class T>
T wrap_sub(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else return a - b;
}
template <class T>
T wrap_mul(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else return a * b;
}

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  else return false;
}

// NaN wins, as in numpy.
template <class T>
T larger(T a, T b) {
  return is_nan(a) || a >= b ? a : b;
}
template <class T>
T smaller(T a, T b) {
  return is_nan(a) || a <= b ? a : b;
}

inline Status unknown_type(DType dtype) {
  return make_status(Code::unsupported, "this operator does not take {}", dtype_name(dtype));
}
// For dispatch: its answer as a status.
inline Status typed(bool known, DType dtype) { return known ? Status() : unknown_type(dtype); }

inline Status same_type(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return {};
  return make_status(Code::malformed, "want inputs of one type, got {} and {}", dtype_name(a.dtype()), dtype_name(b.dtype()));
}

inline Status want_rank(const Tensor& tensor, int rank, std::string_view name) {
  if (tensor.rank() == rank) return {};
  return make_status(Code::malformed, "{}: want rank {}, got dims [{}]", name, rank, fmt::join(tensor.dims(), ", "));
}
inline Status want_dims(const Tensor& tensor, const Dims& dims, std::string_view name) {
  if (tensor.dims() == dims) return {};
  return make_status(Code::malformed, "{}: want dims [{}], got [{}]", name, fmt::join(dims, ", "),
                     fmt::join(tensor.dims(), ", "));
}

inline int64_t product(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

// Walks `dims` in row-major order through N tensors at once: f(offsets, steps, count) takes `count` elements, the first at
// `offsets`, the others `steps` apart. Neighbouring axes that all tensors hold without gaps are walked as one.
template <size_t N, class F>
void walk(const Dims& dims, const std::array<Dims, N>& strides, F&& f) {
  std::vector<int64_t> lengths;
  std::vector<std::array<int64_t, N>> steps;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 0) return;
    if (dims[axis] == 1) continue;
    std::array<int64_t, N> own;
    bool joins = !lengths.empty();
    for (size_t n = 0; n < N; ++n) {
      own[n] = strides[n][axis];
      joins = joins && steps.back()[n] == own[n] * dims[axis];
    }
    if (joins) {
      lengths.back() *= dims[axis];
      steps.back() = own;
    } else {
      lengths.push_back(dims[axis]);
      steps.push_back(own);
    }
  }
  std::array<int64_t, N> offsets{};
  if (lengths.empty()) {
    f(offsets, std::array<int64_t, N>{}, int64_t{1});
    return;
  }
  const size_t last = lengths.size() - 1;
  std::vector<int64_t> index(last, 0);
  while (true) {
    f(offsets, steps[last], lengths[last]);
    size_t axis = last;
    while (true) {
      if (axis == 0) return;
      --axis;
      for (size_t n = 0; n < N; ++n) offsets[n] += steps[axis][n];
      if (++index[axis] < lengths[axis]) break;
      for (size_t n = 0; n < N; ++n) offsets[n] -= steps[axis][n] * lengths[axis];
      index[axis] = 0;
    }
  }
}

// Output 0 gets op(a, b) of each pair of elements, which are A's and B's, as an R.
template <class A, class B, class R, class Op>
Status zip(OpContext& context, const Tensor& a, const Tensor& b, Op op) {
  HR_ASSIGN_OR_RETURN(const Dims dims, broadcast(a.dims(), b.dims()));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DTypeOf<R>::value, dims));
  R* to = output->data<R>();
  const A* x = a.data<A>();
  const B* y = b.data<B>();
  walk<2>(dims, {broadcast_strides(a.dims(), dims), broadcast_strides(b.dims(), dims)},
          [&](const auto& offsets, const auto& steps, int64_t count) {
            const A* from_x = x + offsets[0];
            const B* from_y = y + offsets[1];
            for (int64_t i = 0; i < count; ++i, from_x += steps[0], from_y += steps[1]) *to++ = op(*from_x, *from_y);
          });
  return {};
}

// The elements of a float tensor as W (float or double), or of an integer tensor as W (uint64_t, whose arithmetic wraps around
// as every integer type's does): in place where that is their type, else a copy. Errors: unsupported.
template <class W>
class Numbers {
 public:
  Numbers() = default;
  static Result<Numbers> of(const Tensor& tensor) {
    Numbers numbers;
    numbers.tensor_ = tensor;
    if (tensor.dtype() == DTypeOf<W>::value) {
      numbers.data_ = tensor.data<W>();
      return numbers;
    }
    numbers.own_.resize(static_cast<size_t>(tensor.elements()));
    const auto load = [&]<class T>() {
      const T* from = tensor.data<T>();
      for (size_t i = 0; i < numbers.own_.size(); ++i) numbers.own_[i] = static_cast<W>(widen(from[i]));
    };
    const bool known = std::is_integral_v<W> ? dispatch_integer(tensor.dtype(), load) : dispatch_float(tensor.dtype(), load);
    if (!known) return tl::unexpected<Status>(unknown_type(tensor.dtype()));
    numbers.data_ = numbers.own_.data();
    return numbers;
  }
  const W* data() const { return data_; }
  const W& operator[](int64_t i) const { return data_[i]; }
  bool empty() const { return data_ == nullptr; }  // an input left out

 private:
  Tensor tensor_;  // keeps the bytes
  std::vector<W> own_;
  const W* data_ = nullptr;
};

// Input `index` as W; empty where it is left out and may be.
template <class W>
Result<Numbers<W>> numbers(const OpContext& context, int index, bool may_miss = false) {
  if (may_miss && !context.has_input(index)) return Numbers<W>();
  HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(index));
  return Numbers<W>::of(*tensor);
}

// Makes output `index` from `values`. Nothing where the node does not want it.
template <class W>
Status put(OpContext& context, int index, DType dtype, const Dims& dims, const std::vector<W>& values) {
  if (!context.wants_output(index)) return {};
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(index, dtype, dims));
  CHECK(output->elements() == static_cast<int64_t>(values.size()));
  const auto store = [&]<class T>() {
    T* to = output->data<T>();
    for (size_t i = 0; i < values.size(); ++i) to[i] = narrow<T>(values[i]);
  };
  return typed(std::is_integral_v<W> ? dispatch_integer(dtype, store) : dispatch_float(dtype, store), dtype);
}

// A buffer for put(), zero. Errors as OpContext::make.
template <class W>
Result<std::vector<W>> buffer(OpContext& context, const Dims& dims) {
  HR_ASSIGN_OR_RETURN(const int64_t count, count_elements(dims));
  HR_RETURN_IF_ERROR(context.graphs().charge(static_cast<uint64_t>(count) * sizeof(W)));
  return std::vector<W>(static_cast<size_t>(count));
}

// Calls run<float>() or run<double>() for a float type: f64 is computed in double, the others in float.
template <class F>
Status compute(DType dtype, F&& run) {
  if (dtype == DType::f64) return run.template operator()<double>();
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return run.template operator()<float>();
  return unknown_type(dtype);
}

// The same, and run<uint64_t>() for integers.
template <class F>
Status compute_number(DType dtype, F&& run) {
  if (dispatch_integer(dtype, []<class T>() {})) return run.template operator()<uint64_t>();
  return compute(dtype, run);
}

}  // namespace headrace::onnx
