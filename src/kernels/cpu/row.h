#pragma once
// What kernels over whole rows share: walking a row in lanes, its largest element, and sums over it in 4 x 16 fixed lanes, whose
// order depends on the width alone.

#include "kernels/cpu/lanes.h"

HR_BEGIN_KERNELS
namespace {

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
