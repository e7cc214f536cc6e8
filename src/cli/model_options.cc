#include "cli/model_options.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "cli/resolve_model.h"
#include "cli/terminal.h"
#include "io/requantized_source.h"

namespace headrace::cli {
namespace {

Status set_log_level_by_name(std::string_view name) {
  constexpr std::pair<std::string_view, LogLevel> kLevels[] = {{"debug", LogLevel::debug},
                                                               {"info", LogLevel::info},
                                                               {"warning", LogLevel::warning},
                                                               {"error", LogLevel::error},
                                                               {"off", LogLevel::off}};
  for (const auto& [known, level] : kLevels) {
    if (known != name) continue;
    set_log_level(level);
    return {};
  }
  return make_status(Code::invalid_argument, "want debug, info, warning, error or off, got \"{}\"", printable(name));
}

}  // namespace

void declare_log_level(Options& options) {
  options.custom("--log-level", "LEVEL", "debug, info, warning, error or off (warning)", set_log_level_by_name);
}

void declare_weights(Options& options, std::optional<Format>& target, std::string_view help) {
  options.custom("--weights", io::weight_formats("|"), help, [&target](std::string_view name) -> Status {
    HR_ASSIGN_OR_RETURN(target, io::parse_weight_format(name));
    return {};
  });
}

void ModelOptions::declare_model(Options& options) {
  options.positional(path, "MODEL", kModelHelp);
}

void ModelOptions::declare_engine(Options& options, const std::vector<std::string_view>& without) {
  options.heading("Engine");
  options.flag(serving.exact, "--exact", "Compute with float32 activations: slower, and the reference for the rest");
  if (std::find(without.begin(), without.end(), "--kv-dtype") == without.end()) {
    options.custom("--kv-dtype", "f16|bf16|f32|i8",
                   "What the KV cache holds; i8 has a scale per token and head and takes about half of f16's memory "
                   "(f16; f32 with --exact)",
                   [this](std::string_view name) -> Status {
                     HR_ASSIGN_OR_RETURN(serving.kv_dtype, engine::parse_kv_dtype(name));
                     return {};
                   });
  }
  options.custom("--device", "cpu|cuda|cuda:N", "Where the model runs; cuda: bf16 weights and activations on the first GPU (cpu)",
                 [this](std::string_view name) -> Status {
                   HR_ASSIGN_OR_RETURN(serving.device, parse_device(name));
                   return {};
                 });
  options.flag(serving.deterministic, "--deterministic",
               "With --device cuda: only kernels that compute each row by itself, so that answers do not depend on what else runs "
               "(slower; the CPU's all do)");
  options.custom("--isa", "generic|avx2|avx512", "Instruction set of the CPU kernels (the best this machine has)",
                 [this](std::string_view name) -> Status {
                   HR_ASSIGN_OR_RETURN(serving.isa, parse_isa(name));
                   return {};
                 });
  declare_weights(options, serving.weights,
                  "Round the weights to this format while they load; with q4_0 and q4_1 the embedding and the head become q8_0 "
                  "(as stored)");
  for (const engine::OptionRow& row : engine::engine_options()) {
    if (std::find(without.begin(), without.end(), row.flag) != without.end()) continue;
    options.integer(serving.config.*row.member, row.flag, "N", fmt::format("{} ({})", row.help, row.default_value),
                    row.min, row.max);
  }
  options.custom("--memory", "SIZE", "One budget for weights, work space and KV cache, such as 2GiB (no limit)",
                 [this](std::string_view size) -> Status {
                   HR_ASSIGN_OR_RETURN(serving.config.memory_bytes, engine::parse_bytes(size));
                   return {};
                 });
  options.texts(serving.skip_passes, "--skip-pass", "NAME", "Leave out a pass of the graph; `all` leaves out every one");
  declare_log_level(options);
}

Result<std::unique_ptr<engine::ServingModel>> open_model(const ModelOptions& options) {
  HR_ASSIGN_OR_RETURN(const std::string path, resolve_model(options.path));
  ProgressBar bar("loading");
  engine::ServingOptions serving = options.serving;
  if (serving.name.empty() && path != options.path) serving.name = options.path;  // a name of the catalogue or of a hub
  serving.progress = [&bar](double fraction, std::string_view what) { bar.update(fraction, what); };
  return engine::ServingModel::open(path, serving);
}

uint64_t peak_rss_bytes() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmHWM: %llu kB", &kib) == 1) break;
  }
  std::fclose(file);
  return kib * 1024;
}

}  // namespace headrace::cli
