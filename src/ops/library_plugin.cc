#include "ops/library_plugin.h"

#include <mutex>
#include <optional>

namespace headrace {
namespace {

Result<const LibraryPlugin*> load(const char* path) {
  std::string place;
  const Result<void*> entry = open_plugin("libheadrace_onednn.so", path, "headrace_library_plugin", place);
  if (!entry) return tl::unexpected(entry.error().with_context("no oneDNN plug-in"));
  const LibraryPlugin* plugin = reinterpret_cast<headrace_library_plugin_fn>(*entry)();
  HR_RETURN_IF_ERROR(register_plugin_kernels(place, plugin->abi, kLibraryPluginAbi, plugin->kernels, plugin->num_kernels));
  return plugin;
}

}  // namespace

Result<const LibraryPlugin*> load_onednn_plugin(const char* path) {
  static std::mutex mutex;
  static std::optional<Result<const LibraryPlugin*>> loaded;
  const std::lock_guard lock(mutex);
  if (!loaded) loaded = load(path);
  return *loaded;
}

}  // namespace headrace
