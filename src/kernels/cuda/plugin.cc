// The one exported symbol of libheadrace_cuda.so: devices, memory, streams and the list of kernels.
#include <cuda_runtime.h>

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/kv_write.h"
#include "kernels/cuda/layer_norm.h"
#include "kernels/cuda/logprobs.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/pool.h"
#include "kernels/cuda/rms_norm.h"
#include "kernels/cuda/roof.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rope_kv_write.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sample.h"

namespace headrace::cuda {
namespace {

thread_local cudaError_t t_last_error = cudaSuccess;
thread_local std::string t_library_failure;  // what a library said last; empty: the last error is CUDA's

bool ok(cudaError_t code) {
  if (code == cudaSuccess) return true;
  t_last_error = code;
  t_library_failure.clear();
  return false;
}

bool library_ok(bool done, const std::string& why) {
  if (!done) t_library_failure = why;
  return done;
}

// `waited`: how waiting for launches ended. A library that could not launch is what its step is told.
bool launches_ok(cudaError_t waited) {
  const bool ran = ok(waited) && ok(cudaGetLastError());
  const std::string failure = take_cublaslt_failure();
  return library_ok(failure.empty(), failure) && ran;
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
  if (!ok(cudaSetDevice(device))) return false;
  prepare_cublaslt();
  return ok(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking));
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
  return launches_ok(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

const char* last_error() { return t_library_failure.empty() ? cudaGetErrorString(t_last_error) : t_library_failure.c_str(); }

bool facts(int device, DeviceFacts* facts) {
  cudaDeviceProp properties;
  if (!ok(cudaGetDeviceProperties(&properties, device)) || !ok(cudaDriverGetVersion(&facts->driver_version))) return false;
  std::snprintf(facts->name, sizeof(facts->name), "%s", properties.name);
  facts->processors = properties.multiProcessorCount;
  facts->cache_bytes = uint64_t(properties.l2CacheSize);
  facts->memory_bytes = properties.totalGlobalMem;
  return true;
}

bool free_memory(int device, uint64_t* bytes) {
  size_t free = 0, total = 0;
  if (!ok(cudaSetDevice(device)) || !ok(cudaMemGetInfo(&free, &total))) return false;
  *bytes = free;
  return true;
}

bool clear(void* memory, size_t bytes, void* stream) {
  return ok(cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(stream)));
}

bool copy_on_device(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows, void* stream) {
  return ok(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
}

bool make_event(int device, void** event) {
  return ok(cudaSetDevice(device)) && ok(cudaEventCreate(reinterpret_cast<cudaEvent_t*>(event)));
}
void drop_event(void* event) { ok(cudaEventDestroy(static_cast<cudaEvent_t>(event))); }
bool record_event(void* event, void* stream) {
  return ok(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)));
}
bool wait_event(void* event) { return launches_ok(cudaEventSynchronize(static_cast<cudaEvent_t>(event))); }
bool stream_wait_event(void* stream, void* event) {
  return ok(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event)));
}
bool elapsed_ms(void* from, void* to, float* ms) {
  return ok(cudaEventElapsedTime(ms, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)));
}

bool begin_capture(void* stream) {
  return ok(cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeThreadLocal));
}

bool end_capture(void* stream, void** graph) {
  cudaGraph_t recorded = nullptr;
  if (!ok(cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &recorded))) return false;
  const bool made = ok(cudaGraphInstantiate(reinterpret_cast<cudaGraphExec_t*>(graph), recorded, 0));
  ok(cudaGraphDestroy(recorded));
  return made;
}

bool launch_graph(void* graph, void* stream) {
  return ok(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), static_cast<cudaStream_t>(stream)));
}

void drop_graph(void* graph) { ok(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph))); }

bool roof(int device, DeviceRoof* roof) { return ok(measure_roof(device, *roof)); }

bool load_plan(int device, const char* path) {
  std::string why;
  return ok(cudaSetDevice(device)) && library_ok(load_matmul_plan(path, &why), why);
}

bool save_plan(int device, const char* path) {
  std::string why;
  return ok(cudaSetDevice(device)) && library_ok(save_matmul_plan(path, &why), why);
}

bool tune_product(int device, const DeviceMatmul* product, DeviceTuning* tuning) {
  if (!ok(cudaSetDevice(device))) return false;
  MatmulTuning measured;
  std::string why;
  const bool tuned = tune_matmul({.dtype = product->dtype,
                                  .out = product->out,
                                  .bias = product->bias,
                                  .n = product->n,
                                  .k = product->k,
                                  .tokens = product->tokens},
                                 &measured, &why);
  *tuning = {.us = measured.microseconds, .first_guess_us = measured.first_microseconds};
  return library_ok(tuned, why);
}

const std::vector<PluginKernel>& all_kernels() {
  static const std::vector<PluginKernel> kernels = [] {
    std::vector<PluginKernel> joined;
    for (const KernelRows& list :
         {matmul_rows(), rms_norm_rows(), layer_norm_rows(), elementwise_rows(), rows_rows(), pool_rows(), rope_kv_write_rows(),
          rope_rows(), kv_write_rows(), attention_rows(), sample_rows(), logprobs_rows()}) {
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
                                             last_error,
                                             facts,
                                             free_memory,
                                             clear,
                                             copy_on_device,
                                             make_event,
                                             drop_event,
                                             record_event,
                                             wait_event,
                                             stream_wait_event,
                                             elapsed_ms,
                                             begin_capture,
                                             end_capture,
                                             launch_graph,
                                             drop_graph,
                                             roof,
                                             load_plan,
                                             save_plan,
                                             tune_product};
  return &plugin;
}
