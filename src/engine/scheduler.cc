#include "engine/scheduler.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace headrace::engine {

namespace {

// Of `end` tokens, those that the penalties of the next sample look at.
int32_t history_of(const Sequence& sequence, int32_t end) { return has_penalties(sequence.sampling) ? end : 0; }

}  // namespace

// No more sequences run than the budget has tokens: then every decode fits into every step.
Scheduler::Scheduler(BlockManager& blocks, const SchedulerLimits& limits)
    : blocks_(blocks),
      limits_{.max_seqs = std::min(limits.max_seqs, limits.max_batched_tokens),
              .max_batched_tokens = limits.max_batched_tokens,
              .max_scored_tokens = limits.max_scored_tokens},
      free_slots_(static_cast<size_t>(limits_.max_seqs)) {
  std::iota(free_slots_.rbegin(), free_slots_.rend(), 0);
  running_.reserve(free_slots_.size());
  planned_.reserve(free_slots_.size());
}

void Scheduler::add(SequencePtr sequence) {
  CHECK(sequence->state == SequenceState::waiting);
  waiting_.insert(std::move(sequence));
}

std::span<const ScheduledSequence> Scheduler::schedule(int32_t prefill_budget) {
  planned_.clear();
  budget_ = limits_.max_batched_tokens;
  scored_budget_ = limits_.max_scored_tokens;
  history_budget_ = runtime::kMaxStepCount;
  const uint64_t preemptions_before = num_preemptions_;
  schedule_running(true);
  if (!planned_.empty()) budget_ = std::min(budget_, prefill_budget);
  schedule_running(false);
  // Where memory was just taken from a running sequence, a new one would only lose it again.
  if (num_preemptions_ == preemptions_before) admit_waiting();
  while (planned_.empty() && is_stuck()) {
    preempt(running_.back());
    admit_waiting();
  }
  return planned_;
}

// Sequences wait, those that run have nothing to compute, and no result is on its way that could change it.
bool Scheduler::is_stuck() const {
  return !waiting_.empty() && !running_.empty() && std::ranges::all_of(running_, [](const SequencePtr& sequence) {
    return sequence->num_pending_tokens == 0 && sequence->num_committed_tokens == sequence->num_computed_tokens;
  });
}

bool Scheduler::has_slot_for(const Sequence& sequence) const {
  const auto free = static_cast<int32_t>(free_slots_.size());
  if (sequence.group == nullptr) return free - num_kept_slots_ >= 1;
  return sequence.group->running > 0 ? free >= 1 : free - num_kept_slots_ >= sequence.group->width;
}

void Scheduler::schedule_running(bool decodes) {
  // Preemption takes sequences off the end of running_, possibly the current one.
  for (size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
    const SequencePtr sequence = running_[i];
    if (sequence->fully_sampled() || (sequence->num_uncomputed_tokens() == 1) != decodes) continue;
    if (sequence->awaits_token || sequence->num_pending_tokens > sequence->max_pending_tokens) continue;
    const int32_t count = chunk_of(*sequence);
    if (count > 0 && make_room(sequence, sequence->num_computed_tokens + count)) plan(sequence, count);
  }
}

// How many tokens the budgets leave to it.
int32_t Scheduler::chunk_of(const Sequence& sequence) const {
  const int32_t count = std::min(sequence.num_uncomputed_tokens(), budget_);
  if (count == sequence.num_uncomputed_tokens() && history_of(sequence, sequence.num_tokens()) > history_budget_) return 0;  // in a later step
  const int32_t last_scored = sequence.num_prompt_tokens - 1;  // it has no successor in the prompt
  const int32_t first = sequence.first_unscored_token();
  return first + scored_budget_ >= last_scored || first >= last_scored
             ? count
             : std::min(count, first + scored_budget_ - sequence.num_computed_tokens);
}

