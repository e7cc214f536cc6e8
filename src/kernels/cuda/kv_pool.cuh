#pragma once
// One layer of the KV pool as CUDA kernels read and write it. Blocks and strides are those of core/kv_view.h; within a block, for
// each head, keys are token-major like values, so that a head's keys and values of 16 tokens are one stretch that is copied as it is:
//   keys   [kKvBlockTokens][head_dim]
//   i8: float32 scales of the 16 keys
//   values [kKvBlockTokens][head_dim]
//   i8: float32 scales of the 16 values
// Each of the four begins at a multiple of 64 bytes of the block.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/kv_view.h"

namespace headrace::cuda {

struct KvPool {
  std::byte* data;  // block 0
  int64_t block_stride, run_stride, side_bytes;
  int64_t num_blocks;
  int heads, head_dim;

  __device__ std::byte* head_of(int32_t block, int head) const {
    return data + block / kKvRunBlocks * run_stride + block % kKvRunBlocks * block_stride + 2 * head * side_bytes;
  }
  template <class T>
  __device__ T* keys(int32_t block, int head) const {
    return reinterpret_cast<T*>(head_of(block, head));
  }
  template <class T>
  __device__ T* values(int32_t block, int head) const {
    return reinterpret_cast<T*>(head_of(block, head) + side_bytes);
  }
  // Of an i8 pool: they stand last in a side.
  __device__ float* key_scales(int32_t block, int head) const {
    return reinterpret_cast<float*>(head_of(block, head) + side_bytes - KvSpec::kScaleBytes);
  }
  __device__ float* value_scales(int32_t block, int head) const {
    return reinterpret_cast<float*>(head_of(block, head) + 2 * side_bytes - KvSpec::kScaleBytes);
  }
};

inline KvPool pool_of(const KvView& view) {
  const KvSpec& spec = view.spec;
  return {view.data,       view.block_stride, view.run_stride, KvSpec::side_bytes(spec.head_dim, dtype_bytes(spec.dtype)),
          view.num_blocks, spec.heads,        spec.head_dim};
}

// use.operator()<T>() with the element type of a pool.
template <class Use>
void dispatch_pool(DType dtype, Use use) {
  switch (dtype) {
    case DType::f16: return use.template operator()<__half>();
    case DType::bf16: return use.template operator()<__nv_bfloat16>();
    case DType::i8: return use.template operator()<int8_t>();
    default: return use.template operator()<float>();
  }
}

}  // namespace headrace::cuda
