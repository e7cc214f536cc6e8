#pragma once
// What every CUDA kernel source of the plug-in shares. Launches read their sizes from the arguments' views, never allocate and
// never wait. Errors are sticky: the plug-in's synchronize() reports them, once a step.

#include <cuda_runtime.h>

#include "ops/device_plugin.h"

namespace headrace::cuda {

inline cudaStream_t stream_of(const StepContext& step) { return static_cast<cudaStream_t>(step.stream); }

// Rows of a [T, C] view whose columns are adjacent.
struct Rows {
  const float* data;
  int64_t stride;
};
inline Rows rows_of(const TensorView& view) { return {view.as<float>(), view.strides[0]}; }

// Every list of kernels, one a source; plugin.cc joins them.
struct KernelRows {
  const PluginKernel* rows;
  int count;
};

}  // namespace headrace::cuda
