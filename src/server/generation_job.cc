#include "server/generation_job.h"

#include <algorithm>

#include "engine/generation.h"
#include "server/api_error.h"

namespace headrace::server {
namespace {

using engine::Event;
using engine::FinishReason;
using engine::RequestId;

std::string sse(std::string_view json) {
  return fmt::format("data: {}\n\n", json);
}

// Everything but the sinks' on_event runs in the responder's tasks: one at a time.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Backend& backend, std::shared_ptr<Responder> responder, GenerationJob job)
      : backend_(backend), responder_(std::move(responder)), job_(std::move(job)) {}

  void start();
  void post_event(size_t prompt, Event event);

 private:
  void on_event(size_t prompt, const Event& event);
  void on_last(const engine::RequestTiming& timing);
  void emit(const ChoiceDelta& delta);
  void write(std::string_view json);
  void complete();
  void fail(const ApiError& error);
  void abort_all();

  Backend& backend_;
  const std::shared_ptr<Responder> responder_;
  GenerationJob job_;
  std::vector<RequestId> ids_;
  std::vector<engine::TextAssembler> assemblers_;  // one per prompt
  std::vector<ChoiceDelta> choices_;               // so far; of a stream only `finish`
  size_t running_ = 0;
  bool over_ = false;
  Usage usage_;
};

// What the engine holds until a request's last event.
class Sink final : public engine::EventSink {
 public:
  Sink(std::shared_ptr<Generation> generation, size_t prompt)
      : generation_(std::move(generation)), prompt_(prompt) {}
  void on_event(Event event) override { generation_->post_event(prompt_, std::move(event)); }

 private:
  const std::shared_ptr<Generation> generation_;
  const size_t prompt_;
};

void Generation::start() {
  const int32_t n = job_.requests.front().n;
  choices_.resize(job_.requests.size() * static_cast<size_t>(n));
  for (size_t i = 0; i < choices_.size(); ++i) choices_[i].index = static_cast<int32_t>(i);
  running_ = job_.requests.size();
  assemblers_.reserve(running_);
  for (size_t i = 0; i < job_.requests.size(); ++i) {
    const engine::TextAssembler::Options options{.stop = job_.stop,
                                                 .starts_text = job_.requests[i].starts_text};
    assemblers_.emplace_back(backend_.tokenizer(), n, options);
    auto id = backend_.submit(std::move(job_.requests[i]), std::make_shared<Sink>(shared_from_this(), i));
    if (!id) {
      const std::string param = id.error().code() == Code::invalid_argument ? "prompt" : "";
      return fail(ApiError::from(id.error(), param));
    }
    ids_.push_back(*id);
  }
  if (job_.stream) {
    responder_->start_stream({.content_type = "text/event-stream; charset=utf-8",
                              .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
    for (const ChoiceDelta& choice : choices_) {
      if (const std::string opening = job_.format->opening(choice.index); !opening.empty()) write(opening);
    }
  }
  responder_->on_disconnect([&backend = backend_, ids = ids_] {
    for (const RequestId id : ids) backend.abort(id);
  });
}

void Generation::post_event(size_t prompt, Event event) {
  responder_->post(
      [self = shared_from_this(), prompt, event = std::move(event)] { self->on_event(prompt, event); });
}

void Generation::on_event(size_t prompt, const Event& event) {
  if (over_) return;
  if (event.finish == FinishReason::error) return fail(ApiError::from(event.status));
  engine::TextAssembler& assembler = assemblers_[prompt];
  const engine::TextDelta delta = assembler.push(event);
  const size_t per_prompt = choices_.size() / assemblers_.size();
  ChoiceDelta& choice = choices_[prompt * per_prompt + static_cast<size_t>(delta.choice)];
  // An abort is the echo of our own once a stop string has ended the choice; else the engine is shutting
  // down.
  if (choice.finish == FinishReason::none) {
    if (delta.finish == FinishReason::abort) {
      return fail({.status = 503, .message = "the server is shutting down", .code = "unavailable"});
    }
    ChoiceDelta step{.index = choice.index, .text = delta.text, .finish = delta.finish};
    // A stop string drops the last tokens of an event.
    const auto listed = static_cast<ptrdiff_t>(std::min(event.logprobs.size(), delta.token_ids.size()));
    step.logprobs.assign(event.logprobs.begin(), event.logprobs.begin() + listed);
    choice.finish = delta.finish;
    emit(step);
  }
  // Ended by a stop string, of which the engine knows nothing.
  if (delta.finish != FinishReason::none && event.finish == FinishReason::none)
    backend_.abort(ids_[prompt], delta.choice);
  if (delta.last) on_last(delta.timing);
}

void Generation::emit(const ChoiceDelta& delta) {
  if (job_.stream) {
    if (delta.text.empty() && delta.logprobs.empty() && delta.finish == FinishReason::none) return;
    return write(job_.format->event(delta));
  }
  ChoiceDelta& choice = choices_[static_cast<size_t>(delta.index)];
  choice.text += delta.text;
  choice.logprobs.insert(choice.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
}

void Generation::write(std::string_view json) {
  if (!responder_->write(sse(json))) {
    over_ = true;
    abort_all();
  }
}

void Generation::on_last(const engine::RequestTiming& timing) {
  usage_.prompt_tokens += timing.prompt_tokens;
  usage_.completion_tokens += timing.completion_tokens;
  usage_.cached_tokens += timing.cached_tokens;
  if (choices_.size() == 1) {
    usage_.timed = true;
    usage_.ttft_ms = timing.ttft_ms();
    usage_.tpot_ms = timing.tpot_ms();
    usage_.tokens_per_s = timing.tokens_per_s();
  }
  if (--running_ == 0 && !over_) complete();
}

void Generation::complete() {
  over_ = true;
  if (!job_.stream) return responder_->send({.body = job_.format->whole(choices_, usage_)});
  if (job_.include_usage) responder_->write(sse(job_.format->usage_event(usage_)));
  responder_->write(sse("[DONE]"));
  responder_->finish();
}

// Before a stream has begun this is the answer; after that it is the stream's last event.
void Generation::fail(const ApiError& error) {
  over_ = true;
  abort_all();
  responder_->send(error.response());
  responder_->write(sse(error.body()));
  responder_->finish();
}

void Generation::abort_all() {
  for (const RequestId id : ids_) backend_.abort(id);
}

}  // namespace

void start_generation(Backend& backend, std::shared_ptr<Responder> responder, GenerationJob job) {
  std::make_shared<Generation>(backend, std::move(responder), std::move(job))->start();
}

}  // namespace headrace::server
