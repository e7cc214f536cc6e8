#include "ops/open_plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include "ops/op_table.h"

namespace headrace {

std::string program_folder() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return ".";
  const std::string text(path, size_t(length));
  return text.substr(0, text.rfind('/'));
}

Result<void*> open_plugin(const std::string& file_name, const std::string& path, const char* entry, std::string& place) {
  std::vector<std::string> places{path};
  if (path.empty()) places = {program_folder() + "/" + file_name, program_folder() + "/../lib/" + file_name};
  std::string tried;
  for (const std::string& one : places) {
    void* handle = dlopen(one.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", dlerror());
      continue;
    }
    place = one;
    void* found = dlsym(handle, entry);
    if (found == nullptr) return error(Code::internal, "{}: not a Headrace plug-in", one);
    return found;
  }
  return error(Code::unavailable, "{}", tried);
}

Status register_plugin_kernels(const std::string& place, uint32_t abi, uint32_t want_abi, const PluginKernel* kernels, int count) {
  if (abi != want_abi) {
    return make_status(Code::internal, "{}: built for interface {}, this program has {}", place, abi, want_abi);
  }
  auto* registered = new std::vector<Kernel>;  // lives until the process ends
  for (int i = 0; i < count; ++i) {
    registered->push_back(kernels[i].kernel);
    registered->back().of_library = kernels[i].kernel.device == DeviceKind::cpu;  // the CPU's own kernels come with the program
    registered->back().op = find_op(kernels[i].op);
    if (registered->back().op == nullptr) return make_status(Code::internal, "{}: no op is called {}", place, kernels[i].op);
  }
  register_kernels(*registered);
  return {};
}

}  // namespace headrace
