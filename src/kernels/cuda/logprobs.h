#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
KernelRows logprobs_rows();
}
