#pragma once
// Sixteen floats that move together: one AVX-512 register, two AVX2 registers, or four plain vectors. Kernels
// written on Lanes have one source and one order of additions for every instruction set. Tails are partial
// loads into the same arithmetic, never a scalar path, so an element's bits do not depend on where a row
// ends. Everything here is inlined and internal to its object. Half floats convert exactly as core/half.h.

#include <cstdint>
#include <cstring>

#include "core/half.h"
#include "kernels/cpu/isa.h"

#if defined(HEADRACE_ISA_AVX2) || defined(HEADRACE_ISA_AVX512)
#include <immintrin.h>
#endif

#define HR_INLINE inline __attribute__((always_inline))

HR_BEGIN_KERNELS
namespace {

constexpr int kLanes = 16;
constexpr float kMinusInfinity = -__builtin_inff();

#if defined(HEADRACE_ISA_AVX512)

struct Lanes {
  __m512 v;
};

HR_INLINE __mmask16 first_lanes(int n) {
  return static_cast<__mmask16>((1u << n) - 1u);
}
HR_INLINE Lanes broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
HR_INLINE Lanes load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
HR_INLINE Lanes load(const f16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
HR_INLINE Lanes load(const bf16* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
HR_INLINE Lanes load(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
HR_INLINE Lanes load(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
HR_INLINE void store(float* p, Lanes a) {
  _mm512_storeu_ps(p, a.v);
}
// The same as for int8_t; values in [0, 255].
HR_INLINE void store(uint8_t* p, Lanes a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}
// To the nearest integer, halves to even; values in [-128, 127].
HR_INLINE void store(int8_t* p, Lanes a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}
HR_INLINE void store(f16* p, Lanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
HR_INLINE Lanes load_part(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
HR_INLINE void store_part(float* p, Lanes a, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
HR_INLINE Lanes operator+(Lanes a, Lanes b) {
  return {_mm512_add_ps(a.v, b.v)};
}
HR_INLINE Lanes operator-(Lanes a, Lanes b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
HR_INLINE Lanes operator*(Lanes a, Lanes b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
HR_INLINE Lanes operator/(Lanes a, Lanes b) {
  return {_mm512_div_ps(a.v, b.v)};
}
HR_INLINE Lanes mul_add(Lanes a, Lanes b, Lanes c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// The second operand where either is NaN.
HR_INLINE Lanes max(Lanes a, Lanes b) {
  return {_mm512_max_ps(a.v, b.v)};
}
HR_INLINE Lanes min(Lanes a, Lanes b) {
  return {_mm512_min_ps(a.v, b.v)};
}
// a < b ? x : y
HR_INLINE Lanes if_less(Lanes a, Lanes b, Lanes x, Lanes y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
HR_INLINE Lanes keep_range(Lanes a, int begin, int end, float other) {
  const __mmask16 keep = first_lanes(end) & ~first_lanes(begin);
  return {_mm512_mask_blend_ps(keep, _mm512_set1_ps(other), a.v)};
}
HR_INLINE Lanes absolute(Lanes a) {
  return {_mm512_abs_ps(a.v)};
}
HR_INLINE Lanes with_sign_of(Lanes a, Lanes sign) {
  const __m512i bit = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  return {_mm512_castsi512_ps(
      _mm512_or_si512(_mm512_castps_si512(a.v), _mm512_and_si512(_mm512_castps_si512(sign.v), bit)))};
}
// a * 2^n, where the low bits of `magic` (1.5 * 2^23 + n) hold n.
HR_INLINE Lanes scale_by_power(Lanes a, Lanes magic) {
  return {_mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(a.v), _mm512_slli_epi32(_mm512_castps_si512(magic.v), 23)))};
}
HR_INLINE Lanes sqrt(Lanes a) {
  return {_mm512_sqrt_ps(a.v)};
}
// a = mantissa * 2^exponent with the mantissa in [1, 2), for positive normal a.
HR_INLINE Lanes exponent_of(Lanes a) {
  const __m512i biased = _mm512_srli_epi32(_mm512_castps_si512(a.v), 23);
  return {_mm512_cvtepi32_ps(_mm512_sub_epi32(biased, _mm512_set1_epi32(127)))};
}
HR_INLINE Lanes mantissa_of(Lanes a) {
  const __m512i digits = _mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x007FFFFF));
  return {_mm512_castsi512_ps(_mm512_or_si512(digits, _mm512_set1_epi32(0x3F800000)))};
}

#elif defined(HEADRACE_ISA_AVX2)

struct Lanes {
  __m256 lo, hi;
};

HR_INLINE __m256i first_lanes(int n, int from) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - from), index);
}
HR_INLINE Lanes broadcast(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
HR_INLINE Lanes load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
HR_INLINE Lanes load(const f16* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
HR_INLINE Lanes load(const bf16* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  const __m256i lo = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), 16);
  const __m256i hi = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1)), 16);
  return {_mm256_castsi256_ps(lo), _mm256_castsi256_ps(hi)};
}
HR_INLINE Lanes load(const int8_t* p) {
  const __m256i lo = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i hi = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)));
  return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)};
}
HR_INLINE Lanes load(const uint8_t* p) {
  const __m256i lo = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i hi = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)));
  return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)};
}
HR_INLINE void store(float* p, Lanes a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
// The same as for int8_t; values in [0, 255].
HR_INLINE void store(uint8_t* p, Lanes a) {
  const __m256i lo = _mm256_cvtps_epi32(a.lo), hi = _mm256_cvtps_epi32(a.hi);
  const __m128i low = _mm_packs_epi32(_mm256_castsi256_si128(lo), _mm256_extracti128_si256(lo, 1));
  const __m128i high = _mm_packs_epi32(_mm256_castsi256_si128(hi), _mm256_extracti128_si256(hi, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(low, high));
}
// To the nearest integer, halves to even; values in [-128, 127].
HR_INLINE void store(int8_t* p, Lanes a) {
  const __m256i lo = _mm256_cvtps_epi32(a.lo), hi = _mm256_cvtps_epi32(a.hi);
  const __m128i low = _mm_packs_epi32(_mm256_castsi256_si128(lo), _mm256_extracti128_si256(lo, 1));
  const __m128i high = _mm_packs_epi32(_mm256_castsi256_si128(hi), _mm256_extracti128_si256(hi, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(low, high));
}
HR_INLINE void store(f16* p, Lanes a) {
  __m128i* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
HR_INLINE Lanes load_part(const float* p, int n) {
  return {_mm256_maskload_ps(p, first_lanes(n, 0)), _mm256_maskload_ps(p + 8, first_lanes(n, 8))};
}
HR_INLINE void store_part(float* p, Lanes a, int n) {
  _mm256_maskstore_ps(p, first_lanes(n, 0), a.lo);
  _mm256_maskstore_ps(p + 8, first_lanes(n, 8), a.hi);
}
HR_INLINE Lanes operator+(Lanes a, Lanes b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
HR_INLINE Lanes operator-(Lanes a, Lanes b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
HR_INLINE Lanes operator*(Lanes a, Lanes b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
HR_INLINE Lanes operator/(Lanes a, Lanes b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
HR_INLINE Lanes mul_add(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// The second operand where either is NaN.
HR_INLINE Lanes max(Lanes a, Lanes b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
HR_INLINE Lanes min(Lanes a, Lanes b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
// a < b ? x : y
HR_INLINE Lanes if_less(Lanes a, Lanes b, Lanes x, Lanes y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
HR_INLINE Lanes keep_range(Lanes a, int begin, int end, float other) {
  const __m256 fill = _mm256_set1_ps(other);
  const __m256i lo = _mm256_andnot_si256(first_lanes(begin, 0), first_lanes(end, 0));
  const __m256i hi = _mm256_andnot_si256(first_lanes(begin, 8), first_lanes(end, 8));
  return {_mm256_blendv_ps(fill, a.lo, _mm256_castsi256_ps(lo)),
          _mm256_blendv_ps(fill, a.hi, _mm256_castsi256_ps(hi))};
}
HR_INLINE Lanes absolute(Lanes a) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(bit, a.lo), _mm256_andnot_ps(bit, a.hi)};
}
HR_INLINE Lanes with_sign_of(Lanes a, Lanes sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(a.lo, _mm256_and_ps(bit, sign.lo)), _mm256_or_ps(a.hi, _mm256_and_ps(bit, sign.hi))};
}
// a * 2^n, where the low bits of `magic` (1.5 * 2^23 + n) hold n.
HR_INLINE Lanes scale_by_power(Lanes a, Lanes magic) {
  const __m256i lo = _mm256_slli_epi32(_mm256_castps_si256(magic.lo), 23);
  const __m256i hi = _mm256_slli_epi32(_mm256_castps_si256(magic.hi), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.lo), lo)),
          _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.hi), hi))};
}
HR_INLINE Lanes sqrt(Lanes a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
// a = mantissa * 2^exponent with the mantissa in [1, 2), for positive normal a.
HR_INLINE __m256 exponent_of(__m256 a) {
  const __m256i biased = _mm256_srli_epi32(_mm256_castps_si256(a), 23);
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(biased, _mm256_set1_epi32(127)));
}
HR_INLINE __m256 mantissa_of(__m256 a) {
  const __m256i digits = _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x007FFFFF));
  return _mm256_castsi256_ps(_mm256_or_si256(digits, _mm256_set1_epi32(0x3F800000)));
}
HR_INLINE Lanes exponent_of(Lanes a) {
  return {exponent_of(a.lo), exponent_of(a.hi)};
}
HR_INLINE Lanes mantissa_of(Lanes a) {
  return {mantissa_of(a.lo), mantissa_of(a.hi)};
}

#else

using Quad = float __attribute__((vector_size(16)));
using QuadBits = uint32_t __attribute__((vector_size(16)));
struct Lanes {
  Quad v[4];
};

// Applies f to each of the four parts.
template <class F>
HR_INLINE Lanes each(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
HR_INLINE Quad pick(QuadBits where, Quad x, Quad y) {
  return reinterpret_cast<Quad>((where & reinterpret_cast<QuadBits>(x)) |
                                (~where & reinterpret_cast<QuadBits>(y)));
}
HR_INLINE Lanes broadcast(float x) {
  return each([&](int) { return Quad{x, x, x, x}; });
}
HR_INLINE Lanes load(const float* p) {
  Lanes a;
  std::memcpy(&a, p, sizeof a);
  return a;
}
HR_INLINE Lanes load(const bf16* p) {
  return each([&](int i) {
    const bf16* q = p + 4 * i;
    return reinterpret_cast<Quad>(QuadBits{q[0].bits, q[1].bits, q[2].bits, q[3].bits} << 16);
  });
}
HR_INLINE Lanes load(const f16* p) {
  return each([&](int i) {
    const f16* q = p + 4 * i;
    const QuadBits bits = {q[0].bits, q[1].bits, q[2].bits, q[3].bits};
    // The 15 magnitude bits as a float32 are the value times 2^-112, subnormals included; then infinity and
    // NaN.
    const QuadBits magnitude = (bits & 0x7FFFu) << 13;
    const Quad finite = reinterpret_cast<Quad>(magnitude) * 0x1p112f;
    const Quad special = reinterpret_cast<Quad>(magnitude | 0x7F800000u);
    const Quad value = pick(reinterpret_cast<QuadBits>(magnitude >= 0x0F800000u), special, finite);
    return reinterpret_cast<Quad>(reinterpret_cast<QuadBits>(value) | ((bits & 0x8000u) << 16));
  });
}
HR_INLINE Lanes load(const int8_t* p) {
  return each([&](int i) {
    int8_t __attribute__((vector_size(4))) codes;
    std::memcpy(&codes, p + 4 * i, sizeof codes);
    return __builtin_convertvector(codes, Quad);
  });
}
HR_INLINE Lanes load(const uint8_t* p) {
  return each([&](int i) {
    uint8_t __attribute__((vector_size(4))) codes;
    std::memcpy(&codes, p + 4 * i, sizeof codes);
    return __builtin_convertvector(codes, Quad);
  });
}
HR_INLINE void store(float* p, Lanes a) {
  std::memcpy(p, &a, sizeof a);
}
// The same as for int8_t; values in [0, 255].
HR_INLINE void store(uint8_t* p, Lanes a) {
  for (int i = 0; i < kLanes; ++i) {
    const float shifted = a.v[i / 4][i % 4] + 12582912.0f;
    int32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    p[i] = static_cast<uint8_t>(bits);
  }
}
// To the nearest integer, halves to even; values in [-128, 127].
HR_INLINE void store(int8_t* p, Lanes a) {
  for (int i = 0; i < kLanes; ++i) {
    const float shifted = a.v[i / 4][i % 4] + 12582912.0f;  // the low bits then hold the integer
    int32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    p[i] = static_cast<int8_t>(bits);
  }
}
HR_INLINE Lanes load_part(const float* p, int n) {
  float values[kLanes] = {};
  for (int i = 0; i < n; ++i) values[i] = p[i];
  return load(values);
}
HR_INLINE void store_part(float* p, Lanes a, int n) {
  float values[kLanes];
  store(values, a);
  for (int i = 0; i < n; ++i) p[i] = values[i];
}
HR_INLINE Lanes operator+(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
HR_INLINE Lanes operator-(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
HR_INLINE Lanes operator*(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
HR_INLINE Lanes operator/(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
// Two roundings here: the baseline has no fused multiply-add.
HR_INLINE Lanes mul_add(Lanes a, Lanes b, Lanes c) {
  return a * b + c;
}
// a < b ? x : y
HR_INLINE Lanes if_less(Lanes a, Lanes b, Lanes x, Lanes y) {
  return each([&](int i) { return pick(reinterpret_cast<QuadBits>(a.v[i] < b.v[i]), x.v[i], y.v[i]); });
}
// The second operand where either is NaN.
HR_INLINE Lanes max(Lanes a, Lanes b) {
  return if_less(b, a, a, b);
}
HR_INLINE Lanes min(Lanes a, Lanes b) {
  return if_less(a, b, a, b);
}
HR_INLINE Lanes keep_range(Lanes a, int begin, int end, float other) {
  float values[kLanes];
  store(values, a);
  for (int i = 0; i < kLanes; ++i) values[i] = i >= begin && i < end ? values[i] : other;
  return load(values);
}
HR_INLINE Lanes absolute(Lanes a) {
  return each(
      [&](int i) { return reinterpret_cast<Quad>(reinterpret_cast<QuadBits>(a.v[i]) & 0x7FFFFFFFu); });
}
HR_INLINE Lanes with_sign_of(Lanes a, Lanes sign) {
  return each([&](int i) {
    return reinterpret_cast<Quad>(reinterpret_cast<QuadBits>(a.v[i]) |
                                  (reinterpret_cast<QuadBits>(sign.v[i]) & 0x80000000u));
  });
}
// a * 2^n, where the low bits of `magic` (1.5 * 2^23 + n) hold n.
HR_INLINE Lanes scale_by_power(Lanes a, Lanes magic) {
  return each([&](int i) {
    return reinterpret_cast<Quad>(reinterpret_cast<QuadBits>(a.v[i]) +
                                  (reinterpret_cast<QuadBits>(magic.v[i]) << 23));
  });
}
HR_INLINE Lanes sqrt(Lanes a) {
  return each([&](int i) {
    const Quad x = a.v[i];
    return Quad{__builtin_sqrtf(x[0]), __builtin_sqrtf(x[1]), __builtin_sqrtf(x[2]), __builtin_sqrtf(x[3])};
  });
}
// a = mantissa * 2^exponent with the mantissa in [1, 2), for positive normal a.
HR_INLINE Lanes exponent_of(Lanes a) {
  return each([&](int i) {
    return __builtin_convertvector(reinterpret_cast<QuadBits>(a.v[i]) >> 23, Quad) - 127.0f;
  });
}
HR_INLINE Lanes mantissa_of(Lanes a) {
  return each(
      [&](int i) { return reinterpret_cast<Quad>((reinterpret_cast<QuadBits>(a.v[i]) & 0x007FFFFFu) | 0x3F800000u); });
}

#endif

HR_INLINE Lanes zero() {
  return broadcast(0.0f);
}

// Lanes fold in halves: i with i + 8, then + 4, + 2, + 1; the same tree for every instruction set.
#if defined(HEADRACE_ISA_AVX512) || defined(HEADRACE_ISA_AVX2)
HR_INLINE __m256 low_half(Lanes a) {
#if defined(HEADRACE_ISA_AVX512)
  return _mm512_castps512_ps256(a.v);
#else
  return a.lo;
#endif
}
HR_INLINE __m256 high_half(Lanes a) {
#if defined(HEADRACE_ISA_AVX512)
  return _mm512_extractf32x8_ps(a.v, 1);
#else
  return a.hi;
#endif
}
HR_INLINE float sum(Lanes a) {
  const __m256 eight = _mm256_add_ps(low_half(a), high_half(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// Where one of two is NaN the second counts, as in max().
HR_INLINE float largest(Lanes a) {
  const __m256 eight = _mm256_max_ps(low_half(a), high_half(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
#else
HR_INLINE float sum(Lanes a) {
  float v[kLanes];
  store(v, a);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] = v[i] + v[i + half];
  }
  return v[0];
}
HR_INLINE float largest(Lanes a) {
  float v[kLanes];
  store(v, a);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];
  }
  return v[0];
}
#endif

// The first n elements of a half-float row; the rest are zero.
template <class T>
HR_INLINE Lanes load_part(const T* p, int n) {
  T values[kLanes] = {};
  for (int i = 0; i < n; ++i) values[i] = p[i];
  return load(values);
}

HR_INLINE float mul_add(float a, float b, float c) {
#if defined(HEADRACE_ISA_GENERIC)
  return a * b + c;
#else
  return __builtin_fmaf(a, b, c);
#endif
}

// One float to storage, as core/half.h rounds. Templates on T so that pools share one source.
template <class T>
HR_INLINE T narrow(float value);
template <>
HR_INLINE float narrow<float>(float value) {
  return value;
}
template <>
HR_INLINE bf16 narrow<bf16>(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t nan = (bits >> 16) | 0x40u;
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return bf16{static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded)};
}
template <>
HR_INLINE f16 narrow<f16>(float value) {
#if defined(HEADRACE_ISA_GENERIC)
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return f16{static_cast<uint16_t>(sign | 0x7E00u | ((bits >> 13) & 0x3FFu))};
  if (magnitude >= 0x477FF000u) return f16{static_cast<uint16_t>(sign | 0x7C00u)};
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 leaves the count of 2^-24 units, rounded to nearest even, in the low mantissa
    // bits.
    float shifted;
    std::memcpy(&shifted, &magnitude, sizeof shifted);
    shifted += 0.5f;
    uint32_t units;
    std::memcpy(&units, &shifted, sizeof units);
    return f16{static_cast<uint16_t>(sign | (units - 0x3F000000u))};
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return f16{static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
#else
  return f16{static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT))};
#endif
}

// Sixteen floats to a half-float row.
#if defined(HEADRACE_ISA_GENERIC)
HR_INLINE void store(f16* p, Lanes a) {
  float values[kLanes];
  store(values, a);
  for (int i = 0; i < kLanes; ++i) p[i] = narrow<f16>(values[i]);
}
#endif
HR_INLINE void store(bf16* p, Lanes a) {
#if defined(HEADRACE_ISA_AVX512)
  // narrow() in integers: the instruction that does it would flush what lies below 2^-126.
  const __m512i bits = _mm512_castps_si512(a.v), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF))), 16);
  const __m512i nan = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, rounded, nan)));
