#pragma once
// The kernels of the plug-in, one function a file.

#include "ops/open_plugin.h"

namespace headrace::onednn {

// Above every kernel of kernels/cpu, which serve what supports() refuses.
inline constexpr int kPriority = 100;

PluginKernel conv_kernel();
PluginKernel conv_transpose_kernel();
PluginKernel gemm_kernel();
PluginKernel conv_q8_kernel();
PluginKernel gemm_q8_kernel();

}  // namespace headrace::onednn
