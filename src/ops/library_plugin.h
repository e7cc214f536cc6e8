#pragma once
// libheadrace_onednn.so: CPU kernels that a library computes, with threads of its own. Like a device plug-in it is opened at run time,
// so that a machine or a build without it runs on Headrace's own kernels. No exception crosses.

#include "ops/open_plugin.h"

namespace headrace {

inline constexpr uint32_t kLibraryPluginAbi = 2;

struct LibraryPlugin {
  uint32_t abi;
  const char* name;  // "oneDNN 3.2.0"
  const PluginKernel* kernels;
  int num_kernels;
  // The library's threads and the caller: one set of spinning threads serves both.
  LentThreads run_team;
};

// Opens the plug-in and registers its kernels, once per process: before the first graph is compiled. `path` empty: beside the program,
// then ../lib. Errors (kept: every further call gives the same): unavailable where the file or what it needs is missing, internal where
// it was built for another version. Thread-safe.
Result<const LibraryPlugin*> load_onednn_plugin(const char* path = "");

}  // namespace headrace

extern "C" {
using headrace_library_plugin_fn = const headrace::LibraryPlugin* (*)();
}
