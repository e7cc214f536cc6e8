#include "engine/scorer.h"

#include <algorithm>
#include <cmath>

#include "engine/text_parts.h"
#include "io/model_source.h"

namespace headrace::engine {
namespace {

using runtime::StepField;

constexpr int32_t kStepTokens = 512;
constexpr int32_t kStepRows = 128;  // scored: their logits lie in memory at once, 25 MB for a vocabulary of 49152

}  // namespace

Result<std::unique_ptr<Scorer>> Scorer::open(const std::string& path, const ServingOptions& options, int64_t context) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ModelSource> source, open_source(path, options));
  std::unique_ptr<Scorer> scorer(new Scorer());
  scorer->path_ = path;
  HR_ASSIGN_OR_RETURN(TextParts parts, open_text_parts(*source));
  scorer->tokenizer_ = std::move(parts.tokenizer);
  runtime::RunnerOptions runner_options;
  runner_options.model_name = path;
  runner_options.max_context = static_cast<int32_t>(context);
  runner_options.max_seqs = 1;
  runner_options.max_tokens = kStepTokens;
  runner_options.kv_tokens = context;
  runner_options.max_logit_rows = kStepRows;
  HR_ASSIGN_OR_RETURN(scorer->runner_, open_runner(*source, options, runner_options));
  if (scorer->runner_->limits().embedding_size > 0) {
    return error(Code::unsupported, "{}: makes embeddings and gives tokens no probability", path);
  }
  return scorer;
}

Result<const text::Tokenizer*> Scorer::tokenizer() const {
  if (tokenizer_ == nullptr) return error(Code::not_found, "{}: no vocabulary in the file, and no tokenizer.json beside it", path_);
  return tokenizer_.get();
}

Status Scorer::step(std::span<const int32_t> ids, int64_t begin, int64_t end, int64_t first, std::vector<float>& out) {
  const auto count = static_cast<int32_t>(end - begin);
  const auto groups = static_cast<int32_t>(runner_->limits().groups.size());
  const auto blocks = kv_blocks_for(end);
  const auto rows = static_cast<int32_t>(end - std::clamp(first, begin, end));
  plan_.reset(++step_, {.tokens = count, .seqs = 1, .logit_rows = rows, .groups = groups, .blocks = blocks},
              runtime::kWantLogprobs);
  for (int32_t i = 0; i < count; ++i) {
    const auto position = static_cast<int32_t>(begin + i);
    plan_.ints(StepField::token_src)[i] = ids[position];
    plan_.ints(StepField::positions)[i] = position;
    for (int32_t group = 0; group < groups; ++group) {
      plan_.kv_slots(group)[i] = (1 + position / kKvBlockTokens) * kKvBlockTokens + position % kKvBlockTokens;
    }
  }
  for (int32_t row = 0; row < rows; ++row) {
    plan_.ints(StepField::logit_rows)[row] = count - rows + row;
    plan_.ints(StepField::target)[row] = ids[end - rows + row + 1];
    plan_.ints(StepField::num_logprobs)[row] = 0;
  }
  plan_.ints(StepField::query_start)[1] = count;
  plan_.ints(StepField::context_len)[0] = static_cast<int32_t>(end);
  for (int32_t group = 0; group < groups; ++group) {
    for (int32_t block = 0; block < blocks; ++block) plan_.block_row(group, 0)[block] = 1 + block;
  }
  HR_ASSIGN_OR_RETURN(const runtime::Ticket ticket, runner_->submit(plan_));
  HR_ASSIGN_OR_RETURN(const runtime::StepResult result, runner_->wait(ticket));
  for (int32_t row = 0; row < rows; ++row) {
    if (std::isfinite(result.logprobs[row])) continue;
    return make_status(Code::malformed, "{}: the logits after token {} are not finite", path_, end - rows + row);
  }
  out.insert(out.end(), result.logprobs.begin(), result.logprobs.end());
  return {};
}

Result<std::vector<float>> Scorer::score(std::span<const int32_t> ids, int64_t first) {
  const auto length = static_cast<int64_t>(ids.size());
  if (length > runner_->limits().max_context) {
    return error(Code::invalid_argument, "a text of {} tokens to score; want at most {}", length, runner_->limits().max_context);
  }
  std::vector<float> out;
  // The last id is only asked about.
  const int64_t read = std::max<int64_t>(length - 1, 0), silent = std::clamp<int64_t>(first, 0, read);
  for (int64_t at = 0; at < silent; at += kStepTokens) {
    HR_RETURN_IF_ERROR(step(ids, at, std::min(silent, at + kStepTokens), silent, out));
  }
  for (int64_t at = silent; at < read; at += kStepRows) {
    HR_RETURN_IF_ERROR(step(ids, at, std::min(read, at + kStepRows), at, out));
  }
  return out;
}

}  // namespace headrace::engine
