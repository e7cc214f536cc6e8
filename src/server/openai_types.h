#pragma once
// The bodies of the OpenAI API's requests, checked field by field. Every error names the field (`param`). A
// field that would change the answer and is not implemented is refused; one that could not change it is
// ignored.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "server/api_error.h"

namespace headrace::server {

struct ParseLimits {
  int32_t vocab_size = 0;   // ids must lie below
  int32_t max_choices = 1;  // choices times prompts
  int32_t embedding_size = 0;  // what an embedding may be cut to
};

// What both completions endpoints share.
struct GenerationFields {
  std::string model;
  std::optional<int32_t> max_tokens;  // 0 only with echo
  int32_t n = 1;
  int32_t best_of = 1;              // at least n: so many are drawn, or so wide is the beam, and the best n come back
  engine::SamplingParams sampling;  // a seed of its own when the request has none; without bad_words
  std::vector<std::string> bad_words;
  engine::BeamParams beam;
  std::vector<std::string> stop;
  bool include_stop = false;
  std::vector<int32_t> stop_token_ids;
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = false;
  std::optional<int32_t> logprobs;  // how many alternatives to list with each token
  std::optional<int32_t> prompt_logprobs;
  int32_t priority = 0;
  std::string cache_salt;
  TimePoint deadline = TimePoint::max();  // `timeout` from when the body was read
};

struct ChatRequest {
  GenerationFields fields;
  std::string messages_json;  // for ChatTemplate: contents are strings
  std::optional<bool> allow_special;
};

using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  GenerationFields fields;
  std::vector<Prompt> prompts;  // at least one
  bool echo = false;
  bool allow_special = true;
};

struct EmbeddingRequest {
  std::string model;
  std::vector<Prompt> inputs;  // at least one, none empty
  bool base64 = false;
  std::optional<int64_t> dimensions;
};

// Messages for the chat template, whatever it makes of them, and its other variables.
struct TemplateRequest {
  std::string model;          // "" when absent
  std::string messages_json;  // arguments of tool calls as objects, contents of text parts as strings
  std::string extra_json;
};

struct TokenizeRequest {
  std::string model;                    // "" when absent
  std::string prompt;                   // or
  std::optional<TemplateRequest> chat;  // when it is there
  bool add_special_tokens = true;
  std::optional<bool> allow_special;
  bool return_strings = false;  // the vocabulary's spelling of each id
  bool with_pieces = false;     // ids with their bytes
};

struct DetokenizeRequest {
  std::string model;
  std::vector<int32_t> tokens;
};

ApiResult<ChatRequest> parse_chat_request(std::string_view body, const ParseLimits& limits);
ApiResult<CompletionRequest> parse_completion_request(std::string_view body, const ParseLimits& limits);
ApiResult<EmbeddingRequest> parse_embedding_request(std::string_view body, const ParseLimits& limits);
ApiResult<TemplateRequest> parse_template_request(std::string_view body);
ApiResult<TokenizeRequest> parse_tokenize_request(std::string_view body);
ApiResult<DetokenizeRequest> parse_detokenize_request(std::string_view body, const ParseLimits& limits);

}  // namespace headrace::server
