#include "cli/plan.h"

#include <algorithm>

#include "core/device.h"
#include "graph/explain.h"
#include "io/model_source.h"
#include "runtime/step_program.h"

namespace headrace::cli {

Result<PlanPage> make_plan_page(const ModelOptions& options, int64_t tokens) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ModelSource> source, engine::open_source(options.path, options.serving));
  const engine::EngineConfig& config = options.serving.config;
  const bool on_cpu = options.serving.device.kind == DeviceKind::cpu;
  std::shared_ptr<runtime::Accelerator> accelerator;  // its kernels are in the table from then on
  if (!on_cpu) {
    HR_ASSIGN_OR_RETURN(accelerator, runtime::Accelerator::cuda(options.serving.device.index));
  }
  HR_ASSIGN_OR_RETURN(
      const runtime::StepProgram step,
      runtime::StepProgram::build(*source, {.policy = engine::policy_of(options.serving),
                                            .skip_passes = options.serving.skip_passes,
                                            .isa = options.serving.isa,
                                            .device = options.serving.device.kind,
                                            .row_invariant = on_cpu || options.serving.deterministic,
                                            .threads = config.threads > 0 ? static_cast<int>(config.threads) : usable_cpus(),
                                            .max_context = static_cast<int32_t>(config.max_context),
                                            .max_seqs = static_cast<int32_t>(config.max_seqs),
                                            .max_tokens = static_cast<int32_t>(config.max_batched_tokens)}));
  const Bindings bucket = step.bucket(std::min(tokens, step.limits.max_tokens));
  const PlanFacts facts{.passes = step.passes,
                        .kernels = step.program->kernels(),
                        .memory = &step.program->plan_for(bucket),
                        .bucket = bucket};
  return PlanPage{explain_text(step.program->graph(), facts), explain_json(step.program->graph(), facts)};
}

}  // namespace headrace::cli
