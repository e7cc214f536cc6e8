// `headrace roof --device cuda`: the plug-in measures, this prints.
#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/roof_json.h"
#include "cli/terminal.h"
#include "ops/device_plugin.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

// "580.159.04" out of the module's own words, "" where there are none.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word[0] >= '0' && word[0] <= '9' && word.find('.') != std::string::npos) return word;
  }
  return "";
}

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

void print_json(const DeviceFacts& facts, const DeviceRoof& roof, const char* plugin) {
  Json out = {{"card", std::string(facts.name)},
              {"driver", driver_version()},
              {"driver_cuda", cuda_version(facts.driver_version)},
              {"plugin", plugin},
              {"sms", facts.processors},
              {"l2_bytes", facts.cache_bytes},
              {"memory_bytes", facts.memory_bytes},
              {"read_gb_per_s", roof.read_bytes_per_s * 1e-9},
              {"copy_gb_per_s", roof.copy_bytes_per_s * 1e-9},
              {"graph_overlapped_kernel_us", roof.graph_overlapped_s * 1e6},
              {"graph_kernel_us", roof.graph_kernel_s * 1e6},
              {"launch_us", roof.launch_s * 1e6},
              {"matmul", Json::array()}};
  for (int i = 0; i < roof.num_matmuls; ++i) {
    const DeviceMatmulRate& rate = roof.matmuls[i];
    out["matmul"].push_back({{"m", rate.m}, {"n", rate.n}, {"k", rate.k}, {"bf16_tflop_per_s", rate.flop_per_s * 1e-12}});
  }
  if (roof.num_matmuls == 0) out["matmul_error"] = std::string(roof.matmul_error);
  fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_text(const DeviceFacts& facts, const DeviceRoof& roof, const char* plugin) {
  fmt::print("{}\n  driver {} (CUDA {}), plug-in for {}\n  {} multiprocessors, L2 {} MiB, memory {:.1f} GiB\n\n",
             printable(facts.name), printable(driver_version()), cuda_version(facts.driver_version), plugin, facts.processors,
             facts.cache_bytes >> 20, static_cast<double>(facts.memory_bytes) / (1 << 30));
  fmt::print("Memory, GB/s\n  read  {:>9.1f}\n  copy  {:>9.1f}\n\n", roof.read_bytes_per_s * 1e-9, roof.copy_bytes_per_s * 1e-9);
  fmt::print("An empty kernel, us\n  {:.2f} in a captured graph, overlapped; {:.2f} one after the other; {:.2f} launched from the host\n\n",
             roof.graph_overlapped_s * 1e6, roof.graph_kernel_s * 1e6, roof.launch_s * 1e6);
  if (roof.num_matmuls == 0) {
    fmt::print("bf16 products: not measured: {}\n", printable(roof.matmul_error));
    return;
  }
  fmt::print("bf16 products, TFLOP/s\n  {:>6}  {:>6}  {:>6}\n", "m", "n", "k");
  for (int i = 0; i < roof.num_matmuls; ++i) {
    const DeviceMatmulRate& rate = roof.matmuls[i];
    fmt::print("  {:>6}  {:>6}  {:>6}  {:>8.1f}\n", rate.m, rate.n, rate.k, rate.flop_per_s * 1e-12);
  }
}

}  // namespace

Status cuda_roof(bool json) {
  HR_ASSIGN_OR_RETURN(const DevicePlugin* plugin, load_cuda_plugin());
  DeviceFacts facts{};
  DeviceRoof roof{};
  if (!plugin->facts(0, &facts) || !plugin->roof(0, &roof)) {
    return make_status(Code::internal, "--device cuda: {}", plugin->last_error());
  }
  json ? print_json(facts, roof, plugin->name) : print_text(facts, roof, plugin->name);
  return {};
}

}  // namespace headrace::cli
