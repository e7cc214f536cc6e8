#pragma once
// What a caller asks of the engine and what it hears back.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace headrace::engine {

using RequestId = uint64_t;

struct SamplingParams {
  float temperature = 1.0f;  // 0: arg-max
  float top_p = 1.0f;
  float min_p = 0.0f;
  int32_t top_k = 0;         // 0: off
  float typical_p = 1.0f;    // Meister et al. 2023; 1: off
  float repetition_penalty = 1.0f;  // Keskar et al. 2019, over prompt and answer; 1: off
  float frequency_penalty = 0.0f;   // a token of the answer loses so much for each time that it stands there
  float presence_penalty = 0.0f;    // and so much once
  std::vector<std::pair<int32_t, float>> logit_bias;  // added to an id's logit; at most kMaxBiases
  std::vector<std::vector<int32_t>> bad_words;        // sequences of ids that the answer will not contain
  uint64_t seed = 0;
};
// Whether ids before it change how probable a token is.
bool has_penalties(const SamplingParams& sampling);
inline constexpr int32_t kMaxBiases = 1024;
inline constexpr int32_t kMaxBadWords = 1024, kMaxBadWordIds = 16384;  // words, and ids in all of them

// Beam search: the `n` best of `width` hypotheses by sum of log-probabilities / length^length_penalty, as transformers computes it.
// Nothing is drawn: sampling parameters must be at their defaults. All tokens come at the end.
struct BeamParams {
  int32_t width = 0;  // 0: no beam search; at most kMaxBeams
  float length_penalty = 1.0f;
  bool early_stopping = false;  // end when `width` hypotheses have ended, without asking whether a longer one could win
};
inline constexpr int32_t kMaxBeams = 10;

enum class RequestKind : uint8_t { generate, embed, score, transcribe, infer };

struct Request {
  RequestKind kind = RequestKind::generate;
  std::vector<int32_t> prompt;            // at least one id, all in the vocabulary
  // embed: the texts, each as such ids; text i is choice i. What follows but priority is of no use then.
  std::vector<std::vector<int32_t>> inputs;
  int32_t max_tokens = 16;                // at least 1
  int32_t n = 1;                          // choices; the prompt's KV is shared
  SamplingParams sampling;
  std::vector<int32_t> stop_token_ids;    // end the choice; the model's EOS ids are added unless ignore_eos
  bool ignore_eos = false;
  int32_t min_tokens = 0;                 // no id that ends the choice is drawn before so many
  BeamParams beam;
  int32_t logprobs = -1;                  // each token comes with its log-probability and so many of the best; -1: none
  int32_t prompt_logprobs = -1;           // the same of the prompt's tokens but the first. Cached prefixes are then computed again
  bool starts_text = false;               // answers are texts of their own (a chat's), not the prompt's continuation: a
                                          // prefix space of the first token goes
  int32_t priority = 0;                   // lower runs first; equal ones in order of arrival
  TimePoint deadline = TimePoint::max();  // a request that has not ended by then ends with an error
  std::string cache_key;                  // opaque bytes: only requests with equal keys share cached prefixes (tenant, adapter)
};
inline constexpr int32_t kMaxChoices = 128;
inline constexpr int32_t kMaxInputs = 2048;

// What can be said of a request without knowing the load: kind, prompt, sampling parameters, ids against `vocab_size`.
// Errors: invalid_argument or unsupported, naming the field, the range and the value.
Status check_request(const Request& request, int32_t vocab_size);

enum class FinishReason : uint8_t { none, stop, length, abort, error };  // the later, the worse
const char* finish_reason_name(FinishReason reason);  // "stop", "length", ...

// A token and how probable the model held it, before any bias or penalty: natural logarithms.
struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;
  // The best, by falling log-probability, the lower id first on a tie; then `id` itself when it is not among them.
  std::vector<std::pair<int32_t, double>> top;
};

// When a request passed each point; docs/metrics.md defines the figures made of them.
struct RequestTiming {
  TimePoint arrived;      // submit() was entered
  TimePoint scheduled;    // its first token was planned
  TimePoint first_token;  // the step that sampled its first token returned
  TimePoint last_token;
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;      // of them, found in the prefix cache
  int32_t completion_tokens = 0;  // over all choices, as delivered: the id that stopped a choice is not counted
  int32_t longest_choice = 0;     // completion tokens of the choice that has most: choices advance side by side

  // 0 when no token came.
  double ttft_ms() const { return first_token < arrived ? 0.0 : ms_between(arrived, first_token); }
  // Mean time between tokens after the first; 0 with fewer than two tokens of one choice.
  double tpot_ms() const {
    return longest_choice < 2 ? 0.0 : ms_between(first_token, last_token) / (longest_choice - 1);
  }
  // Completion tokens over the time from arrival to the last token.
  double tokens_per_s() const {
    const double seconds = seconds_between(arrived, last_token);
    return seconds > 0 ? completion_tokens / seconds : 0.0;
  }
};

struct Event {
  RequestId request = 0;
  int32_t choice = 0;
  std::vector<int32_t> tokens;         // new ids of this choice; the end-of-sequence id that stopped it is not among them
  int32_t end_token = -1;              // that id, on the event that it ends the choice with
  std::vector<TokenLogprob> logprobs;  // with Request::logprobs: one of each of `tokens`
  std::vector<TokenLogprob> prompt_logprobs;  // with Request::prompt_logprobs, in the first event of choice 0: of ids 1 and on
  std::vector<float> embedding;        // embed: the vector of input `choice`; finish is `stop`
  FinishReason finish = FinishReason::none;  // set on the choice's last event
  bool last = false;                   // no further event of this request follows
  Status status;                       // not ok with FinishReason::error
  RequestTiming timing;                // as of this event; complete when `last`
};

// Hears the events of one request, on the engine thread, in order: it must return at once (post to a queue or a strand).
// The engine holds the sink until the event with `last`.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(Event event) = 0;
};

}  // namespace headrace::engine
