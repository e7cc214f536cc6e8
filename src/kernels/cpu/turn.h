#pragma once
// What rope and rotary share: turning the pairs of one head by tables of cosines and sines. x and y may be the same.

#include "kernels/cpu/lanes.h"

HR_BEGIN_KERNELS
namespace {

// Pair i is (x[i], x[half + i]).
void turn_halves(const float* x, const float* c, const float* s, int half, float* y) {
  int i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Lanes a = load(x + i);
    const Lanes b = load(x + half + i);
    const Lanes cosine = load(c + i);
    const Lanes sine = load(s + i);
    store(y + i, a * cosine - b * sine);
    store(y + half + i, b * cosine + a * sine);
  }
  for (; i < half; ++i) {
    const float a = x[i];
    const float b = x[half + i];
    y[i] = a * c[i] - b * s[i];
    y[half + i] = b * c[i] + a * s[i];
  }
}

// Pair i is (x[2 i], x[2 i + 1]).
void turn_neighbours(const float* x, const float* c, const float* s, int half, float* y) {
  for (int i = 0; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    y[2 * i] = a * c[i] - b * s[i];
    y[2 * i + 1] = b * c[i] + a * s[i];
  }
}

}  // namespace
HR_END_KERNELS