#else
  float values[kLanes];
  store(values, a);
  for (int i = 0; i < kLanes; ++i) p[i] = narrow<bf16>(values[i]);
#endif
}

// ---- functions: fixed polynomials, fitted for least relative error ------------------------------

// e^x = p * 2^n for |x| below some thousand; the low bits of `magic` hold n too.
struct Exponential {
  Lanes p, n, magic;
};
HR_INLINE Exponential split_exp(Lanes x) {
  const Lanes magic = mul_add(x, broadcast(1.44269504f), broadcast(12582912.0f));
  const Lanes n = magic - broadcast(12582912.0f);
  // ln 2 in two parts; the first has 9 trailing zero bits, so that n times it is exact.
  Lanes r = mul_add(n, broadcast(-0.693359375f), x);
  r = mul_add(n, broadcast(2.12194440e-4f), r);
  Lanes p = broadcast(1.381446475e-3f);
  p = mul_add(p, r, broadcast(8.368780622e-3f));
  p = mul_add(p, r, broadcast(4.166839426e-2f));
  p = mul_add(p, r, broadcast(1.666652011e-1f));
  p = mul_add(p, r, broadcast(4.999999341e-1f));
  return {mul_add(p * r, r, r) + broadcast(1.0f), n, magic};
}

// e^x within 3e-7; 0 below -86.6 (2.4e-38), e^88 above 88. NaN stays NaN.
HR_INLINE Lanes exp(Lanes x) {
  const Lanes lowest = broadcast(-86.6f);
  const Exponential e = split_exp(max(lowest, min(broadcast(88.0f), x)));
  return if_less(x, lowest, zero(), scale_by_power(e.p, e.magic));
}

