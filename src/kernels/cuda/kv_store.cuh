#pragma once
// How one head's vector of a token goes into the KV pool: a warp takes it, each lane kVec neighbours at a time. Numbers as
// ops/attention.h says: rounded to nearest even, or codes with a scale.

#include <cmath>

#include "kernels/cuda/kv_pool.cuh"
#include "kernels/cuda/vectors.cuh"
#include "ops/attention.h"

namespace headrace::cuda {

template <class T>
__device__ T to_stored(float value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else {
    return from_float<T>(value);
  }
}

// Codes 8 bits wide of one vector, and the scale that gives the numbers back.
struct Coding {
  float inverse;
  float scale;
  bool coded;

  // `peak_bits`: the largest magnitude as an integer, where what is not finite comes last.
  __device__ explicit Coding(unsigned peak_bits) {
    const float peak = __uint_as_float(peak_bits);
    const bool finite = peak_bits < 0x7F800000u;
    coded = finite && peak >= ops::kKvFloor;
    inverse = coded ? __fdiv_rn(127.0f, peak) : 0.0f;
    scale = !finite ? __int_as_float(0x7FC00000) : coded ? __fdiv_rn(peak, 127.0f) : 0.0f;
  }
  __device__ int8_t code(float value) const { return coded ? int8_t(__float2int_rn(__fmul_rn(value, inverse))) : int8_t(0); }
};

// Stores the vector whose elements d .. d + kVec - 1 `at(d)` gives, as `float (&values)[kVec]`, in place `place` of one side of a
// block. The whole warp calls it with the same arguments.
template <class T, int kVec, class At>
__device__ void store_vector(const KvPool& pool, int32_t block, int head, bool is_value, int place, At at) {
  const int dim = pool.head_dim;
  const int lane = int(threadIdx.x) % 32;
  T* to = (is_value ? pool.values<T>(block, head) : pool.keys<T>(block, head)) + place * dim;
  if constexpr (std::is_same_v<T, int8_t>) {
    unsigned peak_bits = 0;
    for (int d = lane * kVec; d < dim; d += 32 * kVec) {
      float values[kVec];
      at(d, values);
      for (int i = 0; i < kVec; ++i) peak_bits = max(peak_bits, __float_as_uint(values[i]) & 0x7FFFFFFFu);
    }
    const Coding coding(__reduce_max_sync(0xFFFFFFFFu, peak_bits));
    for (int d = lane * kVec; d < dim; d += 32 * kVec) {
      float values[kVec];
      at(d, values);
      Pack<int8_t, kVec> codes;
      for (int i = 0; i < kVec; ++i) codes.values[i] = coding.code(values[i]);
      store_pack<kVec>(to + d, codes);
    }
    if (lane == 0) (is_value ? pool.value_scales(block, head) : pool.key_scales(block, head))[place] = coding.scale;
  } else {
    for (int d = lane * kVec; d < dim; d += 32 * kVec) {
      float values[kVec];
      at(d, values);
      Pack<T, kVec> stored;
      for (int i = 0; i < kVec; ++i) stored.values[i] = to_stored<T>(values[i]);
      store_pack<kVec>(to + d, stored);
    }
  }
}

// Where a token goes: padding and what lies outside the pool goes nowhere.
struct KvPlace {
  int32_t block;
  int place;
  bool inside;
};
__device__ inline KvPlace place_of(const KvPool& pool, int32_t slot) {
  const int32_t block = slot / kKvBlockTokens;
  return {block, slot % kKvBlockTokens, slot >= 0 && block < pool.num_blocks};
}

}  // namespace headrace::cuda
