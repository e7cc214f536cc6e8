#pragma once
// The page of `headrace inspect --plan`: the step program of a model as it would run, without reading its weights.

#include <string>

#include "cli/model_options.h"

namespace headrace::cli {

struct PlanPage {
  std::string text;
  std::string json;  // an object
};

// `tokens`: how many tokens the step has whose bucket is planned. Errors: those of ModelSource::open and StepProgram::build.
Result<PlanPage> make_plan_page(const ModelOptions& options, int64_t tokens);

}  // namespace headrace::cli