// The same over the whole range of float: subnormal results, infinity above. Two factors of the power of two, each of which is normal.
HR_INLINE Lanes exp_full_range(Lanes x) {
  const Exponential e = split_exp(max(broadcast(-105.0f), min(broadcast(89.0f), x)));
  const Lanes half = mul_add(e.n, broadcast(0.5f), broadcast(12582912.0f));
  const Lanes rest = e.n - (half - broadcast(12582912.0f)) + broadcast(12582912.0f);
  return scale_by_power(e.p, half) * scale_by_power(broadcast(1.0f), rest);
}

HR_INLINE float exp(float x) {
  float values[kLanes];
  store(values, exp(broadcast(x)));
  return values[0];
}

// Within 3e-7 of tanh, relative: a polynomial below 0.625, 1 - 2 / (e^2x + 1) above.
HR_INLINE Lanes tanh(Lanes x) {
  const Lanes a = absolute(x);
  const Lanes u = x * x;
  Lanes p = broadcast(-5.717036561e-3f);
  p = mul_add(p, u, broadcast(2.065057900e-2f));
  p = mul_add(p, u, broadcast(-5.374349526e-2f));
  p = mul_add(p, u, broadcast(1.333149125e-1f));
  p = mul_add(p, u, broadcast(-3.333328392e-1f));
  const Lanes small = mul_add(p * u, x, x);
  const Lanes one = broadcast(1.0f);
  const Lanes large = one - broadcast(2.0f) / (exp(a + a) + one);
  return if_less(a, broadcast(0.625f), small, with_sign_of(large, x));
}

