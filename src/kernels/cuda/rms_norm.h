#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
KernelRows rms_norm_rows();
}
