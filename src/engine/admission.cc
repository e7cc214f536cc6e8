#include "engine/admission.h"

#include <algorithm>
#include <set>

namespace headrace::engine {

SchedulerLimits scheduler_limits(const EngineConfig& config, const runtime::RunnerLimits& runner) {
  int64_t budget = config.max_batched_tokens;
  if (runner.embedding_size > 0) budget = std::max<int64_t>(budget, runner.max_context);  // texts are not cut into chunks
  budget = std::min<int64_t>(budget, runner.max_tokens);
  const auto max_seqs = static_cast<int32_t>(std::min({config.max_seqs, int64_t{runner.max_seqs}, budget}));
  return {.max_seqs = max_seqs,
          .max_batched_tokens = static_cast<int32_t>(budget),
          .max_scored_tokens = std::max(0, runner.max_logit_rows - max_seqs)};
}

int32_t max_uncommitted(const SchedulerLimits& scheduler, const runtime::RunnerLimits& runner) {
  return scheduler.max_batched_tokens * (runner.pipeline_depth + 1);
}

Admission::Admission(const runtime::RunnerLimits& runner, const SchedulerLimits& scheduler, std::span<const int32_t> eos_ids)
    : runner_(runner),
      scheduler_(scheduler),
      eos_ids_(eos_ids.begin(), eos_ids.end()),
      kv_(runner_.groups, max_uncommitted(scheduler, runner)) {}

Status Admission::check(Request& request) const {
  HR_RETURN_IF_ERROR(check_kind(request));
  HR_RETURN_IF_ERROR(check_request(request, runner_.vocab_size));
  if (request.kind == RequestKind::embed) return check_inputs(request);
  HR_RETURN_IF_ERROR(check_size(request));
  return request.beam.width > 0 ? check_beams(request) : Status();
}

Status Admission::check_kind(const Request& request) const {
  const bool embeds = runner_.embedding_size > 0;
  if (request.kind == RequestKind::generate && embeds) {
    return make_status(Code::unsupported, "this model makes embeddings and generates no text");
  }
  if (request.kind == RequestKind::embed && !embeds) {
    return make_status(Code::unsupported, "this model generates text and makes no embeddings");
  }
  return {};
}

Status Admission::check_inputs(const Request& request) const {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (static_cast<int64_t>(request.inputs[i].size()) <= runner_.max_context) continue;
    return make_status(Code::invalid_argument, "input[{}]: {} tokens, the model takes {}: shorten the text", i,
                       request.inputs[i].size(), runner_.max_context);
  }
  return {};
}

Status Admission::check_size(Request& request) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt + 1 > runner_.max_context) {
    return make_status(Code::invalid_argument,
                       "prompt: {} tokens and at least 1 to generate, the context holds {}: shorten the prompt", prompt,
                       runner_.max_context);
  }
  request.max_tokens = static_cast<int32_t>(std::min<int64_t>(request.max_tokens, runner_.max_context - prompt));
  if (request.prompt_logprobs >= 0 && scheduler_.max_scored_tokens == 0) {
    return make_status(Code::unsupported, "prompt_logprobs: this model's runner has no logit rows for them ({} for {} sequences)",
                       runner_.max_logit_rows, scheduler_.max_seqs);
  }
  const auto needed = static_cast<int32_t>(prompt + request.max_tokens - 1);  // the last token's keys and values are never needed
  const int32_t beams = std::max(1, request.beam.width);
  if (kv_.can_hold(beams, needed, static_cast<int32_t>(prompt) - 1)) return {};
  return make_status(Code::resource_exhausted,
                     "prompt of {} tokens with max_tokens {}{} needs {} tokens of KV cache{}, all of it holds {}: lower max_tokens, "
                     "or start with more --kv-tokens",
                     prompt, request.max_tokens, beams > 1 ? fmt::format(" and {} beams", beams) : "", needed,
                     beams > 1 ? " for each beam" : "", kv_.tokens());
}

// A beam needs a sequence, and in each step as many candidates as there are beams and ids that could end them.
Status Admission::check_beams(const Request& request) const {
  const int32_t beams = request.beam.width;
  std::set<int32_t> stop_ids(request.stop_token_ids.begin(), request.stop_token_ids.end());
  if (!request.ignore_eos) stop_ids.insert(eos_ids_.begin(), eos_ids_.end());
  const auto ends = static_cast<int32_t>(stop_ids.size());
  const int32_t most = std::min(runtime::kMaxLogprobs, runner_.vocab_size);
  if (beams + ends > most) {
    return make_status(Code::invalid_argument, "beam search: {} beams and {} ids that end the answer, want {} of both at most", beams, ends,
                       most);
  }
  if (beams > scheduler_.max_seqs) {
    return make_status(Code::invalid_argument, "beam search: {} beams, --max-seqs allows {} sequences", beams, scheduler_.max_seqs);
  }
  return {};
}

}  // namespace headrace::engine