// Natural logarithm of a positive normal number within 2e-7, relative: x = m * 2^e with m in [0.7071, 1.4142).
HR_INLINE Lanes log_of_normal(Lanes x) {
  const Lanes one = broadcast(1.0f);
  Lanes e = exponent_of(x), m = mantissa_of(x);
  const Lanes root = broadcast(1.41421356f);
  e = if_less(root, m, e + one, e);
  m = if_less(root, m, m * broadcast(0.5f), m);
  const Lanes f = m - one, u = f * f;
  Lanes p = broadcast(-7.634429634e-2f);
  p = mul_add(p, f, broadcast(1.276154965e-1f));
  p = mul_add(p, f, broadcast(-1.316019446e-1f));
  p = mul_add(p, f, broadcast(1.420176178e-1f));
  p = mul_add(p, f, broadcast(-1.662335694e-1f));
  p = mul_add(p, f, broadcast(2.000122666e-1f));
  p = mul_add(p, f, broadcast(-2.500082254e-1f));
  p = mul_add(p, f, broadcast(3.333333135e-1f));
  // ln 2 in two parts, as in exp.
  const Lanes low = mul_add(e, broadcast(-2.12194440e-4f), p * f * u);
  return mul_add(e, broadcast(0.693359375f), f + mul_add(u, broadcast(-0.5f), low));
}

