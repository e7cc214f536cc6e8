#pragma once
// The arguments that every command which runs a model shares, and the opening of that model with a progress bar.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "engine/serving_model.h"

namespace headrace::cli {

struct ModelOptions {
  std::string path;  // MODEL as it was written: a path, a name of the catalogue or of a hub; see resolve_model()
  engine::ServingOptions serving;

  // Declares MODEL.
  void declare_model(Options& options);
  // Declares the options of the engine under a heading of their own; --kv-dtype and rows of config.def whose flag stands in
  // `without` make no sense for the command and are left out.
  void declare_engine(Options& options, const std::vector<std::string_view>& without = {});
};

void declare_log_level(Options& options);
void declare_weights(Options& options, std::optional<Format>& target, std::string_view help);

// Errors: those of ServingModel::open, and resolve_model().
Result<std::unique_ptr<engine::ServingModel>> open_model(const ModelOptions& options);

// The highest resident memory of this process so far, in bytes; 0 where the system does not say.
uint64_t peak_rss_bytes();

}  // namespace headrace::cli
