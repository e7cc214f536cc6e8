#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
inline constexpr int kMaxStreamTokens = 16;

// Whether stream_matmul takes these operands of matmul_bf16: few tokens, whole chunks of columns, rows aligned to 16 bytes.
bool streams(const NodeArgs& args);
void stream_matmul(const StepContext& step, const NodeArgs& args);
}  // namespace headrace::cuda
