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

// As StepResult says, in float64.
void add_logprobs(const StepPlan& plan, int r, std::span<const float> logits, int32_t sampled, runtime::StepResult& result) {
  std::vector<std::pair<double, int32_t>> order;
  double sum = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    order.emplace_back(-static_cast<double>(logits[id]), static_cast<int32_t>(id));
    sum += std::exp(static_cast<double>(logits[id]));
  }
  const int32_t target = plan.ints(StepField::target)[r], chosen = target >= 0 ? target : sampled;
  const int32_t listed = std::clamp(plan.ints(StepField::num_logprobs)[r], 0, static_cast<int32_t>(order.size()));
  std::ranges::partial_sort(order, order.begin() + listed);
  const bool usable = !logits.empty() && chosen >= 0;
  result.logprobs.push_back(usable ? static_cast<float>(static_cast<double>(logits[chosen]) - std::log(sum)) : std::nanf(""));
  for (int32_t i = 0; i < runtime::kMaxLogprobs; ++i) {
    result.top_ids.push_back(i < listed ? order[i].second : -1);
    result.top_logprobs.push_back(i < listed ? static_cast<float>(-order[i].first - std::log(sum)) : 0.0f);
  }
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
    if (sampling.typical_p != 1.0f) hash = mix(hash, std::bit_cast<uint32_t>(sampling.typical_p));
  }
  const float penalties[] = {sampling.repetition_penalty, sampling.frequency_penalty, sampling.presence_penalty};
  if (penalties[0] != 1.0f || penalties[1] != 0.0f || penalties[2] != 0.0f) {
    for (const float x : penalties) hash = mix(hash, std::bit_cast<uint32_t>(x));
    hash = mix(hash, static_cast<uint64_t>(sampling.num_prompt));
  }
  std::set<int32_t> banned;
  for (const auto& [id, bias] : sampling.biases) {
    if (std::isinf(bias)) {
      banned.insert(id);
    } else {
      hash = mix(mix(hash, static_cast<uint64_t>(id)), std::bit_cast<uint32_t>(bias));
    }
  }
  hash = mix(hash, 1);
  const bool ends = eos_one_in > 0 && (hash >> 40) % static_cast<uint64_t>(eos_one_in) == 0;
  if (ends && !banned.contains(eos_id)) return eos_id;
  auto token = static_cast<int32_t>((hash & 0xffffffffu) % static_cast<uint64_t>(vocab_size));
  for (int32_t tries = 0; token == eos_id || banned.contains(token); ++tries) {
    if (tries == vocab_size) return -1;
    token = (token + 1) % vocab_size;
  }
  return token;
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
             .max_logit_rows = model_.max_seqs + model_.max_scored_tokens,
             .max_context = model_.max_context,
             .vocab_size = model_.vocab_size,
             .embedding_size = model_.embedding_size,
             .pipeline_depth = model_.depth};
  if (model_.embedding_size > 0) limits_.max_tokens = std::max(limits_.max_tokens, limits_.max_context);
  CHECK(model_.windows.empty() || model_.windows[0] == 0);  // the first group remembers all ids
  const size_t groups = model_.embedding_size > 0 ? 0 : model_.num_blocks.size();
  for (size_t g = 0; g < groups; ++g) {
    const int32_t blocks = model_.num_blocks[g], window = model_.windows.empty() ? 0 : model_.windows[g];
    limits_.groups.push_back({KvSpec{.heads = 1, .head_dim = 1, .window = window}, 1, blocks});
    pools_.emplace_back(static_cast<size_t>(blocks) * kKvBlockTokens);
  }
}

runtime::RunnerMemory FakeRunner::memory() const {
  uint64_t kv = 0;
  for (const auto& pool : pools_) kv += pool.size() * sizeof(Cell);
  return {.weights = 0, .kv = kv, .arena = 0, .peak = kv};
}

