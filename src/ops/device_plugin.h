#pragma once
// The binary interface between Headrace and a device plug-in (libheadrace_cuda.so): plain data and C functions. The plug-in
// exports one symbol, headrace_device_plugin; it is linked with no undefined symbols, so a missing kernel is a link error, and
// it is loaded only where its driver is there, so that the main binary starts on any machine. No exception and no ownership
// of C++ objects crosses.

#include <cstddef>
#include <cstdint>

#include "ops/open_plugin.h"

namespace headrace {

inline constexpr uint32_t kDevicePluginAbi = 1;

// y[m, n] = x[m, k] · w[n, k]ᵀ in bf16 with f32 sums; multiply and add count apart. 0 operations a second: the library has no kernel.
struct DeviceMatmulRate {
  int64_t m, n, k;
  double flop_per_s;
};

// What a device can do at most: medians, on random data.
struct DeviceRoof {
  char card[256];
  int driver_cuda, runtime_cuda;  // 13000 is CUDA 13.0: what the driver speaks, and what the plug-in was built with
  int num_sms;
  uint64_t l2_bytes, memory_bytes;
  double read_bytes_per_s, copy_bytes_per_s;  // of memory; copied bytes count once read and once written
  double graph_overlapped_s;  // an empty kernel of a captured graph, allowed to start before its predecessor has ended
  double graph_kernel_s;      // the same, one after the other
  double launch_s;            // the same, launched from the host without a graph
  int num_matmuls;            // 0: no library of products; why stands in matmul_error
  DeviceMatmulRate matmuls[8];
  char matmul_error[160];
};

// Functions return false after an error; last_error() then says what happened (the plug-in's storage, this thread).
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
  bool (*roof)(int device, DeviceRoof* out);  // takes seconds
};

// Loads the plug-in and registers its kernels, once per process. `path` empty: beside the program, then ../lib. Errors:
// unavailable when there is no driver, no plug-in or no device (the message says which and what to do), internal when the
// plug-in was built for another version.
Result<const DevicePlugin*> load_cuda_plugin(const char* path = "");

}  // namespace headrace

extern "C" {
using headrace_device_plugin_fn = const headrace::DevicePlugin* (*)();
}
