#pragma once
// Several adjacent elements moved by one instruction, and the element types that only the KV pool has.

#include <cuda_fp16.h>

#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

template <int kCount, class T>
__device__ Pack<T, kCount> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}
template <int kCount, class T>
__device__ void store_pack(T* to, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

// Whether every row of the view, and every `granule` elements of it, begin at a multiple of `count` elements.
inline bool packs_of(int count, const TensorView& view, int64_t granule) {
  const size_t bytes = count * dtype_bytes(view.dtype);
  return granule % count == 0 && view.strides[0] % count == 0 && reinterpret_cast<uintptr_t>(view.data) % bytes == 0;
}

inline bool is_activation(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(int8_t value) { return float(value); }

}  // namespace headrace::cuda
