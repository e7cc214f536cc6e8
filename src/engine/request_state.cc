#include "engine/request_state.h"

#include <algorithm>

namespace headrace::engine {

bool RequestState::is_stop(int32_t token) const { return std::ranges::binary_search(stop_ids, token); }

void RequestState::set_id(RequestId new_id) {
  id = new_id;
  for (const SequencePtr& choice : choices) choice->rank.request = new_id;
}

namespace {

void add_inputs(RequestState& state, Request request) {
  for (std::vector<int32_t>& input : request.inputs) {
    auto sequence = std::make_shared<Sequence>();
    sequence->rank = {.priority = request.priority, .choice = state.num_unfinished++};
    sequence->whole = true;
    sequence->num_prompt_tokens = static_cast<int32_t>(input.size());
    sequence->ids = std::move(input);
    state.timing.prompt_tokens += sequence->num_prompt_tokens;
    state.choices.push_back(std::move(sequence));
  }
}

}  // namespace

std::shared_ptr<RequestState> make_request_state(Request request, std::shared_ptr<EventSink> sink,
                                                 const std::vector<int32_t>& eos_ids, TimePoint arrived) {
  auto state = std::make_shared<RequestState>();
  state->sink = std::move(sink);
  state->timing.arrived = arrived;
  state->stop_ids = std::move(request.stop_token_ids);
  if (!request.ignore_eos) state->stop_ids.insert(state->stop_ids.end(), eos_ids.begin(), eos_ids.end());
  std::ranges::sort(state->stop_ids);
  if (request.kind == RequestKind::embed) {
    add_inputs(*state, std::move(request));
    return state;
  }
  state->timing.prompt_tokens = static_cast<int32_t>(request.prompt.size());
  state->num_unfinished = request.n;
  for (int32_t choice = 0; choice < request.n; ++choice) {
    auto sequence = std::make_shared<Sequence>();
    sequence->rank = {.priority = request.priority, .choice = choice};
    sequence->sampling = request.sampling;
    sequence->want_logits = request.want_logits;
    sequence->num_prompt_tokens = static_cast<int32_t>(request.prompt.size());
    sequence->max_tokens = request.max_tokens;
    sequence->cache_key = request.cache_key;
    if (choice > 0) sequence->leader = state->choices.front();
    sequence->ids = request.prompt;
    state->choices.push_back(std::move(sequence));
  }
  return state;
}

}  // namespace headrace::engine
