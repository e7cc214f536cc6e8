#pragma once
// Decides how many tokens each sequence advances in the next step: decodes first, then chunks of running prefills, then
// new sequences, within a token budget. Texts to embed come whole; the budget must hold the longest. Works from counts alone, so the next step can be planned while one runs. Knows
// neither requests nor the runner. Not thread-safe.
//
// Why it can neither deadlock nor livelock: sequences are ordered by rank, totally. Memory is taken from the last in that
// order and never from one that stands before the taker, so the first running sequence always advances (alone it fits the
// pool: the engine refuses what does not). Nothing is admitted past the first waiting sequence that could start but does
// not fit, so whoever waits moves to the front as those before it end.

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "engine/block_manager.h"
#include "engine/sequence.h"

namespace headrace::engine {

struct SchedulerLimits {
  int32_t max_seqs = 1;            // running at once; one slot each
  int32_t max_batched_tokens = 1;  // of one step
};

class Scheduler {
 public:
  Scheduler(BlockManager& blocks, const SchedulerLimits& limits);

  void add(SequencePtr sequence);  // it waits from now on

  // Plans one step and counts it as computed. The rows are valid until the next call: decodes before prefills. Empty when
  // nothing can advance before a result is known.
  std::span<const ScheduledSequence> schedule();

  // A planned row came back. False when it no longer counts: its sequence was preempted or has ended since.
  static bool is_current(const ScheduledSequence& row) { return row.epoch == row.sequence->epoch; }
  // Its keys and values are written; `token` is what it sampled (row.sample). Call for current rows only.
  void complete(const ScheduledSequence& row, int32_t token);

  // Ends a sequence in whatever state it is and gives back what it holds.
  void finish(const SequencePtr& sequence);

  std::span<const SequencePtr> running() const { return running_; }  // by rank
  size_t num_waiting() const { return waiting_.size(); }
  uint64_t num_preemptions() const { return num_preemptions_; }

  // Slots, states and counts of the running sequences, and all of BlockManager::check. Errors: internal.
  Status check() const;

 private:
  struct ByRank {
    bool operator()(const SequencePtr& a, const SequencePtr& b) const { return a->rank < b->rank; }
  };
  void schedule_running(bool decodes);
  void admit_waiting();
  bool may_start(const Sequence& sequence) const;
  bool has_room_for(Sequence& sequence);
  bool make_room(const SequencePtr& sequence, int32_t num_tokens);
  void plan(const SequencePtr& sequence, int32_t count);
  void preempt(SequencePtr sequence);
  void stop_running(const SequencePtr& sequence);

  BlockManager& blocks_;
  const SchedulerLimits limits_;
  std::set<SequencePtr, ByRank> waiting_;
  std::vector<SequencePtr> running_;  // by rank
  std::vector<int32_t> free_slots_;
  std::vector<ScheduledSequence> planned_;  // the step being planned
  int32_t budget_ = 0;                      // tokens that it may still take
  uint64_t num_preemptions_ = 0;
};

}  // namespace headrace::engine
