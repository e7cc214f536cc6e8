#pragma once
// A layer of the KV pool as device code sees it (core/kv_view.h has the layout). Here keys are token-major, as values are: a head's keys of a
// block are [kKvBlockTokens][head_dim], so that a warp reads one key in one piece.

#include <cuda_fp16.h>

#include "core/kv_view.h"
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {

// Passed by value to kernels.
struct Pool {
  char* data;
  int64_t block_stride, run_stride, num_blocks;  // strides in bytes
  int32_t side_bytes, head_dim;                  // a side is a head's keys of a block, or its values, with their scales
  DType dtype;

  // Side 2 * head holds keys, side 2 * head + 1 values.
  __device__ char* side(int64_t block, int index) const {
    return data + block / kKvRunBlocks * run_stride + block % kKvRunBlocks * block_stride + int64_t(index) * side_bytes;
  }
  // Number `d` of the vector at `place` in a side.
  template <class T>
  __device__ static T* vector(char* side, int place, int head_dim) {
    return reinterpret_cast<T*>(side) + place * head_dim;
  }
  // Of an i8 pool: the side's last cache line.
  __device__ float* scales(char* side) const { return reinterpret_cast<float*>(side + side_bytes - KvSpec::kScaleBytes); }
};

inline Pool pool_of(const KvView& view) {
  return {reinterpret_cast<char*>(view.data), view.block_stride, view.run_stride, view.num_blocks,
          int32_t(KvSpec::side_bytes(view.spec.head_dim, dtype_bytes(view.spec.dtype))), view.spec.head_dim, view.spec.dtype};
}

__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(int8_t value) { return float(value); }

__device__ inline float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  return value;
}
__device__ inline float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  return value;
}

}  // namespace headrace::cuda
