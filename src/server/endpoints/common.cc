#include "server/endpoints/common.h"

#include <algorithm>
#include <chrono>

namespace headrace::server {
namespace {

// As vLLM does it: a word is banned as it begins a text and, where a space before it makes another token of it, as it stands
// within one. Where the space is a token of its own, the first form bans the second.
Status add_bad_words(const text::Tokenizer& tokenizer, const std::vector<std::string>& words,
                     std::vector<std::vector<int32_t>>& sequences) {
  for (const std::string& word : words) {
    const std::string bare = word.substr(word.find_first_not_of(' '));
    HR_ASSIGN_OR_RETURN(text::Encoding start, tokenizer.encode(bare, {.add_special_tokens = false}));
    HR_ASSIGN_OR_RETURN(text::Encoding within, tokenizer.encode(" " + bare, {.add_special_tokens = false}));
    const bool differs = !start.ids.empty() && within.ids.size() == start.ids.size() && within.ids[0] != start.ids[0];
    sequences.push_back(std::move(start.ids));
    if (differs) sequences.push_back(std::move(within.ids));
  }
  return {};
}

}  // namespace

std::optional<ApiError> check_model(const ServerContext& context, const std::string& model) {
  const std::string& served = context.backend.card().id;
  if (model == served) return std::nullopt;
  return ApiError{
      .status = 404,
      .message = fmt::format("model: this server serves \"{}\", not \"{}\"", served, model.substr(0, 200)),
      .param = "model",
      .code = "model_not_found"};
}

std::optional<ApiError> check_generates(const ServerContext& context) {
  if (context.backend.limits().embedding_size == 0) return std::nullopt;
  return ApiError{.status = 400,
                  .message = fmt::format("model: \"{}\" makes embeddings and generates no text; POST /v1/embeddings",
                                         context.backend.card().id),
                  .param = "model",
                  .code = "unsupported_model"};
}

ParseLimits parse_limits(const Backend& backend) {
  return {.vocab_size = backend.limits().vocab_size,
          .max_choices = engine::kMaxChoices,
          .embedding_size = backend.limits().embedding_size};
}

std::optional<ApiError> resolve_fields(const ServerContext& context, GenerationFields& fields) {
  if (auto wrong = check_model(context, fields.model)) return wrong;
  if (auto wrong = check_generates(context)) return wrong;
  const Status status = add_bad_words(context.backend.tokenizer(), fields.bad_words, fields.sampling.bad_words);
  if (!status.ok()) return ApiError::from(status, "bad_words");
  return std::nullopt;
}

GenerationJob make_job(const GenerationFields& fields) {
  return {.n = fields.n,
          .stop = fields.stop,
          .include_stop = fields.include_stop,
          .without_tokens = fields.max_tokens == 0,
          .stream = fields.stream,
          .include_usage = fields.include_usage};
}

engine::Request make_request(const GenerationFields& fields, std::vector<int32_t> prompt,
                             int32_t default_max_tokens) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = std::max(1, fields.max_tokens.value_or(default_max_tokens));
  request.beam = fields.beam;
  request.n = fields.beam.width > 0 ? fields.n : fields.best_of;
  request.sampling = fields.sampling;
  if (fields.beam.width > 0) request.sampling.temperature = 0;  // nothing is drawn
  request.stop_token_ids = fields.stop_token_ids;
  request.ignore_eos = fields.ignore_eos;
  request.min_tokens = fields.min_tokens;
  request.logprobs = fields.logprobs.value_or(-1);
  if (request.n > fields.n) request.logprobs = std::max(0, request.logprobs);  // what the choices are ranked by
  request.prompt_logprobs = fields.prompt_logprobs.value_or(-1);
  request.priority = fields.priority;
  request.cache_key = fields.cache_salt;
  request.deadline = fields.deadline;
  return request;
}

AnswerOptions answer_options(const ServerContext& context, const GenerationFields& fields) {
  return {.model = context.backend.card().id,
          .include_usage = fields.include_usage,
          .n = fields.n,
          .logprobs = fields.logprobs.has_value(),
          .top_logprobs = fields.logprobs.value_or(0),
          .prompt_logprobs = fields.prompt_logprobs.value_or(-1),
          .tokenizer = &context.backend.tokenizer()};
}

}  // namespace headrace::server
