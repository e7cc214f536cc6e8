#pragma once
// How a generation becomes JSON: chat.completion and text_completion, whole or as the events of a stream.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/logprobs.h"
#include "text/tokenizer.h"

namespace headrace::server {

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  // Of a request with one choice: the engine's own figures (docs/metrics.md).
  bool timed = false;
  double ttft_ms = 0, tpot_ms = 0, tokens_per_s = 0;
};

// What one event adds to a choice; summed up, the whole choice.
struct ChoiceDelta {
  int32_t index = 0;
  std::string text;
  std::vector<TokenLogprob> logprobs;  // one per token, when asked for
  engine::FinishReason finish = engine::FinishReason::none;
};

// One per HTTP request; used from one thread at a time. Every function gives one JSON object.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // The event that opens choice `index`, or "".
  virtual std::string opening(int32_t index) = 0;
  virtual std::string event(const ChoiceDelta& delta) = 0;
  // The log-probabilities of prompt number `prompt`, but for its first token: before opening() and whole().
  virtual void set_prompt_logprobs(size_t prompt, std::vector<TokenLogprob> tokens) = 0;
  virtual std::string usage_event(const Usage& usage) = 0;
  virtual std::string whole(const std::vector<ChoiceDelta>& choices, const Usage& usage) = 0;
};

struct AnswerOptions {
  std::string model;
  bool include_usage = false;  // events then carry "usage": null
  int32_t n = 1;               // choices of each prompt
  bool logprobs = false;
  int32_t top_logprobs = 0;
  int32_t prompt_logprobs = -1;  // so many of the best beside each of the prompt's tokens; -1: not listed
  const text::Tokenizer* tokenizer = nullptr;
};

// `text`, which is valid UTF-8, as it stands between the quotes of a JSON string.
void append_json_text(std::string& out, std::string_view text);

std::unique_ptr<AnswerFormat> make_chat_format(AnswerOptions options);

// What stands before the own texts of a prompt's choices.
struct CompletionPrompt {
  std::string echo_text;  // "" without echo
  // With echo and logprobs: at first its first token alone, which nothing precedes: it is listed as null.
  std::vector<TokenLogprob> echo_tokens;
  TextOffsets offsets;  // at the first token that is listed: the prompt's first or the answer's
};
std::unique_ptr<AnswerFormat> make_completion_format(AnswerOptions options,
                                                     std::vector<CompletionPrompt> prompts);

// "chatcmpl-" and 24 random hexadecimal digits.
std::string random_id(std::string_view prefix);

}  // namespace headrace::server
