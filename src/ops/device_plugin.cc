// Opens libheadrace_cuda.so. The driver is looked for first: without it the plug-in is not touched.
#include "ops/device_plugin.h"

#include <dlfcn.h>

#include <mutex>
#include <string>

namespace headrace {
namespace {

Result<const DevicePlugin*> load(const std::string& wanted) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return error(Code::unavailable, "--device cuda: no NVIDIA driver on this machine ({}); use --device cpu", dlerror());
  }
  std::string place;
  const Result<void*> entry = open_plugin("libheadrace_cuda.so", wanted, "headrace_device_plugin", place);
  if (!entry && entry.error().code() != Code::unavailable) return tl::unexpected(entry.error());
  if (!entry) {
    return error(Code::unavailable, "--device cuda: this build has no CUDA plug-in ({}); build it with `cmake --preset cuda`",
                 entry.error().message());
  }
  const DevicePlugin* plugin = reinterpret_cast<headrace_device_plugin_fn>(*entry)();
  if (plugin->abi == kDevicePluginAbi && plugin->device_count() < 1) {
    return error(Code::unavailable, "--device cuda: no device ({}); use --device cpu", plugin->last_error());
  }
  HR_RETURN_IF_ERROR(register_plugin_kernels(place, plugin->abi, kDevicePluginAbi, plugin->kernels, plugin->num_kernels));
  return plugin;
}

}  // namespace

Result<const DevicePlugin*> load_cuda_plugin(const char* path) {
  static std::mutex mutex;
  static const DevicePlugin* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  HR_ASSIGN_OR_RETURN(loaded, load(path));
  return loaded;
}

}  // namespace headrace
