#pragma once
// The step program of a checkpoint as a device runs it (an embedder's `embed` program): the family's graph, rewritten by the
// passes, with a kernel for every node. Made from configuration and tensor shapes alone: no weight is read. What LocalRunner runs and `headrace inspect
// --plan` shows.

#include <memory>
#include <string>
#include <vector>

#include "graph/passes.h"
#include "io/model_source.h"
#include "models/model.h"
#include "runtime/program.h"

namespace headrace::runtime {

struct StepProgramOptions {
  DtypePolicy policy;
  std::vector<std::string> skip_passes;
  Isa isa = detect_isa();
  DeviceKind device = DeviceKind::cpu;
  bool row_invariant = true;  // only kernels whose rows do not depend on each other
  int threads = 1;
  int32_t max_context = 0;  // 0: what the model was trained for, at most 8192
  int32_t max_seqs = 16;
  int32_t max_tokens = 512;
  int32_t max_logit_rows = 0;  // 0: max_seqs + 32, so that a prompt's log-probabilities come 32 rows a step
};

struct StepProgram {
  models::ModelInfo info;
  models::StepLimits limits;
  int32_t max_context = 0;
  std::vector<PassReport> passes;
  std::unique_ptr<Program> program;
  SymbolId tokens = 0, seqs = 0, rows = 0, blocks = 0, biases = 0, history = 0;  // T, S, R, B, E, H

  // The bucket that a step of `tokens` runs in.
  Bindings bucket(int64_t tokens) const;

  // Errors: those of the family, the passes and kernel selection; invalid_argument for a context beyond the model's.
  static Result<StepProgram> build(const io::ModelSource& source, const StepProgramOptions& options);
};

}  // namespace headrace::runtime
