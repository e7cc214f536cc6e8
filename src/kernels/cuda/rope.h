#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
KernelRows rope_rows();
}
