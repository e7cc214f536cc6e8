#pragma once
// A text generation as its caller sees it: text deltas of whole characters, stop strings applied, and the figures at the
// end. The command line and the server use this same code, so their metrics mean the same.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/serving_model.h"
#include "text/stream_decoder.h"

namespace headrace::engine {

struct TextDelta {
  int32_t choice = 0;
  std::string text;                    // may be empty
  std::vector<int32_t> token_ids;      // the tokens behind it, in order
  FinishReason finish = FinishReason::none;
  bool last = false;                   // the whole request has ended
  Status status;
  RequestTiming timing;                // complete when `last`
};

// Turns engine events into text deltas. One per request; calls come from one thread at a time (the engine thread, or the
// strand that events were posted to).
class TextAssembler {
 public:
  TextAssembler(const text::Tokenizer& tokenizer, int32_t choices, std::vector<std::string> stop, bool include_stop = false);
  // The delta for `event`. Once a stop string has ended a choice, its further tokens are dropped and `should_abort`
  // becomes true when every choice has ended: the caller then aborts the request.
  TextDelta push(const Event& event);
  bool should_abort() const;

 private:
  struct Choice {
    text::StreamDecoder decoder;
    bool finished = false;
    int32_t tokens = 0;
  };
  const text::Tokenizer& tokenizer_;
  std::vector<Choice> choices_;
  int32_t finished_ = 0;
  RequestTiming timing_;
  bool ended_ = false;
};

// Blocking use: submits and calls `on_delta` on the calling thread until the end. `cancelled` is polled between deltas;
// when it turns true the request is aborted. Returns the last delta, or the error.
Result<TextDelta> generate(ServingModel& model, Request request, std::vector<std::string> stop,
                           const std::function<void(const TextDelta&)>& on_delta,
                           const std::function<bool()>& cancelled = {});

}  // namespace headrace::engine
