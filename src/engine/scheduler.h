#pragma once
// Decides how many tokens each sequence advances in the next step: decodes first, then chunks of running prefills, then
// new sequences, within a token budget. Texts to embed come whole; the budget must hold the longest. Works from counts alone, so the
// next step can be planned while one runs; a sequence whose next token depends on ids that must be known waits for them. Knows
// neither requests nor the runner. Not thread-safe.
//
// Why it can neither deadlock nor livelock: sequences are ordered by rank, totally. Memory is taken from the last in that
// order and never from one that stands before the taker, so the first running sequence always advances (alone it fits the
// pool: the engine refuses what does not). Nothing is admitted past the first waiting sequence that could start but does
// not fit, so whoever waits moves to the front as those before it end. Sequences of a group wait for each other: with the first
// that runs, slots for all are kept; and where no sequence can advance because groups hold the memory that others of them need, the
// last in order gives its up.

#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "engine/block_manager.h"
#include "engine/sequence.h"

namespace headrace::engine {

struct SchedulerLimits {
  int32_t max_seqs = 1;            // running at once; one slot each
  int32_t max_batched_tokens = 1;  // of one step
  int32_t max_scored_tokens = 0;   // prompt tokens of one step whose log-probabilities are asked for
};

class Scheduler {
 public:
  Scheduler(BlockManager& blocks, const SchedulerLimits& limits);

  void add(SequencePtr sequence);  // it waits from now on

  // Plans one step and counts it as computed. The rows are valid until the next call: decodes before prefills. Empty when
  // nothing can advance before a result is known. Beside decodes, prompts get at most `prefill_budget` tokens.
  std::span<const ScheduledSequence> schedule(int32_t prefill_budget = std::numeric_limits<int32_t>::max());

  // A planned row came back. False when it no longer counts: its sequence was preempted or has ended since.
  static bool is_current(const ScheduledSequence& row) { return row.epoch == row.sequence->epoch; }
  // Its keys and values are written. Call for current rows only. Where it sampled, append() must follow before the sequence advances.
  void complete(const ScheduledSequence& row);
  // The next id of a sequence: what its row sampled, or what was chosen for it.
  void append(const SequencePtr& sequence, int32_t token);
  // `child` goes on from where `parent` is: with its ids, and with its keys and values as far as memory and slots allow; else it
  // waits and computes them again. Neither may have tokens in flight. A child that was never added becomes known by this.
  void fork(const Sequence& parent, const SequencePtr& child);

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
  int32_t chunk_of(const Sequence& sequence) const;
  bool has_slot_for(const Sequence& sequence) const;
  bool is_stuck() const;
  bool may_start(const Sequence& sequence) const;
  bool take_prefix(Sequence& sequence);
  void start(const SequencePtr& sequence);
  bool make_room(const SequencePtr& sequence, int32_t num_tokens);
  void plan(const SequencePtr& sequence, int32_t count);
  void preempt(SequencePtr sequence);
  void stop_running(const SequencePtr& sequence);

  BlockManager& blocks_;
  const SchedulerLimits limits_;
  std::set<SequencePtr, ByRank> waiting_;
  std::vector<SequencePtr> running_;  // by rank
  std::vector<int32_t> free_slots_;
  int32_t num_kept_slots_ = 0;  // of the free ones: for sequences of groups of which others run
  std::vector<ScheduledSequence> planned_;  // the step being planned
  int32_t budget_ = 0;                      // tokens that it may still take
  int32_t scored_budget_ = 0;               // and prompt tokens to score
  int32_t history_budget_ = 0;              // and tokens that penalties look at
  uint64_t num_preemptions_ = 0;
};

}  // namespace headrace::engine
