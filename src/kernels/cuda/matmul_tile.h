#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
// matmul_bf16 for any number of tokens and any strides.
void tile_matmul(const StepContext& step, const NodeArgs& args);
}  // namespace headrace::cuda
