#pragma once
// From checked fields to engine requests and answer formats: what the completions endpoints share.

#include <cstdint>
#include <vector>

#include "server/endpoints.h"
#include "server/generation_job.h"
#include "server/openai_types.h"

namespace headrace::server {

ParseLimits parse_limits(const Backend& backend);
// What depends on the model: its name, its kind, the ids of bad words, which go into the sampling parameters.
std::optional<ApiError> resolve_fields(const ServerContext& context, GenerationFields& fields);
// Without requests and format.
GenerationJob make_job(const GenerationFields& fields);
engine::Request make_request(const GenerationFields& fields, std::vector<int32_t> prompt,
                             int32_t default_max_tokens);
AnswerOptions answer_options(const ServerContext& context, const GenerationFields& fields);

}  // namespace headrace::server
