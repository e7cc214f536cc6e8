#pragma once
// A conversation in the terminal.

#include <string>

#include "base/status.h"
#include "cli/answer.h"

namespace headrace::cli {

// Reads lines and answers until the end of the input or /exit. With `raw` each line is a prompt of its own, without the
// chat template. A turn that fails says why and the conversation goes on.
Status chat(engine::ServingModel& model, const AnswerOptions& options, std::string system, bool raw);

// The conversation as encode_chat wants it: [{"role": "user", "content": "..."}]. `system` may be empty.
std::string one_turn(const std::string& system, const std::string& user);

}  // namespace headrace::cli
