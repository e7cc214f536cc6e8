// One 64-bit mix of (key, counter) gives four indexes into a table of normal quantiles (16 KB: it stays in
// the first-level cache).
#include "io/random_weights.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace headrace::io {
namespace {

constexpr int kLevels = 4096;

// The finalizer of SplitMix64: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The normal quantile of p in (0, 0.5], by Newton's method on the distribution function.
double quantile(double p) {
  double x = 0;
  for (int step = 0; step < 60; ++step) {
    const double error = 0.5 * std::erfc(-x / std::sqrt(2.0)) - p;
    const double slope = std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI);
    const double next = x - error / slope;
    if (std::fabs(next - x) < 1e-12) return next;
    x = next;
  }
  return x;
}

// Quantiles of the middles of kLevels equal slices, scaled to unit variance.
std::array<float, kLevels> make_table() {
  std::array<double, kLevels / 2> lower;
  double squares = 0;
  for (int i = 0; i < kLevels / 2; ++i) {
    lower[i] = quantile((i + 0.5) / kLevels);
    squares += lower[i] * lower[i];
  }
  const double scale = std::sqrt(kLevels / 2 / squares);
  std::array<float, kLevels> table;
  for (int i = 0; i < kLevels / 2; ++i) {
    table[i] = static_cast<float>(lower[i] * scale);
    table[kLevels - 1 - i] = -table[i];
  }
  return table;
}

}  // namespace

uint64_t random_key(uint64_t seed, std::string_view name) {
  uint64_t key = mix(seed + 0x9E3779B97F4A7C15u);
  for (const char c : name) key = mix(key ^ static_cast<unsigned char>(c)) + 0x9E3779B97F4A7C15u;
  return key;
}

void fill_normal(uint64_t key, uint64_t first, float mean, float deviation, std::span<float> out) {
  CHECK(first % 4 == 0);
  static const std::array<float, kLevels> kTable = make_table();
  uint64_t counter = first / 4;
  for (size_t i = 0; i < out.size(); ++counter) {
    uint64_t bits = mix(key + counter * 0x9E3779B97F4A7C15u);
    const size_t end = std::min(out.size(), i + 4);
    for (; i < end; ++i, bits >>= 16) out[i] = mean + deviation * kTable[bits % kLevels];
  }
}

}  // namespace headrace::io
