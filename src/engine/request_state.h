#pragma once
// A request from its arrival to its last event: its choices, and what was told to its sink. Owned by the engine; touched by
// the engine thread alone once it has been queued.

#include <memory>
#include <vector>

#include "engine/beam_search.h"
#include "engine/request.h"
#include "engine/sequence.h"

namespace headrace::engine {

struct RequestState {
  RequestId id = 0;
  std::shared_ptr<EventSink> sink;
  std::vector<SequencePtr> choices;
  RequestTiming timing;
  bool scheduled = false;  // some token of it was planned
  FinishReason outcome = FinishReason::none;  // the worst of those of its choices that have ended
  int32_t num_unfinished = 0;
  TimePoint deadline = TimePoint::max();
  std::vector<TokenLogprob> prompt_logprobs;  // of ids 1 and on, until the first event takes them

  // Beam search: its sequences are `choices`, its choices the hypotheses at the end.
  std::unique_ptr<BeamSearch> beams;
  std::vector<TokenLogprob> beam_candidates;  // [beam], as they come in
  std::vector<int32_t> sequence_of_beam;      // by live beam: which of `choices` it lies in
  int32_t num_beams_awaited = 0;
  int32_t num_results = 0;  // hypotheses that are asked for
  bool lists_logprobs = false;

  void set_id(RequestId new_id);
};

// `eos_ids` end its choices unless it ignores them.
std::shared_ptr<RequestState> make_request_state(Request request, std::shared_ptr<EventSink> sink,
                                                 const std::vector<int32_t>& eos_ids, TimePoint arrived);

}  // namespace headrace::engine
