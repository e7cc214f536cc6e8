#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
KernelRows layer_norm_rows();
}