void Scheduler::admit_waiting() {
  for (auto next = waiting_.begin(); next != waiting_.end() && budget_ > 0;) {
    const SequencePtr sequence = *next;
    if (!may_start(*sequence)) {
      ++next;
      continue;
    }
    if (sequence->whole && sequence->num_uncomputed_tokens() > budget_) return;
    // A sequence of a better class takes the place of worse ones; within a class, those who run keep what they have.
    bool fits = take_prefix(*sequence);
    while (!fits && !running_.empty() && running_.back()->rank.priority > sequence->rank.priority) {
      preempt(running_.back());
      fits = take_prefix(*sequence);
    }
    if (!fits) return;
    const int32_t count = chunk_of(*sequence);
    if (count <= 0) {  // others score their prompts in this step; those behind it need not wait for that
      blocks_.free(*sequence);
      ++next;
      continue;
    }
    if (sequence->num_cached_tokens < 0) sequence->num_cached_tokens = sequence->num_computed_tokens;
    next = waiting_.erase(next);
    start(sequence);
    CHECK(blocks_.grow(*sequence, sequence->num_computed_tokens + count));
    plan(sequence, count);
  }
}

void Scheduler::start(const SequencePtr& sequence) {
  sequence->state = SequenceState::running;
  sequence->slot = free_slots_.back();
  free_slots_.pop_back();
  if (SequenceGroup* group = sequence->group.get()) num_kept_slots_ += group->running++ == 0 ? group->width - 1 : -1;
  running_.insert(std::upper_bound(running_.begin(), running_.end(), sequence, ByRank()), sequence);
}

// The further choices of a request wait until the first has computed the whole prompt, which they then share, or has ended.
bool Scheduler::may_start(const Sequence& sequence) const {
  if (sequence.awaits_token) return false;
  const Sequence* leader = sequence.leader.get();
  if (leader == nullptr || leader->state == SequenceState::finished) return true;
  return leader->num_committed_tokens >= sequence.num_prompt_tokens && leader->state == SequenceState::running;
}

// A slot, and blocks for all tokens of `sequence` beside what the running prefills were promised, and one more for each
// running sequence, so that their next tokens do not at once take the memory back. When true it holds what others have computed of it.
bool Scheduler::take_prefix(Sequence& sequence) {
  if (!has_slot_for(sequence)) return false;
  const Sequence* leader = sequence.leader.get();
  const bool forked = leader != nullptr && leader->state == SequenceState::running &&
                      static_cast<int32_t>(sequence.ids.size()) == sequence.num_prompt_tokens &&
                      blocks_.fork(*leader, sequence, sequence.num_prompt_tokens - 1);
  if (!forked) {
    const bool scores = sequence.first_unscored_token() < sequence.num_prompt_tokens - 1;
    blocks_.attach_prefix(sequence, scores ? sequence.num_scored_tokens : std::numeric_limits<int32_t>::max());
  }
  if (blocks_.has_room_for(sequence, running_)) return true;
  blocks_.free(sequence);
  return false;
}

void Scheduler::append(const SequencePtr& sequence, int32_t token) {
  sequence->ids.push_back(token);
  sequence->awaits_token = false;
}

void Scheduler::fork(const Sequence& parent, const SequencePtr& child) {
  CHECK(parent.num_pending_tokens == 0 && child->num_pending_tokens == 0 && child->state != SequenceState::finished);
  if (child->state == SequenceState::running) stop_running(child);
  waiting_.erase(child);
  child->state = SequenceState::waiting;
  child->ids = parent.ids;
  if (parent.state == SequenceState::running && has_slot_for(*child) && blocks_.fork(parent, *child, parent.num_committed_tokens)) {
    return start(child);
  }
  waiting_.insert(child);
}

// Grows the tables of a running sequence to `num_tokens`, at the cost of those behind it. False when it had to give up its
// own place: only possible when another stands before it.
bool Scheduler::make_room(const SequencePtr& sequence, int32_t num_tokens) {
  while (!blocks_.grow(*sequence, num_tokens)) {
    const SequencePtr last = running_.back();
    CHECK(running_.size() > 1);
    preempt(last);
    if (last == sequence) return false;
  }
  return true;
}

void Scheduler::plan(const SequencePtr& sequence, int32_t count) {
  const int32_t first = sequence->num_computed_tokens, end = first + count;
  const bool sample = !sequence->whole && count == sequence->num_uncomputed_tokens();
  const int32_t first_scored = sequence->first_unscored_token();
  const int32_t num_scored = std::max(0, std::min(end, sequence->num_prompt_tokens - 1) - first_scored);
  planned_.push_back({sequence, sequence->epoch, first, count, sample, first_scored, num_scored});
  sequence->num_computed_tokens = end;
  sequence->num_pending_tokens += sample ? 1 : 0;
  budget_ -= count;
  scored_budget_ -= num_scored;
  if (sample) history_budget_ -= history_of(*sequence, end);
}

