#pragma once
// One answer of a model in the terminal: streamed as it comes, with its figures.

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/generation.h"

namespace headrace::cli {

struct AnswerOptions {
  engine::SamplingParams sampling;
  int32_t max_tokens = 512;
  std::vector<std::string> stop;
  bool starts_text = true;     // false: the prompt's continuation
  bool allow_special = false;  // special tokens written in messages are recognised
};

struct Answer {
  std::string text;
  std::vector<int32_t> token_ids;  // the end-of-sequence id that ended it included
  engine::FinishReason finish = engine::FinishReason::none;
  engine::RequestTiming timing;
};

// Generates from `prompt`; with `stream` the text goes to standard output as it comes. A Ctrl-C that the caller's
// InterruptGuard has seen ends the answer (FinishReason::abort), as does a standard output that nobody reads any more.
Result<Answer> answer(engine::ServingModel& model, std::vector<int32_t> prompt, const AnswerOptions& options, bool stream);

// "38 prompt tokens, 52 tokens; TTFT 41.2 ms, TPOT 5.21 ms, 171.3 tokens/s; peak memory 312 MB"
std::string figures_line(const engine::RequestTiming& timing);

}  // namespace headrace::cli
