// Opens libheadrace_cuda.so. The driver is looked for first: without it the plug-in is not touched.
#include "ops/device_plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <vector>

#include "ops/op_table.h"

namespace headrace {
namespace {

constexpr const char* kFileName = "libheadrace_cuda.so";

std::string program_folder() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return ".";
  const std::string text(path, size_t(length));
  return text.substr(0, text.rfind('/'));
}

Result<const DevicePlugin*> load(const std::string& wanted) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return error(Code::unavailable, "--device cuda: no NVIDIA driver on this machine ({}); use --device cpu", dlerror());
  }
  std::vector<std::string> places{wanted};
  if (wanted.empty()) places = {program_folder() + "/" + kFileName, program_folder() + "/../lib/" + kFileName};
  std::string tried;
  for (const std::string& place : places) {
    void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", dlerror());
      continue;
    }
    const auto entry = reinterpret_cast<headrace_device_plugin_fn>(dlsym(handle, "headrace_device_plugin"));
    if (entry == nullptr) return error(Code::internal, "{}: not a Headrace plug-in", place);
    const DevicePlugin* plugin = entry();
    if (plugin->abi != kDevicePluginAbi) {
      return error(Code::internal, "{}: built for interface {}, this program has {}", place, plugin->abi, kDevicePluginAbi);
    }
    if (plugin->device_count() < 1) {
      return error(Code::unavailable, "--device cuda: no device ({}); use --device cpu", plugin->last_error());
    }
    static std::vector<Kernel> kernels;  // lives until the process ends
    for (int i = 0; i < plugin->num_kernels; ++i) {
      kernels.push_back(plugin->kernels[i].kernel);
      kernels.back().op = find_op(plugin->kernels[i].op);
      if (kernels.back().op == nullptr) return error(Code::internal, "{}: no op is called {}", place, plugin->kernels[i].op);
    }
    register_kernels(kernels);
    return plugin;
  }
  return error(Code::unavailable, "--device cuda: this build has no CUDA plug-in ({}); build it with `cmake --preset cuda`",
               tried);
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
