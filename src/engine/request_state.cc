#include "engine/request_state.h"

#include <algorithm>

namespace headrace::engine {

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

void add_beams(RequestState& state, const Request& request, const std::vector<int32_t>& stop_ids) {
  state.beams = std::make_unique<BeamSearch>(request.beam, stop_ids, request.min_tokens, request.max_tokens, request.logprobs);
  state.beam_candidates.resize(static_cast<size_t>(request.beam.width));
  state.sequence_of_beam = {0};
  state.num_beams_awaited = 1;
  state.num_results = request.n;
  state.lists_logprobs = request.logprobs >= 0;
}

// A bad word of several ids asks for the ids before it; the penalties take the last id from the device.
int32_t max_pending_tokens(const SamplingParams& sampling) {
  if (std::ranges::any_of(sampling.bad_words, [](const auto& word) { return word.size() > 1; })) return 0;
  return has_penalties(sampling) ? 1 : std::numeric_limits<int32_t>::max();
}

}  // namespace

std::shared_ptr<RequestState> make_request_state(Request request, std::shared_ptr<EventSink> sink,
                                                 const std::vector<int32_t>& eos_ids, TimePoint arrived) {
  auto state = std::make_shared<RequestState>();
  state->sink = std::move(sink);
  state->timing.arrived = arrived;
  if (request.kind == RequestKind::embed) {
    add_inputs(*state, std::move(request));
    return state;
  }
  state->timing.prompt_tokens = static_cast<int32_t>(request.prompt.size());
  state->deadline = request.deadline;
  std::vector<int32_t> stop_ids = std::move(request.stop_token_ids);
  if (!request.ignore_eos) stop_ids.insert(stop_ids.end(), eos_ids.begin(), eos_ids.end());
  std::ranges::sort(stop_ids);
  stop_ids.erase(std::ranges::unique(stop_ids).begin(), stop_ids.end());
  const bool beams = request.beam.width > 0;
  if (beams) add_beams(*state, request, stop_ids);
  state->num_unfinished = beams ? request.beam.width : request.n;
  const auto group = beams ? std::make_shared<SequenceGroup>(SequenceGroup{.width = request.beam.width}) : nullptr;
  for (int32_t choice = 0; choice < state->num_unfinished; ++choice) {
    auto sequence = std::make_shared<Sequence>();
    sequence->rank = {.priority = request.priority, .choice = choice};
    sequence->sampling = request.sampling;
    sequence->stop_ids = stop_ids;
    sequence->min_tokens = request.min_tokens;
    sequence->max_tokens = request.max_tokens;
    sequence->num_logprobs = beams ? std::max(state->beams->num_candidates(), request.logprobs) : request.logprobs;
    if (choice == 0) sequence->num_prompt_logprobs = request.prompt_logprobs;
    sequence->max_pending_tokens = beams ? 0 : max_pending_tokens(request.sampling);
    sequence->num_prompt_tokens = static_cast<int32_t>(request.prompt.size());
    sequence->cache_key = request.cache_key;
    sequence->group = group;
    if (choice > 0 && !beams) sequence->leader = state->choices.front();
    sequence->ids = request.prompt;
    state->choices.push_back(std::move(sequence));
  }
  return state;
}

}  // namespace headrace::engine
