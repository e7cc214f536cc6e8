#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
KernelRows sample_rows();
}
