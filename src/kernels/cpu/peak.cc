// The loops behind `headrace roof`. Arithmetic: kChains independent accumulators, enough to cover a latency of 4 or 5 cycles
// at two vectors a cycle, nothing loaded. Reading: four accumulators over whole cache lines. The empty asm statements
// keep operands in registers and stop the compiler from moving work out of the loop.
#include "kernels/cpu/simd.h"
#include "ops/roof_kernels.h"

HR_BEGIN_KERNELS
namespace {

#if defined(__x86_64__)
#define HR_OPAQUE(value) asm volatile("" : "+x"(value))
#if defined(HEADRACE_ISA_AVX512)
#undef HR_OPAQUE
#define HR_OPAQUE(value) asm volatile("" : "+v"(value))
#endif
#else
#define HR_OPAQUE(value) asm volatile("" : "+w"(value))
#endif

constexpr int kChains = 12;

// One native vector of floats: its type, constant and multiply-add.
#if defined(HEADRACE_ISA_AVX512)
using Native = __m512;
HR_INLINE Native native(float x) { return _mm512_set1_ps(x); }
HR_INLINE Native native_fma(Native a, Native b, Native c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(HEADRACE_ISA_AVX2)
using Native = __m256;
HR_INLINE Native native(float x) { return _mm256_set1_ps(x); }
HR_INLINE Native native_fma(Native a, Native b, Native c) { return _mm256_fmadd_ps(a, b, c); }
#else
using Native = F32x4;
HR_INLINE Native native(float x) { return Native{x, x, x, x}; }
HR_INLINE Native native_fma(Native a, Native b, Native c) { return a * b + c; }
#endif

double peak_f32(int64_t rounds) {
  Native acc[kChains];
  Native a = native(0.5f), b = native(0.25f);
  HR_OPAQUE(a);
  HR_OPAQUE(b);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) acc[i] = native(0.0f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) acc[i] = native_fma(acc[i], a, b);
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) HR_OPAQUE(acc[i]);
  }
  return static_cast<double>(rounds) * kChains * (sizeof(Native) / sizeof(float)) * 2;
}

#if defined(HEADRACE_ISA_AVX512)

double peak_bf16(int64_t rounds) {
  __m512 acc[kChains];
  __m512i a = _mm512_set1_epi32(0x3F003F00), b = _mm512_set1_epi32(0x3E803E80);  // pairs of 0.5, of 0.25
  HR_OPAQUE(a);
  HR_OPAQUE(b);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_setzero_ps();
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], (__m512bh)a, (__m512bh)b);
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) HR_OPAQUE(acc[i]);
  }
  return static_cast<double>(rounds) * kChains * 16 * 2 * 2;
}

double peak_int8(int64_t rounds) {
  __m512i acc[kChains];
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
  HR_OPAQUE(a);
  HR_OPAQUE(b);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_setzero_si512();
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) HR_OPAQUE(acc[i]);
  }
  return static_cast<double>(rounds) * kChains * 64 * 2;
}

#elif defined(HEADRACE_ISA_AVX2)

// A product of pairs and a 16-bit sum: the least that an exact u8 x s8 dot product costs without VNNI.
double peak_int8(int64_t rounds) {
  __m256i acc[kChains];
  __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5);
  HR_OPAQUE(b);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) acc[i] = _mm256_setzero_si256();
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      HR_OPAQUE(a);
      acc[i] = _mm256_add_epi16(acc[i], _mm256_maddubs_epi16(a, b));
    }
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) HR_OPAQUE(acc[i]);
  }
  return static_cast<double>(rounds) * kChains * 32 * 2;
}

#endif

int32_t read_all(const std::byte* data, size_t bytes) {
  I32x16 sums[4] = {zero_i32(), zero_i32(), zero_i32(), zero_i32()};
  for (const std::byte* end = data + bytes; data < end; data += kRoofReadStep) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) sums[i % 4] = sums[i % 4] + load_i32(data + 64 * i);
  }
  return reduce_add((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // namespace

extern const RoofKernels roof;
const RoofKernels roof = {
    .isa = kIsa,
    .f32 = peak_f32,
#if defined(HEADRACE_ISA_AVX512)
    .bf16 = peak_bf16,
    .int8 = peak_int8,
#elif defined(HEADRACE_ISA_AVX2)
    .int8 = peak_int8,
#endif
    .read = read_all,
};
HR_END_KERNELS
