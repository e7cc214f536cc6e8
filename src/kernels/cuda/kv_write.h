#pragma once
#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {

KernelRows kv_write_rows();

// Copies block `from` to block `to` in each of `count` layers of one group, behind what the stream already holds. The layers'
// specs are equal. Errors are sticky: the plug-in's synchronize() reports them.
void copy_kv_block(const KvView* layers, int count, int32_t from, int32_t to, void* stream);

}  // namespace headrace::cuda
