#pragma once
// What the operators that move and convert elements share.

#include <complex>
#include <limits>

#include "onnx/op.h"
#include "onnx/ops/numbers.h"

namespace headrace::onnx {

// `count` elements of one type from one tensor to another, at offsets in elements that lie inside both.
void copy_elements(Tensor& to, int64_t to_at, const Tensor& from, int64_t from_at, int64_t count = 1);
// to[i] = from[offset + the sum of indices times strides], for all i of `to` in order.
void copy_strided(Tensor& to, const Tensor& from, std::span<const int64_t> strides, int64_t offset = 0);
// Every element is `one`'s only one.
void fill(Tensor& to, const Tensor& one);

// Tensors for the elements of `source`, each of them any number of times: checked and charged to the run as OpContext::make
// does, texts by the longest. Errors: malformed, resource_exhausted.
Result<Tensor> make_for(OpContext& context, const Tensor& source, Dims dims);
Result<Tensor*> make_for(OpContext& context, int output, const Tensor& source, Dims dims);
// A tensor of numbers, charged as well.
Result<Tensor> make_numbers(OpContext& context, DType dtype, Dims dims);

// The permutation of axes `perm`, which names each once.
Result<Tensor> transposed(OpContext& context, const Tensor& from, std::span<const int> perm);
// Parts of one type, along `axis` in order; their other dims agree. Errors: malformed, resource_exhausted.
Result<Tensor> concatenated(OpContext& context, std::span<const Tensor> parts, int axis);
// `length` places along `axis` from `start` on, which lie inside.
Result<Tensor> part_of(OpContext& context, const Tensor& from, int axis, int64_t start, int64_t length);

// Axes counted from the front, each once. Errors: malformed.
Result<std::vector<int>> normalize_axes(std::span<const int64_t> axes, int rank);
// The product of dims from `begin` to `end`; they are a tensor's, so it fits.
int64_t product(std::span<const int64_t> dims, int begin, int end);
// The next index in row-major order; behind the last false, and the first again.
bool next_index(Dims& index, std::span<const int64_t> dims);

// The only element of a tensor input, as T, from any integer or float type. Errors: malformed.
Result<double> number_input(const OpContext& context, int index);
Result<int64_t> integer_input(const OpContext& context, int index);
// All elements of an input of one integer type. Errors: malformed.
Result<std::vector<int64_t>> all_integers(const OpContext& context, int index);

Status wrong_type(DType dtype);

template <class T>
inline constexpr bool kIsSubByte =
    std::is_same_v<T, i4> || std::is_same_v<T, u4> || std::is_same_v<T, i2> || std::is_same_v<T, u2>;
template <class T>
inline constexpr bool kIsCode =
    std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, f8e4m3fn> || std::is_same_v<T, f8e4m3fnuz> ||
    std::is_same_v<T, f8e5m2> || std::is_same_v<T, f8e5m2fnuz> || std::is_same_v<T, f8e8m0> || std::is_same_v<T, f4e2m1>;
// What an element is worth, in a type that computes: float for the small floats, the integer itself for sub-byte ones.
template <class T>
auto worth(const T& value) {
  if constexpr (kIsCode<T>) return to_float(value);
  else if constexpr (kIsSubByte<T>) return value.value;
  else return value;
}

// dispatch_number with the types that hold codes and sub-byte integers, and bool.
template <class F>
bool dispatch_real(DType dtype, F&& f) {
  return dispatch<float, double, f16, bf16, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, bool,
                  f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1, i4, u4, i2, u2>(dtype, std::forward<F>(f));
}

// A number rounded into any type of dispatch_real: floats to nearest even, integers toward zero and saturated.
template <class T>
T from_double(double value, bool saturate = false) {
  if constexpr (std::is_same_v<T, bool>) return value != 0;
  else if constexpr (std::is_same_v<T, f8e8m0>) return to_f8e8m0(value, saturate, ScaleRounding::up);
  else if constexpr (kIsCode<T>) return to_small_float<T>(value, saturate);
  else if constexpr (kIsSubByte<T>) {
    constexpr int bits = std::is_same_v<T, i4> || std::is_same_v<T, u4> ? 4 : 2;
    constexpr bool is_signed = std::is_same_v<T, i4> || std::is_same_v<T, i2>;
    constexpr int low = is_signed ? -(1 << (bits - 1)) : 0, high = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    const int whole = saturated<int>(value);
    return T{static_cast<decltype(T::value)>(whole < low ? low : whole > high ? high : whole)};
  } else if constexpr (std::is_integral_v<T>) {
    return saturated<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace headrace::onnx
