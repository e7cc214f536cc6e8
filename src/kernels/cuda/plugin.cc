// The one exported symbol of libheadrace_cuda.so: devices, memory, streams and the list of kernels.
#include <cuda_runtime.h>

#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/kv_write.h"
#include "kernels/cuda/rms_norm.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rows.h"

namespace headrace::cuda {
namespace {

thread_local cudaError_t t_last_error = cudaSuccess;

bool ok(cudaError_t code) {
  if (code != cudaSuccess) t_last_error = code;
  return code == cudaSuccess;
}

int device_count() {
  int count = 0;
  return ok(cudaGetDeviceCount(&count)) ? count : 0;
}

bool allocate(int device, size_t bytes, void** memory) {
  return ok(cudaSetDevice(device)) && ok(cudaMalloc(memory, bytes));
}

void release(int device, void* memory) {
  if (ok(cudaSetDevice(device))) ok(cudaFree(memory));
}

bool allocate_shared(size_t bytes, void** memory) { return ok(cudaHostAlloc(memory, bytes, cudaHostAllocPortable)); }

void release_shared(void* memory) { ok(cudaFreeHost(memory)); }

bool make_stream(int device, void** stream) {
  return ok(cudaSetDevice(device)) &&
         ok(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking));
}

void drop_stream(int device, void* stream) {
  if (ok(cudaSetDevice(device))) ok(cudaStreamDestroy(static_cast<cudaStream_t>(stream)));
}

bool copy_to_device(void* to, const void* from, size_t bytes, void* stream) {
  return ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream)));
}

bool copy_to_host(void* to, const void* from, size_t bytes, void* stream) {
  return ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(stream)));
}

bool synchronize(void* stream) {
  return ok(cudaStreamSynchronize(static_cast<cudaStream_t>(stream))) && ok(cudaGetLastError());
}

const char* last_error() { return cudaGetErrorString(t_last_error); }

const std::vector<PluginKernel>& all_kernels() {
  static const std::vector<PluginKernel> kernels = [] {
    std::vector<PluginKernel> joined;
    for (const KernelRows& list : {rms_norm_rows(), elementwise_rows(), rows_rows(), rope_rows(), kv_write_rows(), attention_rows()}) {
      joined.insert(joined.end(), list.rows, list.rows + list.count);
    }
    return joined;
  }();
  return kernels;
}

}  // namespace
}  // namespace headrace::cuda

extern "C" __attribute__((visibility("default"))) const headrace::DevicePlugin* headrace_device_plugin() {
  using namespace headrace::cuda;
  static const headrace::DevicePlugin plugin{headrace::kDevicePluginAbi,
                                             headrace::DeviceKind::cuda,
                                             "cuda 13, sm_90a",
                                             all_kernels().data(),
                                             int(all_kernels().size()),
                                             device_count,
                                             allocate,
                                             release,
                                             allocate_shared,
                                             release_shared,
                                             make_stream,
                                             drop_stream,
                                             copy_to_device,
                                             copy_to_host,
                                             synchronize,
                                             last_error};
  return &plugin;
}
