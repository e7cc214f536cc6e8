#include "engine/step_builder.h"

#include <algorithm>

#include "core/kv_view.h"
#include "engine/block_manager.h"

namespace headrace::engine {
namespace {

using runtime::StepField;
using runtime::StepPlan;

runtime::StepCounts count_step(std::span<const ScheduledSequence> rows, int num_groups) {
  runtime::StepCounts counts;
  counts.seqs = static_cast<int32_t>(rows.size());
  counts.groups = num_groups;
  for (const ScheduledSequence& row : rows) {
    counts.tokens += row.count;
    counts.logit_rows += row.sample ? 1 : 0;
    counts.blocks = std::max(counts.blocks, blocks_for(row.first + row.count));
  }
  return counts;
}

// Tokens [at, at + row.count) of the plan.
void write_tokens(const ScheduledSequence& row, int32_t at, int num_groups, StepPlan& plan) {
  const Sequence& sequence = *row.sequence;
  const auto token_src = plan.ints(StepField::token_src), positions = plan.ints(StepField::positions);
  for (int32_t i = 0; i < row.count; ++i) {
    const size_t position = static_cast<size_t>(row.first + i);
    positions[at + i] = row.first + i;
    // Only the last token of a sequence can be sampled and not yet known.
    token_src[at + i] = position < sequence.ids.size() ? sequence.ids[position] : -(sequence.slot + 1);
  }
  for (int group = 0; group < num_groups; ++group) {
    const auto kv_slots = plan.kv_slots(group);
    const std::vector<int32_t>& table = sequence.block_tables[group];
    for (int32_t i = 0; i < row.count; ++i) {
      const int32_t position = row.first + i;
      kv_slots[at + i] = table[position / kKvBlockTokens] * kKvBlockTokens + position % kKvBlockTokens;
    }
  }
}

// Logit row `r` of the plan samples from token `token`, the last of `row`.
void write_sampling(const ScheduledSequence& row, int32_t r, int32_t token, StepPlan& plan) {
  const Sequence& sequence = *row.sequence;
  const SamplingParams& sampling = sequence.sampling;
  plan.ints(StepField::logit_rows)[r] = token;
  plan.ints(StepField::sample_slot)[r] = sequence.slot;
  plan.floats(StepField::temperature)[r] = sampling.temperature;
  plan.floats(StepField::top_p)[r] = sampling.top_p;
  plan.floats(StepField::min_p)[r] = sampling.min_p;
  plan.ints(StepField::top_k)[r] = sampling.top_k;
  plan.ints(StepField::seed_lo)[r] = static_cast<int32_t>(static_cast<uint32_t>(sampling.seed));
  plan.ints(StepField::seed_hi)[r] = static_cast<int32_t>(static_cast<uint32_t>(sampling.seed >> 32));
  plan.ints(StepField::stream)[r] = sequence.rank.choice;
  plan.ints(StepField::sample_pos)[r] = row.first + row.count;
}

}  // namespace

void build_step(uint64_t step, std::span<const ScheduledSequence> rows, int num_groups, StepPlan& plan) {
  const bool want_logits =
      std::ranges::any_of(rows, [](const ScheduledSequence& row) { return row.sample && row.sequence->want_logits; });
  plan.reset(step, count_step(rows, num_groups), want_logits ? uint32_t{runtime::kWantLogits} : 0u);
  const auto query_start = plan.ints(StepField::query_start), context_len = plan.ints(StepField::context_len);
  int32_t token = 0, logit_row = 0;
  for (size_t s = 0; s < rows.size(); ++s) {
    const ScheduledSequence& row = rows[s];
    query_start[s] = token;
    context_len[s] = row.first + row.count;
    write_tokens(row, token, num_groups, plan);
    const int32_t blocks = blocks_for(row.first + row.count);
    for (int group = 0; group < num_groups; ++group) {
      const std::vector<int32_t>& table = row.sequence->block_tables[group];
      std::copy_n(table.begin(), blocks, plan.block_row(group, static_cast<int>(s)).begin());
    }
    token += row.count;
    if (row.sample) write_sampling(row, logit_row++, token - 1, plan);
  }
  query_start[rows.size()] = token;
}

}  // namespace headrace::engine
