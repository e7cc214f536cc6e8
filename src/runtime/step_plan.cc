#include "runtime/step_plan.h"

#include <algorithm>

namespace headrace::runtime {
namespace {

constexpr uint64_t kFieldAlignment = 64;

constexpr uint64_t align_up(uint64_t bytes) { return (bytes + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment; }

int64_t elements_of(StepField field, const StepCounts& c) {
  switch (field) {
    case StepField::token_src:
    case StepField::positions:
    case StepField::token_type: return c.tokens;
    case StepField::query_start: return int64_t{c.seqs} + 1;
    case StepField::context_len: return c.seqs;
    case StepField::kv_slot: return int64_t{c.groups} * c.tokens;
    case StepField::block_table: return int64_t{c.groups} * c.seqs * c.blocks;
    case StepField::bias_start:
    case StepField::history_start: return int64_t{c.logit_rows} + 1;
    case StepField::bias_token:
    case StepField::bias_value: return c.biases;
    case StepField::history: return c.history;
    case StepField::copy_group:
    case StepField::copy_src:
    case StepField::copy_dst: return c.copies;
    default: return c.logit_rows;
  }
}

// Fills the offsets and the size of the block for its counts.
void lay_out(StepHeader& header) {
  uint64_t offset = align_up(sizeof(StepHeader));
  for (int i = 0; i < kNumStepFields; ++i) {
    header.offsets[i] = offset;
    offset = align_up(offset + uint64_t(elements_of(static_cast<StepField>(i), header.counts)) * 4);
  }
  header.bytes = offset;
}

}  // namespace

const char* step_field_name(StepField field) {
  constexpr const char* names[kNumStepFields] = {
      "token_src", "positions", "token_type", "query_start", "context_len", "logit_rows", "sample_slot", "temperature", "top_p",
      "min_p", "typical_p", "repetition_penalty", "frequency_penalty", "presence_penalty", "top_k", "seed_lo", "seed_hi", "stream",
      "sample_pos", "target", "num_logprobs", "bias_start", "bias_token", "bias_value", "history_start", "output_start", "history",
      "kv_slot", "block_table", "copy_group", "copy_src", "copy_dst"};
  return names[static_cast<int>(field)];
}

void StepPlan::reset(uint64_t step, const StepCounts& counts, uint32_t flags, int32_t bucket_tokens) {
  StepHeader header;
  header.step = step;
  header.counts = counts;
  header.flags = flags;
  header.bucket_tokens = bucket_tokens;
  lay_out(header);
  const size_t words = header.bytes / sizeof(uint64_t);
  if (block_.size() < words) block_.resize(words);
  std::memset(block_.data(), 0, header.bytes);
  std::memcpy(block_.data(), &header, sizeof header);
  for (const StepField field : {StepField::sample_slot, StepField::target, StepField::num_logprobs}) std::ranges::fill(ints(field), -1);
  for (const StepField field : {StepField::top_p, StepField::typical_p, StepField::repetition_penalty}) {
    std::ranges::fill(floats(field), 1.0f);
  }
}

void StepPlan::pad(const StepPlan& plan, StepCounts counts) {
  const StepHeader& from = plan.header();
  counts.copies = 0;
  reset(from.step, counts, from.flags, from.bucket_tokens);
  for (int i = 0; i < kNumStepFields; ++i) {
    const auto field = static_cast<StepField>(i);
    if (field == StepField::kv_slot || field == StepField::block_table || field_elements(field) == 0) continue;
    const std::span<const int32_t> values = plan.ints(field);
    std::ranges::copy(values, ints(field).begin());
    const bool is_starts = field == StepField::query_start || field == StepField::bias_start || field == StepField::history_start;
    if (is_starts) std::fill(ints(field).begin() + static_cast<std::ptrdiff_t>(values.size()), ints(field).end(), values.back());
  }
  const std::span<const int32_t> slots = plan.ints(StepField::kv_slot), table = plan.ints(StepField::block_table);
  const auto tokens = static_cast<size_t>(from.counts.tokens), blocks = static_cast<size_t>(from.counts.blocks);
  for (int group = 0; group < counts.groups; ++group) {
    std::ranges::copy(slots.subspan(static_cast<size_t>(group) * tokens, tokens), kv_slots(group).begin());
    for (int seq = 0; seq < from.counts.seqs; ++seq) {
      const size_t row = static_cast<size_t>(group * from.counts.seqs + seq) * blocks;
      std::ranges::copy(table.subspan(row, blocks), block_row(group, seq).begin());
    }
  }
}

int64_t StepPlan::field_elements(StepField field) const { return elements_of(field, header().counts); }

bool StepPlan::valid(std::span<const std::byte> block) {
  StepHeader header;
  if (block.size() < sizeof header) return false;
  std::memcpy(&header, block.data(), sizeof header);
  const StepCounts& c = header.counts;
  for (const int32_t count : {c.tokens, c.seqs, c.logit_rows, c.groups, c.blocks, c.biases, c.history, c.copies}) {
    if (count < 0 || count > kMaxStepCount) return false;
  }
  StepHeader expected = header;
  lay_out(expected);
  return expected.bytes == header.bytes && header.bytes == block.size() &&
         std::memcmp(expected.offsets, header.offsets, sizeof header.offsets) == 0;
}

}  // namespace headrace::runtime