void Scheduler::complete(const ScheduledSequence& row) {
  Sequence& sequence = *row.sequence;
  if (row.sample) {
    --sequence.num_pending_tokens;
    sequence.awaits_token = true;
  }
  if (row.num_scored > 0) sequence.num_scored_tokens = row.first_scored + row.num_scored;
  blocks_.commit(sequence, row.first + row.count);
}

// Its keys and values are given up and computed again later, together with its answer so far. Tokens still in flight are
// dropped: sampling is a function of the sequence and its position, so they come back the same.
void Scheduler::preempt(SequencePtr sequence) {
  stop_running(sequence);
  sequence->state = SequenceState::waiting;
  waiting_.insert(std::move(sequence));
  ++num_preemptions_;
}

void Scheduler::finish(const SequencePtr& sequence) {
  if (sequence->state == SequenceState::waiting) waiting_.erase(sequence);
  if (sequence->state == SequenceState::running) stop_running(sequence);
  sequence->state = SequenceState::finished;
}

void Scheduler::stop_running(const SequencePtr& sequence) {
  const auto planned = std::ranges::find(planned_, sequence, &ScheduledSequence::sequence);
  if (planned != planned_.end()) {
    budget_ += planned->count;
    scored_budget_ += planned->num_scored;
    if (planned->sample) history_budget_ += history_of(*sequence, planned->first + planned->count);
    planned_.erase(planned);
  }
  running_.erase(std::ranges::find(running_, sequence));
  free_slots_.push_back(sequence->slot);
  sequence->slot = -1;
  if (SequenceGroup* group = sequence->group.get()) num_kept_slots_ += --group->running == 0 ? 1 - group->width : 1;
  ++sequence->epoch;
  sequence->num_pending_tokens = 0;
  blocks_.free(*sequence);
}

Status Scheduler::check() const {
  std::vector<char> slot_used(static_cast<size_t>(limits_.max_seqs), 0);
  for (const int32_t slot : free_slots_) slot_used[slot] = 1;
  for (const SequencePtr& sequence : running_) {
    const Sequence& s = *sequence;
    const bool counts_agree = 0 <= s.num_committed_tokens && s.num_committed_tokens <= s.num_computed_tokens &&
                              s.num_computed_tokens <= s.num_tokens() && s.num_pending_tokens >= 0 &&
                              s.num_committed_tokens <= static_cast<int32_t>(s.ids.size());
    if (s.state != SequenceState::running || s.slot < 0 || slot_used[s.slot] || !counts_agree) {
      return make_status(Code::internal, "request {} choice {}: slot {}, {} ids, {} pending, {} computed, {} committed",
                         s.rank.request, s.rank.choice, s.slot, s.ids.size(), s.num_pending_tokens, s.num_computed_tokens,
                         s.num_committed_tokens);
    }
    slot_used[s.slot] = 1;
    for (const std::vector<int32_t>& table : s.block_tables) {
      if (static_cast<int32_t>(table.size()) < kv_blocks_for(s.num_computed_tokens)) {
        return make_status(Code::internal, "request {} choice {}: {} tokens in {} blocks", s.rank.request, s.rank.choice,
                           s.num_computed_tokens, table.size());
      }
    }
  }
  if (free_slots_.size() + running_.size() != slot_used.size()) return make_status(Code::internal, "a slot was lost");
  std::set<const SequenceGroup*> groups;
  int32_t kept = 0;
  for (const SequencePtr& sequence : running_) {
    if (sequence->group && groups.insert(sequence->group.get()).second) kept += sequence->group->width - sequence->group->running;
  }
  if (kept != num_kept_slots_ || kept > static_cast<int32_t>(free_slots_.size())) {
    return make_status(Code::internal, "{} slots kept for groups, {} counted, {} free", num_kept_slots_, kept, free_slots_.size());
  }
  return blocks_.check(running_);
}

}  // namespace headrace::engine
