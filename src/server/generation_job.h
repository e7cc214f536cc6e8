#pragma once
// One HTTP request's generations: submits them, turns the engine's events into an answer or a stream of
// server-sent events, and aborts them when the client goes away or every choice has met its stop string.

#include <memory>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/answer_format.h"
#include "server/backend.h"
#include "server/http.h"

namespace headrace::server {

struct GenerationJob {
  std::vector<engine::Request> requests;  // one per prompt, all with the same number of choices
  // Of each prompt's choices so many are answered; choice = prompt * n + its place. Where there are more, those with the highest
  // mean log-probability of a token, best first: then the requests ask for log-probabilities, and `stream` is false.
  int32_t n = 1;
  std::vector<std::string> stop;
  bool include_stop = false;
  bool without_tokens = false;  // the engine's least is one token: it is dropped
  bool stream = false;
  bool include_usage = false;
  std::unique_ptr<AnswerFormat> format;
};

// Returns once everything is queued. Runs in a task of `responder`, which answers later; an error of submit()
// is answered at once, before any stream has begun.
void start_generation(Backend& backend, std::shared_ptr<Responder> responder, GenerationJob job);

}  // namespace headrace::server
