#include "testing/fake_runner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <thread>

#include "base/check.h"

namespace headrace::testing {
namespace {

using runtime::StepField;
using runtime::StepPlan;

uint64_t mix(uint64_t hash, uint64_t x) {
  hash = (hash ^ x) * 0x9fb21c651e98df25u;
  return hash ^ (hash >> 28);
}

// How many tokens of `reply` the ids end with.
size_t spoken(std::span<const int32_t> ids, std::span<const int32_t> reply) {
  for (size_t k = std::min(ids.size(), reply.size()); k > 0; --k) {
    if (std::ranges::equal(ids.last(k), reply.first(k))) return k;
  }
  return 0;
}

// The parameters of logit row `r`.
FakeSampling row_sampling(const StepPlan& plan, int r) {
  const uint64_t low = static_cast<uint32_t>(plan.ints(StepField::seed_lo)[r]);
  const uint64_t high = static_cast<uint32_t>(plan.ints(StepField::seed_hi)[r]);
  return {.temperature = plan.floats(StepField::temperature)[r],
          .top_p = plan.floats(StepField::top_p)[r],
          .min_p = plan.floats(StepField::min_p)[r],
          .top_k = plan.ints(StepField::top_k)[r],
          .seed = low | high << 32,
          .stream = plan.ints(StepField::stream)[r]};
}

}  // namespace

int32_t FakeModel::next_token(std::span<const int32_t> ids, const FakeSampling& sampling) const {
  if (not_finite && not_finite(ids)) return -1;
  if (!reply.empty()) {
    const size_t k = spoken(ids, reply);
    return k == reply.size() ? eos_id : reply[k];
  }
  uint64_t hash = ids.size();
  for (const int32_t id : ids) hash = mix(hash, static_cast<uint64_t>(id));
  if (sampling.temperature > 0) {
    for (const float x : {sampling.temperature, sampling.top_p, sampling.min_p}) hash = mix(hash, std::bit_cast<uint32_t>(x));
    for (const int32_t x : {sampling.top_k, sampling.stream}) hash = mix(hash, static_cast<uint32_t>(x));
    hash = mix(hash, sampling.seed);
  }
  hash = mix(hash, 1);
  if (eos_one_in > 0 && (hash >> 40) % static_cast<uint64_t>(eos_one_in) == 0) return eos_id;
  const int32_t token = static_cast<int32_t>((hash & 0xffffffffu) % static_cast<uint64_t>(vocab_size));
  return token == eos_id ? (token + 1) % vocab_size : token;
}

std::vector<int32_t> FakeModel::answer(std::span<const int32_t> prompt, int32_t max_new, const FakeSampling& sampling,
                                       bool ignore_eos) const {
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  for (int32_t i = 0; i < max_new; ++i) {
    const int32_t token = next_token(ids, sampling);
    if (token < 0 || (token == eos_id && !ignore_eos)) break;
    ids.push_back(token);
  }
  return {ids.begin() + static_cast<ptrdiff_t>(prompt.size()), ids.end()};
}

std::vector<float> FakeModel::logits(std::span<const int32_t> ids, const FakeSampling& sampling) const {
  std::vector<float> row(static_cast<size_t>(vocab_size));
  for (int32_t id = 0; id < vocab_size; ++id) {
    row[id] = -static_cast<float>(mix(ids.size(), static_cast<uint64_t>(id)) % 1000) / 1000.0f;
  }
  const int32_t token = next_token(ids, sampling);
  if (token >= 0) row[token] = 1.0f;
  return row;
}

std::vector<float> FakeModel::embedding(std::span<const int32_t> ids) const {
  uint64_t hash = ids.size();
  for (const int32_t id : ids) hash = mix(hash, static_cast<uint64_t>(id));
  std::vector<float> row(static_cast<size_t>(embedding_size));
  for (float& x : row) {
    hash = mix(hash, 1);
    x = not_finite && not_finite(ids) ? HUGE_VALF : (static_cast<float>((hash >> 20) % 2001) - 1000.0f) / 1000.0f;
  }
  return row;
}

FakeRunner::FakeRunner(FakeModel model) : model_(std::move(model)), last_token_(static_cast<size_t>(model_.max_seqs), -1) {
  limits_ = {.max_tokens = model_.max_tokens,
             .max_seqs = model_.max_seqs,
             .max_context = model_.max_context,
             .vocab_size = model_.vocab_size,
             .embedding_size = model_.embedding_size,
             .pipeline_depth = model_.depth};
  if (model_.embedding_size > 0) limits_.max_tokens = std::max(limits_.max_tokens, limits_.max_context);
  for (const int32_t blocks : model_.embedding_size > 0 ? std::vector<int32_t>() : model_.num_blocks) {
    limits_.groups.push_back({KvSpec{.heads = 1, .head_dim = 1}, 1, blocks});
    pools_.emplace_back(static_cast<size_t>(blocks) * kKvBlockTokens);
  }
}

runtime::RunnerMemory FakeRunner::memory() const {
  uint64_t kv = 0;
  for (const auto& pool : pools_) kv += pool.size() * sizeof(Cell);
  return {.weights = 0, .kv = kv, .arena = 0, .peak = kv};
}

Status FakeRunner::check(const StepPlan& plan) const {
  const auto& [tokens, seqs, rows, groups, blocks] = plan.header().counts;
  const auto wrong = [](const char* what, int64_t got) {
    return make_status(Code::invalid_argument, "step plan: {} ({})", what, got);
  };
  if (!StepPlan::valid(plan.block())) return wrong("block", static_cast<int64_t>(plan.block().size()));
  if (tokens < 1 || tokens > limits_.max_tokens) return wrong("tokens", tokens);
  if (seqs < 1 || seqs > limits_.max_seqs) return wrong("sequences", seqs);
  if (rows > seqs) return wrong("logit rows", rows);
  if (groups != static_cast<int32_t>(pools_.size())) return wrong("groups", groups);
  const auto token_src = plan.ints(StepField::token_src), positions = plan.ints(StepField::positions);
  const auto query_start = plan.ints(StepField::query_start), context_len = plan.ints(StepField::context_len);
  if (query_start[0] != 0 || query_start[seqs] != tokens) return wrong("query_start", query_start[seqs]);
  for (int s = 0; s < seqs; ++s) {
    const int32_t begin = query_start[s], end = query_start[s + 1];
    if (end <= begin) return wrong("query_start falls", s);
    if (limits_.embedding_size > 0 && positions[begin] != 0) return wrong("sequence in pieces", s);
    if (context_len[s] > limits_.max_context || blocks * kKvBlockTokens < context_len[s]) return wrong("context", s);
    for (int32_t t = begin; t < end; ++t) {
      if (positions[t] != context_len[s] - (end - t)) return wrong("position", positions[t]);
      if (token_src[t] >= limits_.vocab_size || token_src[t] < -limits_.max_seqs) return wrong("token_src", token_src[t]);
    }
  }
  const auto logit_rows = plan.ints(StepField::logit_rows), sample_slot = plan.ints(StepField::sample_slot);
  for (int r = 0; r < rows; ++r) {
    if (logit_rows[r] >= tokens || logit_rows[r] < 0 || (r > 0 && logit_rows[r] <= logit_rows[r - 1])) {
      return wrong("logit row", logit_rows[r]);
    }
    if (sample_slot[r] < -1 || sample_slot[r] >= limits_.max_seqs) return wrong("sample_slot", sample_slot[r]);
    if (plan.ints(StepField::sample_pos)[r] != positions[logit_rows[r]] + 1) return wrong("sample_pos", r);
  }
  for (int g = 0; g < groups; ++g) {
    const auto slots = plan.ints(StepField::kv_slot).subspan(size_t(g) * tokens, tokens);
    std::set<int32_t> written;
    for (const int32_t slot : slots) {
      if (slot < kKvBlockTokens || slot >= static_cast<int32_t>(pools_[g].size())) return wrong("kv_slot", slot);
      if (!written.insert(slot).second) return wrong("kv_slot written twice", slot);
    }
    for (const int32_t block : plan.ints(StepField::block_table).subspan(size_t(g) * seqs * blocks, size_t(seqs) * blocks)) {
      if (block < 0 || block >= limits_.groups[g].num_blocks) return wrong("block", block);
    }
  }
  return {};
}

Result<runtime::Ticket> FakeRunner::submit(const StepPlan& plan) {
  if (static_cast<int>(submitted_.size()) > model_.depth) {
    return error(Code::invalid_argument, "{} steps in flight, the pipeline holds {}", submitted_.size() + 1, model_.depth + 1);
  }
  if (model_.on_submit) {
    if (Status status = model_.on_submit(plan.header().step); !status.ok()) return tl::unexpected(std::move(status));
  }
  if (Status status = check(plan); !status.ok()) return tl::unexpected(std::move(status));
  submitted_.push_back({plan, std::chrono::steady_clock::now()});
  return runtime::Ticket{plan.header().step};
}

Result<runtime::StepResult> FakeRunner::wait(runtime::Ticket ticket) {
  CHECK(!submitted_.empty() && submitted_.front().plan.header().step == ticket.step);
  const Submitted step = std::move(submitted_.front());
  submitted_.pop_front();
  if (model_.step_delay.count() > 0) std::this_thread::sleep_until(step.at + model_.step_delay);
  if (model_.on_wait) {
    if (Status status = model_.on_wait(ticket.step); !status.ok()) return tl::unexpected(std::move(status));
  }
  return run(step.plan);
}

std::vector<int32_t> FakeRunner::read_back(const StepPlan& plan, int group, int s, int32_t length) const {
  const runtime::StepCounts& c = plan.header().counts;
  const auto table = plan.ints(StepField::block_table).subspan((size_t(group) * c.seqs + s) * c.blocks, c.blocks);
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (int32_t position = 0; position < length; ++position) {
    const Cell& cell = pools_[group][table[position / kKvBlockTokens] * kKvBlockTokens + position % kKvBlockTokens];
    ids[position] = cell.position == position ? cell.id : -1 - cell.position;
  }
  return ids;
}

runtime::StepResult FakeRunner::run(const StepPlan& plan) {
  const runtime::StepCounts& c = plan.header().counts;
  const auto token_src = plan.ints(StepField::token_src), positions = plan.ints(StepField::positions);
  for (int32_t t = 0; t < c.tokens; ++t) {
    const int32_t id = token_src[t] >= 0 ? token_src[t] : last_token_[-token_src[t] - 1];
    for (int g = 0; g < c.groups; ++g) {
      pools_[g][plan.ints(StepField::kv_slot)[size_t(g) * c.tokens + t]] = {id, positions[t]};
    }
  }
  runtime::StepResult result{.step = plan.header().step};
  const auto query_start = plan.ints(StepField::query_start);
  for (int32_t s = 0; s < c.seqs && limits_.embedding_size > 0; ++s) {
    const auto ids = token_src.subspan(size_t(query_start[s]), size_t(query_start[s + 1] - query_start[s]));
    const std::vector<float> row = model_.embedding(ids);
    result.embeddings.insert(result.embeddings.end(), row.begin(), row.end());
  }
  for (int32_t r = 0; r < c.logit_rows; ++r) {
    const int32_t token = plan.ints(StepField::logit_rows)[r];
    const int s = static_cast<int>(std::ranges::upper_bound(query_start, token) - query_start.begin()) - 1;
    std::vector<int32_t> ids = read_back(plan, 0, s, positions[token] + 1);
    // Groups that disagree about the sequence: an id that no prompt has makes the token differ.
    for (int g = 1; g < c.groups; ++g) {
      if (read_back(plan, g, s, positions[token] + 1) != ids) ids.push_back(-g);
    }
    const FakeSampling sampling = row_sampling(plan, r);
    const int32_t next = model_.next_token(ids, sampling);
    result.tokens.push_back(next);
    if (plan.header().flags & runtime::kWantLogits) {
      const std::vector<float> logits = model_.logits(ids, sampling);
      result.logits.insert(result.logits.end(), logits.begin(), logits.end());
    }
    const int32_t slot = plan.ints(StepField::sample_slot)[r];
    if (slot >= 0) last_token_[slot] = next;
  }
  return result;
}

}  // namespace headrace::testing
