#pragma once
// Sixteen lanes of float or int32 under one name for every instruction set: one AVX-512 register, two AVX2 registers, or
// four 128-bit vectors of the compiler. Matrix kernels are written once over these; a lane is a weight row of a tile.
// fma() is fused on AVX2 and AVX-512 and a rounded product plus a sum on generic. Everything is inlined: no symbols.

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa.h"

#if defined(HEADRACE_ISA_AVX2) || defined(HEADRACE_ISA_AVX512)
#include <immintrin.h>
#else
#include <bit>
#include <cstring>

#include "core/half.h"
#endif

#define HR_INLINE [[gnu::always_inline]] inline
// After a lambda's parameters: the same for its body.
#define HR_INLINE_LAMBDA __attribute__((always_inline))

HR_BEGIN_KERNELS

#if defined(HEADRACE_ISA_AVX2) || defined(HEADRACE_ISA_AVX512)
HR_INLINE int32_t add_eight(__m256i x) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}
#endif

#if defined(HEADRACE_ISA_AVX512)

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};

HR_INLINE F32x16 zero_f32() { return {_mm512_setzero_ps()}; }
HR_INLINE I32x16 zero_i32() { return {_mm512_setzero_si512()}; }
HR_INLINE F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
HR_INLINE I32x16 broadcast(int32_t x) { return {_mm512_set1_epi32(x)}; }
HR_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
HR_INLINE I32x16 load_i32(const void* p) { return {_mm512_loadu_si512(p)}; }
HR_INLINE F32x16 load_f16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
HR_INLINE void store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
HR_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
HR_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
HR_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
HR_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
HR_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
HR_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
HR_INLINE I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
HR_INLINE I32x16 operator&(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
template <int kBits>
HR_INLINE I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
HR_INLINE I32x16 shift_right(I32x16 a) {  // zeros come in
  return {_mm512_srli_epi32(a.v, kBits)};
}
HR_INLINE F32x16 to_f32(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
HR_INLINE I32x16 round_to_i32(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }  // halves to even
HR_INLINE F32x16 bits_as_f32(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
HR_INLINE I32x16 f32_as_bits(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
HR_INLINE float reduce_max(F32x16 a) { return _mm512_reduce_max_ps(a.v); }
HR_INLINE int32_t reduce_add(I32x16 a) {  // sums may wrap: the compiler's own reduction adds them as signed integers
  return add_eight(_mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti64x4_epi64(a.v, 1)));
}
HR_INLINE void store_i8(int8_t* p, I32x16 a) {  // values in [-128, 127]
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
HR_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

#elif defined(HEADRACE_ISA_AVX2)

struct F32x16 {
  __m256 a, b;
};
struct I32x16 {
  __m256i a, b;
};

HR_INLINE F32x16 zero_f32() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
HR_INLINE I32x16 zero_i32() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
HR_INLINE F32x16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
HR_INLINE I32x16 broadcast(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
HR_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
HR_INLINE I32x16 load_i32(const void* p) {
  const __m256i* at = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
}
HR_INLINE F32x16 load_f16(const void* p) {
  const __m128i* at = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
HR_INLINE void store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
HR_INLINE F32x16 fma(F32x16 x, F32x16 y, F32x16 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
HR_INLINE F32x16 operator*(F32x16 x, F32x16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
HR_INLINE F32x16 operator+(F32x16 x, F32x16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
HR_INLINE F32x16 operator-(F32x16 x, F32x16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
HR_INLINE F32x16 max(F32x16 x, F32x16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
HR_INLINE F32x16 min(F32x16 x, F32x16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
HR_INLINE I32x16 operator+(I32x16 x, I32x16 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
HR_INLINE I32x16 operator&(I32x16 x, I32x16 y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
template <int kBits>
HR_INLINE I32x16 shift_left(I32x16 x) {
  return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
template <int kBits>
HR_INLINE I32x16 shift_right(I32x16 x) {
  return {_mm256_srli_epi32(x.a, kBits), _mm256_srli_epi32(x.b, kBits)};
}
HR_INLINE F32x16 to_f32(I32x16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
HR_INLINE I32x16 round_to_i32(F32x16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
HR_INLINE F32x16 bits_as_f32(I32x16 x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
HR_INLINE I32x16 f32_as_bits(F32x16 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
HR_INLINE float reduce_max(F32x16 x) {
  const __m256 m = _mm256_max_ps(x.a, x.b);
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  q = _mm_max_ss(q, _mm_movehdup_ps(q));
  return _mm_cvtss_f32(q);
}
HR_INLINE int32_t reduce_add(I32x16 x) { return add_eight(_mm256_add_epi32(x.a, x.b)); }
HR_INLINE void store_i8(int8_t* p, I32x16 x) {
  const __m128i low = _mm_packs_epi32(_mm256_castsi256_si128(x.a), _mm256_extracti128_si256(x.a, 1));
  const __m128i high = _mm_packs_epi32(_mm256_castsi256_si128(x.b), _mm256_extracti128_si256(x.b, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(low, high));
}
HR_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

#else

typedef float F32x4 __attribute__((vector_size(16)));
typedef int32_t I32x4 __attribute__((vector_size(16)));
typedef uint32_t U32x4 __attribute__((vector_size(16)));

struct F32x16 {
  F32x4 v[4];
};
struct I32x16 {
  I32x4 v[4];
};

// Applies `f` to each quarter.
template <class Out, class F>
HR_INLINE Out quarters(F&& f) {
  return Out{{f(0), f(1), f(2), f(3)}};
}
HR_INLINE F32x16 zero_f32() { return {}; }
HR_INLINE I32x16 zero_i32() { return {}; }
HR_INLINE F32x16 broadcast(float x) {
  return quarters<F32x16>([&](int) HR_INLINE_LAMBDA { return F32x4{x, x, x, x}; });
}
HR_INLINE I32x16 broadcast(int32_t x) {
  return quarters<I32x16>([&](int) HR_INLINE_LAMBDA { return I32x4{x, x, x, x}; });
}
HR_INLINE F32x16 load(const float* p) {
  F32x16 out;
  std::memcpy(&out, p, sizeof out);
  return out;
}
HR_INLINE I32x16 load_i32(const void* p) {
  I32x16 out;
  std::memcpy(&out, p, sizeof out);
  return out;
}
HR_INLINE F32x16 load_f16(const void* p) {
  F32x16 out;
  for (int i = 0; i < 16; ++i) {
    f16 half;
    std::memcpy(&half, static_cast<const char*>(p) + 2 * i, 2);
    out.v[i / 4][i % 4] = headrace::to_float(half);
  }
  return out;
}
HR_INLINE void store(float* p, const F32x16& x) { std::memcpy(p, &x, sizeof x); }
HR_INLINE F32x16 operator*(const F32x16& x, const F32x16& y) {
  return quarters<F32x16>([&](int i) HR_INLINE_LAMBDA { return x.v[i] * y.v[i]; });
}
HR_INLINE F32x16 operator+(const F32x16& x, const F32x16& y) {
  return quarters<F32x16>([&](int i) HR_INLINE_LAMBDA { return x.v[i] + y.v[i]; });
}
HR_INLINE F32x16 operator-(const F32x16& x, const F32x16& y) {
  return quarters<F32x16>([&](int i) HR_INLINE_LAMBDA { return x.v[i] - y.v[i]; });
}
HR_INLINE F32x16 fma(const F32x16& x, const F32x16& y, const F32x16& z) { return x * y + z; }
HR_INLINE F32x16 max(const F32x16& x, const F32x16& y) {
  return quarters<F32x16>([&](int i) HR_INLINE_LAMBDA { return x.v[i] > y.v[i] ? x.v[i] : y.v[i]; });
}
HR_INLINE F32x16 min(const F32x16& x, const F32x16& y) {
  return quarters<F32x16>([&](int i) HR_INLINE_LAMBDA { return x.v[i] < y.v[i] ? x.v[i] : y.v[i]; });
}
HR_INLINE I32x16 operator+(const I32x16& x, const I32x16& y) {
  return quarters<I32x16>([&](int i) HR_INLINE_LAMBDA { return (I32x4)((U32x4)x.v[i] + (U32x4)y.v[i]); });
}
HR_INLINE I32x16 operator&(const I32x16& x, const I32x16& y) {
  return quarters<I32x16>([&](int i) HR_INLINE_LAMBDA { return x.v[i] & y.v[i]; });
}
template <int kBits>
HR_INLINE I32x16 shift_left(const I32x16& x) {
  return quarters<I32x16>([&](int i) HR_INLINE_LAMBDA { return (I32x4)((U32x4)x.v[i] << kBits); });
}
template <int kBits>
HR_INLINE I32x16 shift_right(const I32x16& x) {
  return quarters<I32x16>([&](int i) HR_INLINE_LAMBDA { return (I32x4)((U32x4)x.v[i] >> kBits); });
}
HR_INLINE F32x16 to_f32(const I32x16& x) {
  return quarters<F32x16>([&](int i) HR_INLINE_LAMBDA { return __builtin_convertvector(x.v[i], F32x4); });
}
HR_INLINE F32x16 bits_as_f32(const I32x16& x) { return std::bit_cast<F32x16>(x); }
HR_INLINE I32x16 f32_as_bits(const F32x16& x) { return std::bit_cast<I32x16>(x); }
// For |x| < 2^22: adding 1.5 * 2^23 leaves the integer, rounded half to even, in the low mantissa bits.
HR_INLINE I32x16 round_to_i32(const F32x16& x) {
  return f32_as_bits(x + broadcast(12582912.0f)) + broadcast(-0x4B400000);
}
HR_INLINE float reduce_max(const F32x16& x) {
  float best = x.v[0][0];
  for (int i = 1; i < 16; ++i) best = x.v[i / 4][i % 4] > best ? x.v[i / 4][i % 4] : best;
  return best;
}
HR_INLINE int32_t reduce_add(const I32x16& x) {
  uint32_t total = 0;
  for (int i = 0; i < 16; ++i) total += static_cast<uint32_t>(x.v[i / 4][i % 4]);
  return static_cast<int32_t>(total);
}
HR_INLINE void store_i8(int8_t* p, const I32x16& x) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(x.v[i / 4][i % 4]);
}
HR_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }

#endif

HR_INLINE F32x16 abs(const F32x16& x) { return bits_as_f32(f32_as_bits(x) & broadcast(0x7FFFFFFF)); }

// Sixteen pairs of bf16, [16][2]: the first or the second of each.
HR_INLINE F32x16 bf16_first(const I32x16& pairs) { return bits_as_f32(shift_left<16>(pairs)); }
HR_INLINE F32x16 bf16_second(const I32x16& pairs) { return bits_as_f32(pairs & broadcast(static_cast<int32_t>(0xFFFF0000u))); }

// The first `count` lanes (1..16).
HR_INLINE void store_first(float* p, const F32x16& x, int count) {
  if (count == 16) {
    store(p, x);
    return;
  }
  alignas(64) float lanes[16];
  store(lanes, x);
  for (int i = 0; i < count; ++i) p[i] = lanes[i];
}
HR_INLINE F32x16 load_first(const float* p, int count) {
  if (count == 16) return load(p);
  alignas(64) float lanes[16] = {};
  for (int i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}

HR_END_KERNELS
