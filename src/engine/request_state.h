#pragma once
// A request from its arrival to its last event: its choices, and what was told to its sink. Owned by the engine; touched by
// the engine thread alone once it has been queued.

#include <memory>
#include <vector>

#include "engine/request.h"
#include "engine/sequence.h"

namespace headrace::engine {

struct RequestState {
  RequestId id = 0;
  std::shared_ptr<EventSink> sink;
  std::vector<int32_t> stop_ids;  // sorted
  std::vector<SequencePtr> choices;
  RequestTiming timing;
  bool scheduled = false;  // some token of it was planned
  int32_t num_unfinished = 0;

  bool is_stop(int32_t token) const;
  void set_id(RequestId new_id);
};

// `eos_ids` end its choices unless it ignores them.
std::shared_ptr<RequestState> make_request_state(Request request, std::shared_ptr<EventSink> sink,
                                                 const std::vector<int32_t>& eos_ids, TimePoint arrived);

}  // namespace headrace::engine