// The same for every x: minus infinity of 0, NaN below.
HR_INLINE Lanes log(Lanes x) {
  const Lanes infinity = broadcast(__builtin_inff()), lowest = broadcast(1.17549435e-38f);
  const Lanes scaled = if_less(x, lowest, x * broadcast(0x1p23f), x);
  const Lanes shift = if_less(x, lowest, broadcast(-15.9423847f), zero());  // -23 ln 2
  const Lanes result = if_less(x, infinity, log_of_normal(scaled) + shift, x);
  return if_less(zero(), x, result, if_less(x, zero(), broadcast(__builtin_nanf("")), x - infinity));
}

// log(1 + y) for y in [0, 1] within 3e-7, relative: what 1 + y loses is added again.
HR_INLINE Lanes log1p_of_unit(Lanes y) {
  const Lanes one = broadcast(1.0f), u = one + y;
  return log_of_normal(u) + (y - (u - one)) / u;
}

// erfc(u) for u >= 0 within 2e-6 of itself: e^(-u^2) * t * R(t), t = 1 / (1 + u / 2).
HR_INLINE Lanes erfc_of_positive(Lanes u) {
  const Lanes t = broadcast(1.0f) / mul_add(u, broadcast(0.5f), broadcast(1.0f));
  Lanes p = broadcast(-5.864110549e-2f);
  p = mul_add(p, t, broadcast(2.824749269e-1f));
  p = mul_add(p, t, broadcast(-4.828216018e-1f));
  p = mul_add(p, t, broadcast(2.730183594e-1f));
  p = mul_add(p, t, broadcast(-2.311541998e-2f));
  p = mul_add(p, t, broadcast(2.011855038e-1f));
  p = mul_add(p, t, broadcast(2.434880916e-1f));
  p = mul_add(p, t, broadcast(2.823216725e-1f));
  p = mul_add(p, t, broadcast(2.820895318e-1f));
  return exp(zero() - u * u) * t * p;
}

