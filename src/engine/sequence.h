#pragma once
// One choice of a request as the scheduler sees it. Its tokens advance in counts first and in ids later: a step is planned
// from counts while the step before it still runs, so the last token of a sequence may be sampled but not yet known.
// Owned by shared pointers, because steps in flight still name sequences that have ended; touched by one thread.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/request.h"

namespace headrace::engine {

// Who goes first. A total order: all fairness arguments of the scheduler rest on it.
struct SequenceRank {
  int32_t priority = 0;   // lower runs first
  RequestId request = 0;  // rises with arrival
  int32_t choice = 0;
  auto operator<=>(const SequenceRank&) const = default;
};

enum class SequenceState : uint8_t { waiting, running, finished };

// Sequences that advance together, one token at a time: the beams of a search. None gets far while another waits.
struct SequenceGroup {
  const int32_t width;  // sequences
  int32_t running = 0;  // of them
};

struct Sequence {
  // What was asked; fixed.
  SequenceRank rank;
  SamplingParams sampling;
  std::vector<int32_t> stop_ids;  // sorted: one of them, sampled, ends the choice
  bool whole = false;  // embed: all tokens go through in one step, and none is sampled (max_tokens is 0)
  int32_t num_prompt_tokens = 0;
  int32_t min_tokens = 0;  // before so many no stop id is sampled
  int32_t max_tokens = 0;
  int32_t num_logprobs = -1;         // as Request::logprobs
  int32_t num_prompt_logprobs = -1;  // as Request::prompt_logprobs
  // So many tokens may be in flight when another is planned: what is sampled depends on ids that must be known by then.
  int32_t max_pending_tokens = std::numeric_limits<int32_t>::max();
  std::string cache_key;
  std::shared_ptr<SequenceGroup> group;    // null: it advances by itself
  std::shared_ptr<const Sequence> leader;  // choice 0 of the request, in the others: they wait to share its prompt blocks

  // ids[0, ids.size()): prompt and answer, as far as known. Then follow num_pending_tokens that steps in flight sample.
  std::vector<int32_t> ids;
  int32_t num_pending_tokens = 0;
  bool awaits_token = false;  // a result came and its token is not appended yet: until then it does not advance
  // Keys and values: [0, num_committed_tokens) are written; up to num_computed_tokens submitted steps write them.
  int32_t num_computed_tokens = 0;
  int32_t num_committed_tokens = 0;
  int32_t num_scored_tokens = 0;   // prompt positions, from 0 on, whose next id's log-probability was asked for (num_prompt_logprobs)
  int32_t num_cached_tokens = -1;  // found in the prefix cache at the first admission; -1: not yet admitted

  SequenceState state = SequenceState::waiting;
  int32_t slot = -1;   // of the runner's last-token array while running
  uint32_t epoch = 0;  // rises when the sequence leaves the running ones: results of older epochs no longer count
  std::vector<std::vector<int32_t>> block_tables;  // [group][block]
  std::vector<int32_t> cache_nodes;  // the prefix-cache node of block i, for the leading blocks that are in the cache

  int32_t num_tokens() const { return static_cast<int32_t>(ids.size()) + num_pending_tokens; }
  int32_t num_uncomputed_tokens() const { return num_tokens() - num_computed_tokens; }
  // All tokens that may be asked for are sampled, known or not: no step advances it any more.
  bool fully_sampled() const { return num_tokens() - num_prompt_tokens >= max_tokens; }
  // The first uncomputed position whose successor's log-probability is still to be asked for; the prompt's end when none is.
  int32_t first_unscored_token() const {
    return num_prompt_logprobs < 0 ? num_prompt_tokens : std::max(num_computed_tokens, num_scored_tokens);
  }
  bool is_stop(int32_t token) const { return std::ranges::binary_search(stop_ids, token); }
};
using SequencePtr = std::shared_ptr<Sequence>;

// Sequence `sequence` advances in a step: tokens [first, first + count) are computed and, when that reaches its end,
// the next one is sampled.
struct ScheduledSequence {
  SequencePtr sequence;
  uint32_t epoch = 0;
  int32_t first = 0;
  int32_t count = 0;
  bool sample = false;
  // Prompt log-probabilities: the positions [first_scored, first_scored + num_scored) of these tokens have a logit row each,
  // whose target is the id that follows. They stand before the row that samples.
  int32_t first_scored = 0;
  int32_t num_scored = 0;
  int32_t num_rows() const { return num_scored + (sample ? 1 : 0); }
};

}  // namespace headrace::engine
