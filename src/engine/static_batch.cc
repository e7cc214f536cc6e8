#include "engine/static_batch.h"

#include <algorithm>

#include "base/check.h"
#include "engine/block_manager.h"
#include "io/model_source.h"

namespace headrace::engine {

using runtime::StepField;

Result<std::unique_ptr<StaticBatch>> StaticBatch::open(const std::string& path, const ServingOptions& options, int64_t batch,
                                                       int64_t context) {
  if (batch > options.config.max_batched_tokens) {
    return error(Code::invalid_argument, "a static batch of {}: a step has {} tokens (--max-batched-tokens)", batch,
                 options.config.max_batched_tokens);
  }
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ModelSource> source, open_source(path, options));
  std::unique_ptr<StaticBatch> out(new StaticBatch());
  out->batch_ = static_cast<int32_t>(batch);
  out->context_ = static_cast<int32_t>(context);
  runtime::RunnerOptions runner_options;
  runner_options.model_name = path;
  runner_options.max_context = out->context_;
  runner_options.max_seqs = 2 * out->batch_;  // padding is sequences of its own
  runner_options.max_tokens = static_cast<int32_t>(options.config.max_batched_tokens);
  // A row's blocks and those of its padding: together one more than a row without padding has.
  runner_options.kv_tokens = batch * (static_cast<int64_t>(kv_blocks_for(out->context_)) + 1) * kKvBlockTokens;
  HR_ASSIGN_OR_RETURN(out->runner_, open_runner(*source, options, runner_options));
  if (out->runner_->limits().embedding_size > 0) {
    return error(Code::unsupported, "{}: makes embeddings and generates no text", path);
  }
  for (const runtime::KvGroupInfo& group : out->runner_->limits().groups) {
    // A pool with fewer blocks than all rows need holds what 2 * batch sequences see of it at once.
    const bool whole = group.num_blocks > out->batch_ * (kv_blocks_for(out->context_) + 1);
    out->ring_blocks_.push_back(whole ? 0 : kv_window_blocks(group.spec.window, runner_options.max_tokens));
    CHECK(whole || 2 * out->batch_ * out->ring_blocks_.back() < group.num_blocks);
  }
  return out;
}

int32_t StaticBatch::block_of(int group, const Run& run, int32_t index) const {
  const int32_t ring = ring_blocks_[static_cast<size_t>(group)];
  return ring == 0 ? run.first_block + index : 1 + run.sequence * ring + index % ring;
}

Result<std::vector<StaticAnswer>> StaticBatch::run(std::span<const StaticRequest> requests,
                                                   const std::function<bool(size_t)>& group_done) {
  std::vector<StaticAnswer> answers(requests.size());
  for (size_t begin = 0; begin < requests.size(); begin += static_cast<size_t>(batch_)) {
    const size_t end = std::min(requests.size(), begin + static_cast<size_t>(batch_));
    std::vector<Row> rows;
    for (size_t i = begin; i < end; ++i) rows.push_back({.request = &requests[i], .answer = &answers[i]});
    HR_RETURN_IF_ERROR(run_group(rows));
    if (group_done && !group_done(end)) return error(Code::cancelled, "stopped after {} of {} requests", end, requests.size());
  }
  return answers;
}

