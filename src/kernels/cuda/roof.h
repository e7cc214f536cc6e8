#pragma once
// What the device can do at most: DevicePlugin::roof.

#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {

// Takes some seconds and 5 GiB of the device's memory. Fills what DeviceRoof says; without cuBLASLt that is all but the products.
cudaError_t measure_roof(int device, DeviceRoof& out);

}  // namespace headrace::cuda
