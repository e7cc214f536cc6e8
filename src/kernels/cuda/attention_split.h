#pragma once
// Paged attention for sequences with few query rows (decode), of bfloat16 queries and pools, head_dim 64, 128 or 256.
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {

// `every`: also sequences with many rows, so that no other kernel is needed. Its rows' bits then depend on their own keys alone.
void launch_attention_split(const StepContext& step, const NodeArgs& args, bool every);
size_t attention_split_scratch(const NodeSizes& sizes, int team_size);

}  // namespace headrace::cuda
