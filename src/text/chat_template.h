#pragma once
// The Jinja template that a checkpoint carries, rendered as `transformers` renders it (a sandboxed environment with
// trim_blocks and lstrip_blocks, the loop controls, `generation` blocks, tojson, strftime_now, raise_exception).
// Templates are hostile input: rendering is bounded in steps, output bytes and depth, and touches nothing outside
// its variables. Thread-safe after parsing.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace headrace::text {

struct RenderedPrompt {
  std::string text;
  // What the template's own text wrote, as opposed to what came out of the variables. Sorted, disjoint: give them
  // to Tokenizer::encode with SpecialTokens::in_trusted, so that a special token spelled inside a message stays text.
  std::vector<ByteRange> trusted;
};

struct RenderLimits {
  uint64_t max_steps = 50'000'000;        // evaluated nodes
  size_t max_output_bytes = 64u << 20;
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  // Errors: malformed (a syntax error, with its line), unsupported (a construct that is not implemented).
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source);

  // `variables_json`: a JSON object, usually {messages, add_generation_prompt, tools?, bos_token, eos_token, ...}.
  // Errors: invalid_argument with the template's own words when it calls raise_exception, malformed for a run-time
  // error of the template (its line is named), resource_exhausted past `limits`.
  virtual Result<RenderedPrompt> render(std::string_view variables_json, const RenderLimits& limits = {}) const = 0;
};

}  // namespace headrace::text
