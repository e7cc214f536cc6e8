#pragma once
// A text generation as its caller sees it: text deltas of whole characters, stop strings applied, and the figures at the
// end. The command line and the server use this same code, so their metrics mean the same.

#include <functional>
#include <string>
#include <vector>

#include "engine/serving_model.h"
#include "text/detokenizer.h"
#include "text/stream_decoder.h"

namespace headrace::engine {

struct TextDelta {
  int32_t choice = 0;
  std::string text;                    // may be empty
  std::vector<int32_t> token_ids;      // the tokens behind it, in order
  int32_t end_token = -1;              // as Event's
  FinishReason finish = FinishReason::none;
  bool last = false;                   // the whole request has ended: nothing follows
  Status status;
  RequestTiming timing;                // complete when `last`
};

// Turns engine events into text deltas. One per request; calls come from one thread at a time (the engine thread, or the
// strand that events were posted to).
class TextAssembler {
 public:
  struct Options {
    std::vector<std::string> stop;
    bool include_stop = false;
    int32_t min_tokens = 0;    // a stop string that so many tokens complete ends nothing
    bool starts_text = false;  // as Request's
  };
  TextAssembler(const text::Tokenizer& tokenizer, int32_t choices, const Options& options);
  // The delta for `event`. Once a stop string has ended a choice, its further tokens are dropped: they appear in no delta
  // and in no figure. The delta that ends the last choice is `last`, with complete timing; what the engine still sends
  // after it gives empty deltas.
  TextDelta push(const Event& event);
  // A stop string ended the last choice: the engine goes on until the caller aborts the request. (A choice that ends so
  // before the others, delta.finish set and event.finish not, can be aborted alone.)
  bool should_abort() const { return should_abort_; }

 private:
  struct Choice {
    text::Detokenizer detokenizer;
    text::StreamDecoder decoder;
    bool finished = false;
    int32_t tokens = 0;
  };
  void take_tokens(Choice& choice, const Event& event, TextDelta& delta) const;

  const int32_t min_tokens_;
  std::vector<Choice> choices_;
  int32_t num_finished_ = 0;
  TimePoint last_token_;  // of those that were delivered
  bool should_abort_ = false;
};

// Blocking use: submits and calls `on_delta` on the calling thread until the end. `cancelled` is polled between deltas;
// when it turns true the request is aborted. Returns the last delta, or the error that ended the request.
Result<TextDelta> generate(Engine& engine, const text::Tokenizer& tokenizer, Request request, std::vector<std::string> stop,
                           const std::function<void(const TextDelta&)>& on_delta,
                           const std::function<bool()>& cancelled = {});
// Errors: unsupported for a model without a tokenizer.
Result<TextDelta> generate(ServingModel& model, Request request, std::vector<std::string> stop,
                           const std::function<void(const TextDelta&)>& on_delta,
                           const std::function<bool()>& cancelled = {});

}  // namespace headrace::engine
