#pragma once
// The binary interface between Headrace and a device plug-in (libheadrace_cuda.so): plain data and C functions. The plug-in
// exports one symbol, headrace_device_plugin; it is linked with no undefined symbols, so a missing kernel is a link error, and
// it is loaded only where its driver is there, so that the main binary starts on any machine. No exception and no ownership
// of C++ objects crosses.

#include <cstddef>
#include <cstdint>

#include "ops/open_plugin.h"

namespace headrace {

inline constexpr uint32_t kDevicePluginAbi = 4;

struct DeviceFacts {
  char name[256];          // "NVIDIA H200"
  int32_t processors;      // streaming multiprocessors
  uint64_t cache_bytes;    // L2
  uint64_t memory_bytes;   // all of it
  int32_t driver_version;  // as cudaDriverGetVersion gives it: 13000
};

// y[m, n] = x[m, k] · w[n, k]ᵀ in bf16 with f32 sums; multiply and add count apart.
struct DeviceMatmulRate {
  int64_t m, n, k;
  double flop_per_s;
};

// What a device can do at most: medians, on random data.
struct DeviceRoof {
  double read_bytes_per_s, copy_bytes_per_s;  // of memory; copied bytes count once read and once written
  double graph_overlapped_s;  // an empty kernel of a captured graph, allowed to start before its predecessor has ended
  double graph_kernel_s;      // the same, one after the other
  double launch_s;            // the same, launched from the host without a graph
  int num_matmuls;            // 0: the library of products is missing or failed; why stands in matmul_error
  DeviceMatmulRate matmuls[8];
  char matmul_error[160];
};

// A product of the library's: y[tokens, n] = x[tokens, k] · w[n, k]ᵀ (+ bias[n]); x and w of `dtype`. Both dtypes are f32 or bf16.
struct DeviceMatmul {
  DType dtype, out;
  bool bias;
  int64_t n, k, tokens;
};
struct DeviceTuning {
  double us;              // of the fastest algorithm, its weights read from memory
  double first_guess_us;  // of the one that the library would have taken; 0: that one does not run
};

// Streams, events and graphs are the plug-in's own, passed back as it gave them. Functions return false after an error; last_error()
// then says what happened (the plug-in's storage, this thread). A stream belongs to the device that it was made for.
struct DevicePlugin {
  uint32_t abi;
  DeviceKind kind;
  const char* name;  // "cuda 13.0, sm_90a"
  const PluginKernel* kernels;
  int num_kernels;
  int (*device_count)();
  bool (*allocate)(int device, size_t bytes, void** memory);
  void (*release)(int device, void* memory);
  // Host memory that the device reads and writes in place: slow, but a test needs no copies.
  bool (*allocate_shared)(size_t bytes, void** memory);
  void (*release_shared)(void* memory);
  bool (*make_stream)(int device, void** stream);
  void (*drop_stream)(int device, void* stream);
  bool (*copy_to_device)(void* to, const void* from, size_t bytes, void* stream);
  bool (*copy_to_host)(void* to, const void* from, size_t bytes, void* stream);
  bool (*synchronize)(void* stream);  // also reports errors of the launches before it
  const char* (*last_error)();
  bool (*facts)(int device, DeviceFacts* facts);
  bool (*free_memory)(int device, uint64_t* bytes);
  // Memory starts as zeros.
  bool (*clear)(void* memory, size_t bytes, void* stream);
  // `rows` rows of `width` bytes, each so many bytes behind the last, from device to device.
  bool (*copy_on_device)(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows, void* stream);
  bool (*make_event)(int device, void** event);
  void (*drop_event)(void* event);
  bool (*record_event)(void* event, void* stream);
  bool (*wait_event)(void* event);                      // by the calling thread; also reports errors of what came before it
  bool (*stream_wait_event)(void* stream, void* event);
  bool (*elapsed_ms)(void* from, void* to, float* ms);  // between two that were recorded and have happened
  // What is launched on the stream between the two calls is recorded instead of run. Launches read their arguments now, memory later.
  bool (*begin_capture)(void* stream);
  bool (*end_capture)(void* stream, void** graph);
  bool (*launch_graph)(void* graph, void* stream);
  void (*drop_graph)(void* graph);
  bool (*roof)(int device, DeviceRoof* roof);  // takes seconds and 5 GiB of memory
  // The plan of a device: which of the library's algorithms multiplies what, a text file. Loading replaces it, and fails for a file that is
  // no plan, or that of another card or version of the library. Tuning measures one product and puts its fastest algorithm into the plan.
  bool (*load_matmul_plan)(int device, const char* path);
  bool (*save_matmul_plan)(int device, const char* path);
  bool (*tune_matmul)(int device, const DeviceMatmul* product, DeviceTuning* tuning);
};

// Loads the plug-in and registers its kernels, once per process. `path` empty: beside the program, then ../lib. Errors:
// unavailable when there is no driver, no plug-in or no device (the message says which and what to do), internal when the
// plug-in was built for another version.
Result<const DevicePlugin*> load_cuda_plugin(const char* path = "");

}  // namespace headrace

extern "C" {
using headrace_device_plugin_fn = const headrace::DevicePlugin* (*)();
}
