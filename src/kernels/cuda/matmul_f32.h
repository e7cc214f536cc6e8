#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
// matmul for any number of tokens, any strides and any columns.
void f32_matmul(const StepContext& step, const NodeArgs& args);
}  // namespace headrace::cuda
