#include "runtime/step_program.h"

#include <algorithm>

#include "core/kv_view.h"

namespace headrace::runtime {
namespace {

constexpr int64_t kDefaultContext = 8192;
constexpr int32_t kPromptRows = 32;  // of a prompt's log-probabilities in one step

// Symbols are looked up by name, so that a family may declare them in any order.
Result<SymbolId> find_symbol(const Graph& graph, std::string_view name) {
  for (int i = 0; i < graph.symbols.size(); ++i) {
    if (graph.symbols.names()[i] == name) return static_cast<SymbolId>(i);
  }
  return error(Code::internal, "step program: no symbol {}", name);
}

Result<int64_t> choose_context(int64_t wanted, int64_t trained) {
  if (wanted == 0) return std::min(trained, kDefaultContext);
  if (wanted <= trained) return wanted;
  return error(Code::invalid_argument, "a context of {} tokens: the model was trained for {}", wanted, trained);
}

}  // namespace

Result<StepProgram> StepProgram::build(const io::ModelSource& source, const StepProgramOptions& options) {
  StepProgram step;
  HR_ASSIGN_OR_RETURN(const std::string model_type, source.config().get_string("model_type"));
  HR_ASSIGN_OR_RETURN(const models::ModelFamily* family, models::find_family(model_type));

  models::BuildContext context{source.config(), models::tensors_of(source), options.policy, {}};
  HR_ASSIGN_OR_RETURN(step.info, family->info(context));
  HR_ASSIGN_OR_RETURN(const int64_t max_context,
                      choose_context(options.max_context, step.info.max_position_embeddings));
  step.max_context = static_cast<int32_t>(max_context);
  const bool embeds = step.info.embedding_size > 0;
  step.limits.max_tokens = std::max(options.max_tokens, options.max_seqs);
  if (embeds) step.limits.max_tokens = std::max(step.limits.max_tokens, max_context);
  step.limits.max_seqs = options.max_seqs;
  step.limits.max_context = max_context;
  step.limits.max_blocks = (max_context + kKvBlockTokens - 1) / kKvBlockTokens;
  step.limits.num_slots = options.max_seqs;
  const int32_t rows = options.max_logit_rows == 0 && !embeds ? options.max_seqs + kPromptRows : options.max_logit_rows;
  step.limits.max_logit_rows = std::max(rows, options.max_seqs);
  context.limits = step.limits;

  HR_ASSIGN_OR_RETURN(Graph graph, embeds ? family->build_embed(context) : family->build_step(context));
  std::vector<std::string> outputs = {"tokens", "logits", "logprobs", "top_ids", "top_logprobs"};
  if (embeds) outputs = {"embeddings"};
  models::keep_outputs(graph, outputs);
  PassOptions pass_options;
  pass_options.skip.insert(options.skip_passes.begin(), options.skip_passes.end());
  pass_options.policy = options.policy;
  pass_options.policy.bf16_products = options.isa == Isa::avx512;
  pass_options.device = options.device;
  HR_ASSIGN_OR_RETURN(step.passes, run_passes(graph, pass_options));
  KernelTarget target;
  target.device = options.device;
  target.isa = options.isa;
  target.row_invariant_only = options.row_invariant;
  HR_ASSIGN_OR_RETURN(step.program, Program::create(std::move(graph), target, options.threads));

  const Graph& built = step.program->graph();
  HR_ASSIGN_OR_RETURN(step.tokens, find_symbol(built, "T"));
  HR_ASSIGN_OR_RETURN(step.seqs, find_symbol(built, "S"));
  HR_ASSIGN_OR_RETURN(step.rows, find_symbol(built, "R"));
  HR_ASSIGN_OR_RETURN(step.blocks, find_symbol(built, "B"));
  HR_ASSIGN_OR_RETURN(step.biases, find_symbol(built, "E"));
  HR_ASSIGN_OR_RETURN(step.history, find_symbol(built, "H"));
  return step;
}

Bindings StepProgram::bucket(int64_t num_tokens) const {
  int64_t size = 1;
  while (size < num_tokens) size *= 2;
  size = std::min(size, limits.max_tokens);
  const int64_t num_seqs = std::min(size, limits.max_seqs);
  Bindings bindings;
  bindings.set(tokens, size);
  bindings.set(seqs, num_seqs);
  bindings.set(rows, std::min(size, limits.max_logit_rows));
  bindings.set(blocks, limits.max_blocks);
  bindings.set(biases, models::kMaxStepCount);
  bindings.set(history, models::kMaxStepCount);
  return bindings;
}

}  // namespace headrace::runtime
