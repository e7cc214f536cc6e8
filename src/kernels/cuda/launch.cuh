#pragma once
// What every CUDA kernel source of the plug-in shares. Launches read their sizes from the arguments' views, never allocate and
// never wait, and launch dimensions follow from the views' dims and the attributes alone, so that a step can be captured as a graph.
// Errors are sticky: the plug-in's synchronize() reports them, once a step.
//
// Kernels of a step overlap at their ends (programmatic dependent launch): launch() lets a kernel start while the one before it still
// runs. So every kernel calls begin_step_kernel() before it reads what an earlier kernel wrote, and before it writes anything; what
// comes before that call may touch weights, constants and registers only.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "ops/device_plugin.h"

namespace headrace::cuda {

inline cudaStream_t stream_of(const StepContext& step) { return static_cast<cudaStream_t>(step.stream); }

// Rows of a [T, C] view whose columns are adjacent. `stride` in elements.
template <class T>
struct RowsOf {
  T* data;
  int64_t stride;
  __device__ T* operator[](int64_t row) const { return data + row * stride; }
};
template <class T>
RowsOf<T> rows_of(const TensorView& view) {
  return {view.as<T>(), view.strides[0]};
}

// Lets the next kernel start, then waits until all kernels before this one have ended and their writes are seen: each of them has waited so
// itself, so that the next one's wait for this one is a wait for all.
__device__ inline void begin_step_kernel() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

// kernel<<<grid, block, shared_bytes, stream>>>(args...), allowed to start before its predecessor has ended.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, Args&&... args) {
  // All kernels ask for one split of an SM's memory into cache and shared memory: changing it would wait until the SM is empty.
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attributes[1].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

// Floats of either dtype, widened and rounded to nearest even.
__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
template <class T>
__device__ T from_float(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else {
    return __float2bfloat16_rn(value);
  }
}

// Calls function.operator()<T>() for the float type `dtype`, f32 or bf16: supports() keeps others away.
template <class Function>
void dispatch_float(DType dtype, Function&& function) {
  CHECK(dtype == DType::f32 || dtype == DType::bf16);
  if (dtype == DType::f32) {
    function.template operator()<float>();
  } else {
    function.template operator()<__nv_bfloat16>();
  }
}
// Every list of kernels, one a source; plugin.cc joins them.
struct KernelRows {
  const PluginKernel* rows;
  int count;
};

}  // namespace headrace::cuda
