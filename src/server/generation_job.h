#pragma once
// One HTTP request's generations: submits them, turns the engine's events into an answer or a stream of
// server-sent events, and aborts them when the client goes away or every choice has met its stop string.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/answer_format.h"
#include "server/backend.h"
#include "server/http.h"

namespace headrace::server {

struct GenerationJob {
  std::vector<engine::Request> requests;  // one per prompt; choice = prompt * n + the engine's choice
  std::vector<std::string> stop;
  bool stream = false;
  bool include_usage = false;
  std::optional<int32_t> logprobs;
  std::unique_ptr<AnswerFormat> format;
};

// Returns once everything is queued. Runs in a task of `responder`, which answers later; an error of submit()
// is answered at once, before any stream has begun.
void start_generation(Backend& backend, std::shared_ptr<Responder> responder, GenerationJob job);

}  // namespace headrace::server
