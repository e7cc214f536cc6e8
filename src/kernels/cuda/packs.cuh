#pragma once
// Eight neighbouring columns of a row at a time: the unit of every row-wise kernel. Where the rows of all operands are aligned (kAligned)
// a pack is one or two 16-byte accesses, else one element after the other. Which columns a thread owns, and in which order it adds them,
// does not depend on that, so a row's bits do not either.

#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {

inline constexpr int kPack = 8;
inline constexpr int kMaxThreads = 1024;

// Whether packs of these rows may be loaded and stored 16 bytes at a time.
inline bool packs_aligned(const TensorView& view, int64_t columns) {
  const int64_t pitch = view.strides[0] * int64_t(dtype_bytes(view.dtype));
  return columns % kPack == 0 && pitch % 16 == 0 && reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
}

// A vector's floats, be it a weight or a constant of a graph.
inline const float* vector_of(const Arg& arg) {
  return arg.weight.data != nullptr ? reinterpret_cast<const float*>(arg.weight.data) : arg.tensor.as<float>();
}

template <class Function>
void dispatch_bool(bool value, Function&& function) {
  if (value) {
    function.template operator()<true>();
  } else {
    function.template operator()<false>();
  }
}
inline bool f32_or_bf16(const ValueType& type) { return type.dtype == DType::f32 || type.dtype == DType::bf16; }

// The pack at `from`, whose first `left` columns exist; the others become zeros.
template <bool kAligned, class T>
__device__ void load_pack(const T* from, int left, float (&values)[kPack]) {
  if constexpr (!kAligned) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) values[i] = i < left ? to_float(from[i]) : 0.0f;
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 four = reinterpret_cast<const float4*>(from)[half];
      values[4 * half] = four.x, values[4 * half + 1] = four.y, values[4 * half + 2] = four.z, values[4 * half + 3] = four.w;
    }
  } else {
    const uint4 eight = *reinterpret_cast<const uint4*>(from);
    const uint32_t words[] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = __uint_as_float(words[i] << 16);
      values[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
    }
  }
}

template <bool kAligned, class T>
__device__ void store_pack(const float (&values)[kPack], T* to, int left) {
  if constexpr (!kAligned) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (i < left) to[i] = from_float<T>(values[i]);
    }
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      reinterpret_cast<float4*>(to)[half] =
          make_float4(values[4 * half], values[4 * half + 1], values[4 * half + 2], values[4 * half + 3]);
    }
  } else {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
      words[i] = *reinterpret_cast<const uint32_t*>(&two);
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// ---- a row held by threadIdx.x of a block ----------------------------------------------------------------------

// Threads along x for rows of `columns`: one pack each while that fits, whole warps. A function of the columns alone, since the tree in
// which the row is summed follows from it.
inline int row_threads(int64_t columns) {
  const int64_t packs = (columns + kPack - 1) / kPack;
  const int64_t wanted = packs <= 512 ? packs : (packs + 1) / 2;
  return int(wanted >= kMaxThreads ? kMaxThreads : (wanted + 31) / 32 * 32);
}
inline constexpr int kKeptPacks = 2;  // so a thread holds all of its row in registers up to 16384 columns

// The sum of `value` over threadIdx.x, in a fixed tree, for every thread. Blocks with several rows (threadIdx.y) have one warp a row.
// `partial` is [32] in shared memory; calls after one another take different ones, or a barrier between them.
__device__ inline float row_sum(float value, float* partial) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  if (blockDim.x == 32) return value;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = lane < warps ? partial[lane] : 0.0f;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  return value;
}

}  // namespace headrace::cuda
