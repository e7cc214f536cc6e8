#include "server/endpoints/common.h"

namespace headrace::server {

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

GenerationJob make_job(const GenerationFields& fields) {
  return {.stop = fields.stop,
          .stream = fields.stream,
          .include_usage = fields.include_usage,
          .logprobs = fields.logprobs};
}

engine::Request make_request(const GenerationFields& fields, std::vector<int32_t> prompt,
                             int32_t default_max_tokens) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = fields.max_tokens.value_or(default_max_tokens);
  request.n = fields.n;
  request.sampling = fields.sampling;
  request.ignore_eos = fields.ignore_eos;
  request.logprobs = fields.logprobs.value_or(-1);
  return request;
}

AnswerOptions answer_options(const ServerContext& context, const GenerationFields& fields) {
  return {.model = context.backend.card().id,
          .include_usage = fields.include_usage,
          .logprobs = fields.logprobs.has_value(),
          .top_logprobs = fields.logprobs.value_or(0),
          .tokenizer = &context.backend.tokenizer()};
}

}  // namespace headrace::server
