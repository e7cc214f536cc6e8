#pragma once
// Of inputs and outputs f32 or bf16, of one type; head_dim up to 1024, up to kMaxSinks heads where there are sinks.
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
void run_attention_generic(const StepContext& step, const NodeArgs& args, Team& team);
void run_attention_ragged(const StepContext& step, const NodeArgs& args, Team& team);
}  // namespace headrace::cuda