Status FakeRunner::check(const StepPlan& plan) const {
  const auto& [tokens, seqs, rows, groups, blocks, biases, history, copies] = plan.header().counts;
  const auto wrong = [](const char* what, int64_t got) {
    return make_status(Code::invalid_argument, "step plan: {} ({})", what, got);
  };
  if (!StepPlan::valid(plan.block())) return wrong("block", static_cast<int64_t>(plan.block().size()));
  if (tokens < 1 || tokens > limits_.max_tokens) return wrong("tokens", tokens);
  if (seqs < 1 || seqs > limits_.max_seqs) return wrong("sequences", seqs);
  if (rows > limits_.max_logit_rows) return wrong("logit rows", rows);
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
    const int32_t target = plan.ints(StepField::target)[r], listed = plan.ints(StepField::num_logprobs)[r];
    if (target < -1 || target >= limits_.vocab_size) return wrong("target", target);
    if (listed < -1 || listed > runtime::kMaxLogprobs) return wrong("num_logprobs", listed);
    if (plan.ints(StepField::bias_start)[r] > plan.ints(StepField::bias_start)[r + 1]) return wrong("bias_start falls", r);
    if (plan.ints(StepField::history_start)[r] > plan.ints(StepField::history_start)[r + 1]) return wrong("history_start falls", r);
  }
  if (plan.ints(StepField::bias_start)[rows] != biases) return wrong("biases", biases);
  if (plan.ints(StepField::history_start)[rows] != history) return wrong("history", history);
  for (int32_t c = 0; c < copies; ++c) {
    const int32_t g = plan.ints(StepField::copy_group)[c];
    if (g < 0 || g >= groups) return wrong("copy_group", g);
    for (const StepField field : {StepField::copy_src, StepField::copy_dst}) {
      const int32_t block = plan.ints(field)[c];
      if (block < 1 || block >= limits_.groups[g].num_blocks) return wrong("copied block", block);
    }
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
    const int32_t window = limits_.groups[group].spec.window;
    if (window > 0 && position <= length - 1 - window) {
      ids[position] = -1;
      continue;
    }
    const Cell& cell = pools_[group][table[position / kKvBlockTokens] * kKvBlockTokens + position % kKvBlockTokens];
    ids[position] = cell.position == position ? cell.id : -1 - cell.position;
  }
  return ids;
}

runtime::StepResult FakeRunner::run(const StepPlan& plan) {
  const runtime::StepCounts& c = plan.header().counts;
  for (int32_t i = 0; i < c.copies; ++i) {
    std::vector<Cell>& pool = pools_[plan.ints(StepField::copy_group)[i]];
    std::copy_n(pool.begin() + plan.ints(StepField::copy_src)[i] * kKvBlockTokens, kKvBlockTokens,
                pool.begin() + plan.ints(StepField::copy_dst)[i] * kKvBlockTokens);
  }
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
    const int32_t length = positions[token] + 1;
    std::vector<int32_t> ids = read_back(plan, 0, s, length);
    // Groups that disagree about the sequence: an id that no prompt has makes the token differ.
    for (int g = 1; g < c.groups; ++g) {
      const std::vector<int32_t> others = read_back(plan, g, s, length);
      const int32_t window = limits_.groups[g].spec.window;
      const auto seen = window > 0 ? std::max(0, length - window) : 0;
      if (!std::equal(ids.begin() + seen, ids.end(), others.begin() + seen)) ids.push_back(-g);
    }
    const FakeSampling sampling = row_sampling(plan, r, ids);
    const int32_t next = model_.next_token(ids, sampling);
    result.tokens.push_back(next);
    if (plan.header().flags & runtime::kWantLogprobs) {
      const bool wanted = plan.ints(StepField::num_logprobs)[r] >= 0;
      add_logprobs(plan, r, wanted ? model_.logits(ids, sampling) : std::vector<float>(), next, result);
    }
    const int32_t slot = plan.ints(StepField::sample_slot)[r];
    if (slot >= 0) last_token_[slot] = next;
  }
  return result;
}

FakeSampling FakeRunner::row_sampling(const StepPlan& plan, int r, std::span<const int32_t> ids) const {
  const auto f = [&](StepField field) { return plan.floats(field)[r]; };
  const uint64_t low = static_cast<uint32_t>(plan.ints(StepField::seed_lo)[r]);
  const uint64_t high = static_cast<uint32_t>(plan.ints(StepField::seed_hi)[r]);
  FakeSampling sampling{.temperature = f(StepField::temperature),
                        .top_p = f(StepField::top_p),
                        .min_p = f(StepField::min_p),
                        .top_k = plan.ints(StepField::top_k)[r],
                        .seed = low | high << 32,
                        .stream = plan.ints(StepField::stream)[r],
                        .typical_p = f(StepField::typical_p),
                        .repetition_penalty = f(StepField::repetition_penalty),
                        .frequency_penalty = f(StepField::frequency_penalty),
                        .presence_penalty = f(StepField::presence_penalty)};
  for (int32_t i = plan.ints(StepField::bias_start)[r]; i < plan.ints(StepField::bias_start)[r + 1]; ++i) {
    sampling.biases.emplace_back(plan.ints(StepField::bias_token)[i], plan.floats(StepField::bias_value)[i]);
  }
  const int32_t begin = plan.ints(StepField::history_start)[r], end = plan.ints(StepField::history_start)[r + 1];
  if (begin == end) return sampling;
  sampling.num_prompt = plan.ints(StepField::output_start)[r] - begin;
  // The penalties must be told of exactly the ids that the sequence has; a number of prompt tokens that none has, where not.
  bool same = static_cast<size_t>(end - begin) == ids.size();
  for (int32_t i = begin; same && i < end; ++i) {
    const int32_t source = plan.ints(StepField::history)[i];
    same = ids[i - begin] == (source >= 0 ? source : last_token_[-source - 1]);
  }
  if (!same) sampling.num_prompt = -1;
  return sampling;
}

}  // namespace headrace::testing
