#pragma once
// Paged attention for sequences with many query rows (prefill), of bfloat16 queries and pools, head_dim 64, 128 or 256. Sequences
// with few rows are left to the split kernel: their output rows are not written.
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
void launch_attention_flash(const StepContext& step, const NodeArgs& args);
}  // namespace headrace::cuda