Status StaticBatch::run_group(std::span<Row> rows) {
  int32_t longest_prompt = 0, longest_answer = 0;
  for (const Row& row : rows) {
    longest_prompt = std::max(longest_prompt, static_cast<int32_t>(row.request->prompt.size()));
    longest_answer = std::max(longest_answer, row.request->max_tokens);
  }
  if (longest_prompt + longest_answer > context_) {
    return make_status(Code::invalid_argument, "a group of {} + {} tokens does not fit into a context of {}", longest_prompt,
                       longest_answer, context_);
  }
  int32_t next_block = 1;
  for (Row& row : rows) {
    row.padding = longest_prompt - static_cast<int32_t>(row.request->prompt.size());
    row.first_block = next_block;
    next_block += kv_blocks_for(longest_prompt - row.padding + longest_answer);
    row.first_padding_block = next_block;
    next_block += kv_blocks_for(row.padding);
  }

  const auto num_rows = static_cast<int32_t>(rows.size());
  std::vector<Run> runs;
  // Counts a step of the group: `column` of the padded batch is the last that it computed.
  const auto count = [&](int32_t column) {
    stats_.seq_steps += rows.size();
    stats_.slots += rows.size() * static_cast<uint64_t>(longest_prompt + longest_answer);
    for (const Row& row : rows) {
      const bool under_way = column < longest_prompt + row.request->max_tokens - 1;
      if (under_way) stats_.live_tokens += static_cast<uint64_t>(std::max(0, column + 1 - row.padding));
    }
  };
  const auto take = [&](const std::vector<int32_t>& tokens) {
    const TimePoint now = Clock::now();
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].next = tokens[i];
      StaticAnswer& answer = *rows[i].answer;
      if (static_cast<int32_t>(answer.tokens.size()) == rows[i].request->max_tokens) continue;
      if (answer.tokens.empty()) answer.first_token = now;
      answer.tokens.push_back(tokens[i]);
      answer.last_token = now;
    }
  };
  // Columns of the padded batch, as many at once as a step takes; the last tokens of all prompts stand in the last column.
  const int32_t columns = runner_->limits().max_tokens / num_rows;
  for (int32_t begin = 0; begin < longest_prompt; begin += columns) {
    const int32_t end = std::min(longest_prompt, begin + columns);
    runs.clear();
    for (int32_t i = 0; i < num_rows; ++i) {
      const Row& row = rows[static_cast<size_t>(i)];
      if (begin < row.padding) runs.push_back({batch_ + i, begin, std::min(end, row.padding) - begin, row.first_padding_block});
      const int32_t first = std::max(begin, row.padding) - row.padding, behind = end - row.padding;
      if (first >= behind) continue;
      runs.push_back(
          {i, first, behind - first, row.first_block, &row.request->prompt[static_cast<size_t>(first)], end == longest_prompt});
    }
    HR_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, step(runs));
    count(end - 1);
    if (end == longest_prompt) take(tokens);
  }
  for (int32_t i = 1; i < longest_answer; ++i) {
    const int32_t column = longest_prompt + i - 1;
    runs.clear();
    for (int32_t k = 0; k < num_rows; ++k) {
      const Row& row = rows[static_cast<size_t>(k)];
      runs.push_back({k, column - row.padding, 1, row.first_block, &row.next, true});
    }
    HR_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, step(runs));
    count(column);
    take(tokens);
  }
  return {};
}

Result<std::vector<int32_t>> StaticBatch::step(std::span<const Run> runs) {
  runtime::StepCounts counts;
  counts.seqs = static_cast<int32_t>(runs.size());
  counts.groups = static_cast<int32_t>(runner_->limits().groups.size());
  for (const Run& run : runs) {
    counts.tokens += run.count;
    counts.logit_rows += run.sample ? 1 : 0;
    counts.blocks = std::max(counts.blocks, kv_blocks_for(run.first + run.count));
  }
  plan_.reset(++step_, counts);
  int32_t token = 0, logit_row = 0;
  for (int32_t s = 0; s < counts.seqs; ++s) {
    const Run& run = runs[static_cast<size_t>(s)];
    plan_.ints(StepField::query_start)[s] = token;
    plan_.ints(StepField::context_len)[s] = run.first + run.count;
    for (int32_t i = 0; i < run.count; ++i) {
      const int32_t position = run.first + i;
      plan_.ints(StepField::token_src)[token + i] = run.ids == nullptr ? 0 : run.ids[i];
      plan_.ints(StepField::positions)[token + i] = position;
      for (int group = 0; group < counts.groups; ++group) {
        plan_.kv_slots(group)[token + i] =
            block_of(group, run, position / kKvBlockTokens) * kKvBlockTokens + position % kKvBlockTokens;
      }
    }
    for (int group = 0; group < counts.groups; ++group) {
      const int32_t window = runner_->limits().groups[static_cast<size_t>(group)].spec.window;
      const int32_t behind =
          window > 0 ? std::max(0, run.first - window + 1) / kKvBlockTokens : 0;  // blocks that no token sees
      for (int32_t b = behind; b < kv_blocks_for(run.first + run.count); ++b)
        plan_.block_row(group, s)[b] = block_of(group, run, b);
    }
    token += run.count;
    if (!run.sample) continue;
    plan_.ints(StepField::logit_rows)[logit_row] = token - 1;
    plan_.ints(StepField::sample_pos)[logit_row] = run.first + run.count;
    ++logit_row;
  }
  plan_.ints(StepField::query_start)[counts.seqs] = token;
  stats_.steps += 1;
  stats_.step_tokens += static_cast<uint64_t>(counts.tokens);
  HR_ASSIGN_OR_RETURN(const runtime::Ticket ticket, runner_->submit(plan_));
  HR_ASSIGN_OR_RETURN(runtime::StepResult result, runner_->wait(ticket));
  return std::move(result.tokens);
}

}  // namespace headrace::engine
