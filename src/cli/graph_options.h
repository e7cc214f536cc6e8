#pragma once
// What the subcommands of `headrace graph` share: the model, how its inputs come, how it is compiled.

#include <map>
#include <string>
#include <vector>

#include "cli/options.h"
#include "onnx/session.h"

namespace headrace::cli {

struct GraphOptions {
  std::string model;
  std::vector<std::string> inputs, dims, skip_passes;
  int64_t seed = -1;  // below 0: not given
  int64_t threads = 0;
  Isa isa = detect_isa();
  bool strict = false, reference = false, no_library = false;

  void declare(Options& options);
  // Errors: those of Session::load.
  Result<onnx::Session> open() const;
  // --dim as numbers by name. Errors: invalid_argument.
  Result<std::map<std::string, int64_t>> parse_dims() const;
  // From files, or drawn. Errors: invalid_argument for an input that neither gives.
  Result<std::map<std::string, onnx::Value>> make_inputs(const onnx::Session& session) const;
};

// The subcommands, each in graph_<name>.cc.
Status graph_run(const std::vector<std::string>& args);
Status graph_bench(const std::vector<std::string>& args);
Status graph_explain(const std::vector<std::string>& args);
Status graph_optimize(const std::vector<std::string>& args);

}  // namespace headrace::cli