// Within 6e-7 of erf, relative: a polynomial below 0.9, 1 - erfc above.
HR_INLINE Lanes erf(Lanes x) {
  const Lanes a = absolute(x), u = x * x;
  Lanes p = broadcast(8.369576972e-5f);
  p = mul_add(p, u, broadcast(-8.142580627e-4f));
  p = mul_add(p, u, broadcast(5.201021209e-3f));
  p = mul_add(p, u, broadcast(-2.685939334e-2f));
  p = mul_add(p, u, broadcast(1.128369570e-1f));
  p = mul_add(p, u, broadcast(-3.761263490e-1f));
  p = mul_add(p, u, broadcast(1.128379226f));
  const Lanes large = broadcast(1.0f) - erfc_of_positive(a);
  return if_less(a, broadcast(0.9f), x * p, with_sign_of(large, x));
}

// `result` unless x is NaN, which stays: min and max give their second operand there.
HR_INLINE Lanes unless_nan(Lanes x, Lanes result) {
  const Lanes infinity = broadcast(__builtin_inff());
  return if_less(broadcast(kMinusInfinity), x, result, if_less(x, infinity, result, x));
}

// To the nearest integer, halves to even. What is 2^23 or more is an integer.
HR_INLINE Lanes round_to_even(Lanes x) {
  const Lanes a = absolute(x), shift = broadcast(8388608.0f);
  return if_less(a, shift, with_sign_of((a + shift) - shift, x), x);
}
HR_INLINE Lanes floor(Lanes x) {
  const Lanes r = round_to_even(x);
  return if_less(x, r, r - broadcast(1.0f), r);
}
HR_INLINE Lanes ceil(Lanes x) {
  const Lanes r = round_to_even(x);
  return if_less(r, x, r + broadcast(1.0f), r);
}

}  // namespace
HR_END_KERNELS
