#pragma once
// What `headrace tune` does once its card is open.

#include <cstdint>
#include <string>

#include "cli/model_options.h"
#include "runtime/accelerator.h"

namespace headrace::cli {

struct TuneOptions {
  ModelOptions model;  // the path is resolved
  int64_t max_tokens = 8192;
  std::string out;     // the plan's file
};

// Tunes every product of the model and writes the plan. Returns the table that a person reads. Errors: those of the source, of
// StepProgram::build and of the accelerator; cancelled after Ctrl-C. None changes the file.
Result<std::string> tune_model(const runtime::Accelerator& accelerator, const TuneOptions& options);

}  // namespace headrace::cli
