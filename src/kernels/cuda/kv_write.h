#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {
KernelRows kv_write_rows();
}
