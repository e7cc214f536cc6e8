// The one exported symbol of libheadrace_onednn.so: the list of kernels, and oneDNN's threads for Headrace's own work.
#include <omp.h>

#include <atomic>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/onednn/kernels.h"
#include "ops/library_plugin.h"

namespace headrace::onednn {
namespace {

bool run_team(int size, void (*work)(void* context, int rank), void* context) {
  std::atomic<bool> ran{false};
#pragma omp parallel num_threads(size)
  {
    // All or none: a smaller team would wait at its first barrier for ever.
    if (omp_get_num_threads() == size) {
      work(context, omp_get_thread_num());
      if (omp_get_thread_num() == 0) ran = true;
    }
  }
  return ran;
}

}  // namespace
}  // namespace headrace::onednn

extern "C" __attribute__((visibility("default"))) const headrace::LibraryPlugin* headrace_library_plugin() {
  using namespace headrace;
  using namespace headrace::onednn;
  static const PluginKernel kernels[] = {conv_kernel(), conv_transpose_kernel(), gemm_kernel(), conv_q8_kernel(), gemm_q8_kernel()};
  static const std::string name = [] {
    const dnnl_version_t* version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." + std::to_string(version->patch);
  }();
  static const LibraryPlugin plugin{kLibraryPluginAbi, name.c_str(), kernels, static_cast<int>(std::size(kernels)), run_team};
  omp_set_dynamic(0);
  return &plugin;
}
