#pragma once
// 8-bit numbers in lanes: parts of sixteen, and quantize_linear's rule.

#include "kernels/cpu/row.h"
#include "ops/q8.h"

HR_BEGIN_KERNELS
namespace {

// T: uint8_t or int8_t. The first n lanes (1 to 16).
template <class T>
  requires(sizeof(T) == 1)
HR_INLINE Lanes load_some(const T* p, int n) {
  if (n == kLanes) return load(p);
  T part[kLanes] = {};
  for (int i = 0; i < n; ++i) part[i] = p[i];
  return load(part);
}
template <class T>
  requires(sizeof(T) == 1)
HR_INLINE void store_some(T* p, Lanes a, int n) {
  if (n == kLanes) return store(p, a);
  T part[kLanes];
  store(part, a);
  for (int i = 0; i < n; ++i) p[i] = part[i];
}

// Calls use(T()) with the T of an 8-bit dtype.
template <class Use>
HR_INLINE void with_8_bits(DType dtype, Use use) {
  if (dtype == DType::u8) {
    use(uint8_t{});
  } else {
    use(int8_t{});
  }
}

// x / scale + zero as a number that the dtype has. Where max meets NaN it gives its second operand.
struct Quantizer {
  Lanes scale, zero, low, high;
  HR_INLINE Quantizer(float scale_, float zero_, DType dtype) : scale(broadcast(scale_)), zero(broadcast(zero_)) {
    const ops::Range8 range = ops::range_of(dtype);
    low = broadcast(static_cast<float>(range.low));
    high = broadcast(static_cast<float>(range.high));
  }
  HR_INLINE explicit Quantizer(const ops::Quantization& q) : Quantizer(q.scale, static_cast<float>(q.zero), q.dtype) {}
  HR_INLINE Lanes operator()(Lanes x) const { return min(high, max(round_to_even(x / scale) + zero, low)); }
};

}  // namespace
HR_END_KERNELS
