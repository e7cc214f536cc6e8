#include "engine/step_builder.h"

#include <algorithm>
#include <limits>

#include "core/kv_view.h"

namespace headrace::engine {
namespace {

using runtime::StepField;
using runtime::StepPlan;

int32_t source_of(const Sequence& sequence, int32_t position) {
  // Only the last token of a sequence can be sampled and not yet known.
  return position < static_cast<int32_t>(sequence.ids.size()) ? sequence.ids[position] : -(sequence.slot + 1);
}

// Tokens [at, at + row.count) of the plan.
void write_tokens(const ScheduledSequence& row, int32_t at, int num_groups, StepPlan& plan) {
  const Sequence& sequence = *row.sequence;
  const auto token_src = plan.ints(StepField::token_src), positions = plan.ints(StepField::positions);
  for (int32_t i = 0; i < row.count; ++i) {
    positions[at + i] = row.first + i;
    token_src[at + i] = source_of(sequence, row.first + i);
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

// What the penalties of logit row `r` look at, from entry `at` on, if it has any. Returns the entry behind it.
int32_t write_history(const ScheduledSequence& row, int32_t at, int32_t r, StepPlan& plan) {
  const Sequence& sequence = *row.sequence;
  const int32_t count = has_penalties(sequence.sampling) ? row.first + row.count : 0;
  plan.ints(StepField::output_start)[r] = at + std::min(count, sequence.num_prompt_tokens);
  for (int32_t i = 0; i < count; ++i) plan.ints(StepField::history)[at + i] = source_of(sequence, i);
  return plan.ints(StepField::history_start)[r + 1] = at + count;
}

// Logit row `r` samples from token `token`, the last of `row`.
void write_sampling(const ScheduledSequence& row, int32_t r, int32_t token, StepPlan& plan) {
  const Sequence& sequence = *row.sequence;
  const SamplingParams& sampling = sequence.sampling;
  plan.ints(StepField::logit_rows)[r] = token;
  plan.ints(StepField::sample_slot)[r] = sequence.slot;
  plan.floats(StepField::temperature)[r] = sampling.temperature;
  plan.floats(StepField::top_p)[r] = sampling.top_p;
  plan.floats(StepField::min_p)[r] = sampling.min_p;
  plan.floats(StepField::typical_p)[r] = sampling.typical_p;
  plan.floats(StepField::repetition_penalty)[r] = sampling.repetition_penalty;
  plan.floats(StepField::frequency_penalty)[r] = sampling.frequency_penalty;
  plan.floats(StepField::presence_penalty)[r] = sampling.presence_penalty;
  plan.ints(StepField::top_k)[r] = sampling.top_k;
  plan.ints(StepField::seed_lo)[r] = static_cast<int32_t>(static_cast<uint32_t>(sampling.seed));
  plan.ints(StepField::seed_hi)[r] = static_cast<int32_t>(static_cast<uint32_t>(sampling.seed >> 32));
  plan.ints(StepField::stream)[r] = sequence.rank.choice;
  plan.ints(StepField::sample_pos)[r] = row.first + row.count;
  plan.ints(StepField::num_logprobs)[r] = sequence.num_logprobs;
}

// Logit row `r` tells how probable the id after `position` is; what it samples, an arg-max, is dropped.
void write_scoring(const ScheduledSequence& row, int32_t r, int32_t token, int32_t position, StepPlan& plan) {
  const Sequence& sequence = *row.sequence;
  plan.ints(StepField::logit_rows)[r] = token;
  plan.ints(StepField::sample_pos)[r] = position + 1;
  plan.ints(StepField::target)[r] = sequence.ids[position + 1];
  plan.ints(StepField::num_logprobs)[r] = sequence.num_prompt_logprobs;
}

// What a sampled token may not be, or is drawn towards.
void list_biases(const ScheduledSequence& row, std::vector<std::pair<int32_t, float>>& biases) {
  const Sequence& sequence = *row.sequence;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  biases.insert(biases.end(), sequence.sampling.logit_bias.begin(), sequence.sampling.logit_bias.end());
  const int32_t end = row.first + row.count;  // the position that is sampled
  if (end - sequence.num_prompt_tokens < sequence.min_tokens) {
    for (const int32_t id : sequence.stop_ids) biases.emplace_back(id, kNever);
  }
  for (const std::vector<int32_t>& word : sequence.sampling.bad_words) {
    // The last id of a word is banned where the ids before it, all of them the answer's, were just said.
    const auto said = static_cast<int32_t>(word.size()) - 1;
    if (said > end - sequence.num_prompt_tokens) continue;
    if (said == 0 || std::equal(word.begin(), word.end() - 1, sequence.ids.begin() + (end - said))) biases.emplace_back(word.back(), kNever);
  }
}

}  // namespace

// Sizes of the step's arrays; fills the lists of biases on the way.
runtime::StepCounts StepBuilder::count(std::span<const ScheduledSequence> rows) {
  biases_.clear();
  bias_end_.clear();
  want_logprobs_ = false;
  runtime::StepCounts counts;
  counts.seqs = static_cast<int32_t>(rows.size());
  for (const ScheduledSequence& row : rows) {
    const Sequence& sequence = *row.sequence;
    counts.tokens += row.count;
    counts.logit_rows += row.num_rows();
    counts.blocks = std::max(counts.blocks, kv_blocks_for(row.first + row.count));
    bias_end_.insert(bias_end_.end(), static_cast<size_t>(row.num_scored), static_cast<int32_t>(biases_.size()));
    want_logprobs_ |= row.num_scored > 0;
    if (!row.sample) continue;
    list_biases(row, biases_);
    bias_end_.push_back(static_cast<int32_t>(biases_.size()));
    if (has_penalties(sequence.sampling)) counts.history += row.first + row.count;
    want_logprobs_ |= sequence.num_logprobs >= 0;
  }
  counts.biases = static_cast<int32_t>(biases_.size());
  return counts;
}

void StepBuilder::write_lists(std::span<const BlockCopy> copies, StepPlan& plan) const {
  std::ranges::copy(bias_end_, plan.ints(StepField::bias_start).begin() + 1);
  for (size_t i = 0; i < biases_.size(); ++i) {
    plan.ints(StepField::bias_token)[i] = biases_[i].first;
    plan.floats(StepField::bias_value)[i] = biases_[i].second;
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    plan.ints(StepField::copy_group)[i] = copies[i].group;
    plan.ints(StepField::copy_src)[i] = copies[i].from;
    plan.ints(StepField::copy_dst)[i] = copies[i].to;
  }
}

void StepBuilder::build(uint64_t step, std::span<const ScheduledSequence> rows, int num_groups,
                        std::span<const BlockCopy> copies, StepPlan& plan) {
  runtime::StepCounts counts = count(rows);
  counts.groups = num_groups;
  counts.copies = static_cast<int32_t>(copies.size());
  plan.reset(step, counts, want_logprobs_ ? uint32_t{runtime::kWantLogprobs} : 0u);
  write_lists(copies, plan);
  const auto query_start = plan.ints(StepField::query_start), context_len = plan.ints(StepField::context_len);
  int32_t token = 0, r = 0, history = 0;
  for (size_t s = 0; s < rows.size(); ++s) {
    const ScheduledSequence& row = rows[s];
    query_start[s] = token;
    context_len[s] = row.first + row.count;
    write_tokens(row, token, num_groups, plan);
    const int32_t held = kv_blocks_for(row.first + row.count);
    for (int group = 0; group < num_groups; ++group) {
      const std::vector<int32_t>& table = row.sequence->block_tables[group];
      std::copy_n(table.begin(), held, plan.block_row(group, static_cast<int>(s)).begin());
    }
    for (int32_t i = 0; i < row.num_scored; ++i, ++r) {
      const int32_t position = row.first_scored + i;
      write_scoring(row, r, token + position - row.first, position, plan);
      plan.ints(StepField::history_start)[r + 1] = plan.ints(StepField::output_start)[r] = history;
    }
    token += row.count;
    if (!row.sample) continue;
    write_sampling(row, r, token - 1, plan);
    history = write_history(row, history, r++, plan);
  }
  query_start[rows.size()] = token;
}

}  // namespace headrace::engine
