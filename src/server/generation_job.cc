#include "server/generation_job.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "engine/generation.h"
#include "server/api_error.h"

namespace headrace::server {
namespace {

using engine::Event;
using engine::FinishReason;
using engine::RequestId;

// The field that an error of the engine is about: its message begins with the name.
std::string param_of(const Status& status) {
  if (status.code() != Code::invalid_argument) return {};
  const std::string& message = status.message();
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  const std::string name = message.substr(0, end);
  if (name == "beam") return "use_beam_search";
  const std::string_view rest = std::string_view(message).substr(std::min(end, message.size()));
  const bool is_field = rest.starts_with(':') || rest.starts_with('[') || rest.starts_with(" and ");
  return is_field ? name : std::string();
}

// Everything but the sinks' on_event runs in the responder's tasks: one at a time.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Backend& backend, std::shared_ptr<Responder> responder, GenerationJob job)
      : backend_(backend), responder_(std::move(responder)), job_(std::move(job)) {}

  void start();
  void post_event(size_t prompt, Event event);

 private:
  void begin_stream();
  void open_choices(size_t prompt);
  void on_event(size_t prompt, Event event);
  void take_prompt_logprobs(size_t prompt, Event event);
  void push(size_t prompt, Event event);
  void keep_best();
  void on_last(const engine::RequestTiming& timing);
  void emit(ChoiceDelta delta);
  void write(std::string_view json);
  void complete();
  void fail(const ApiError& error);
  ApiError error_of(const Status& status) const;
  void abort_all();

  Backend& backend_;
  const std::shared_ptr<Responder> responder_;
  GenerationJob job_;
  std::vector<RequestId> ids_;
  std::vector<engine::TextAssembler> assemblers_;  // one per prompt
  std::vector<ChoiceDelta> choices_;               // the engine's, so far; of a stream only `finish`
  // By prompt: its log-probabilities are still to come, with the first event of its choice 0; other choices' events wait.
  std::vector<char> awaits_logprobs_;
  std::vector<std::vector<Event>> waiting_;
  std::string line_;  // of the stream
  TimePoint deadline_ = TimePoint::max();
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
  waiting_.resize(running_);
  assemblers_.reserve(running_);
  for (size_t i = 0; i < job_.requests.size(); ++i) {
    engine::Request& request = job_.requests[i];
    const engine::TextAssembler::Options options{.stop = job_.stop,
                                                 .include_stop = job_.include_stop,
                                                 .min_tokens = request.min_tokens,
                                                 .starts_text = request.starts_text};
    assemblers_.emplace_back(backend_.tokenizer(), n, options);
    awaits_logprobs_.push_back(request.prompt_logprobs >= 0);
    deadline_ = request.deadline;
    auto id = backend_.submit(std::move(request), std::make_shared<Sink>(shared_from_this(), i));
    if (!id) return fail(error_of(id.error()));
    ids_.push_back(*id);
  }
  if (job_.stream) begin_stream();
  responder_->on_disconnect([&backend = backend_, ids = ids_] {
    for (const RequestId id : ids) backend.abort(id);
  });
}

void Generation::begin_stream() {
  responder_->start_stream({.content_type = "text/event-stream; charset=utf-8",
                            .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
  for (size_t prompt = 0; prompt < assemblers_.size(); ++prompt) {
    if (!awaits_logprobs_[prompt]) open_choices(prompt);
  }
}

void Generation::open_choices(size_t prompt) {
  const size_t n = choices_.size() / assemblers_.size();
  for (size_t i = prompt * n; i < (prompt + 1) * n; ++i) {
    if (const std::string opening = job_.format->opening(static_cast<int32_t>(i)); !opening.empty()) write(opening);
  }
}

void Generation::post_event(size_t prompt, Event event) {
  responder_->post([self = shared_from_this(), prompt, event = std::move(event)]() mutable {
    self->on_event(prompt, std::move(event));
  });
}

void Generation::on_event(size_t prompt, Event event) {
  if (over_) return;
  if (event.finish == FinishReason::error) return fail(error_of(event.status));
  if (awaits_logprobs_[prompt]) return take_prompt_logprobs(prompt, std::move(event));
  push(prompt, std::move(event));
}

void Generation::take_prompt_logprobs(size_t prompt, Event event) {
  if (event.choice != 0) return waiting_[prompt].push_back(std::move(event));
  awaits_logprobs_[prompt] = false;
  job_.format->set_prompt_logprobs(prompt, std::move(event.prompt_logprobs));
  if (job_.stream) open_choices(prompt);
  push(prompt, std::move(event));
  for (Event& other : std::exchange(waiting_[prompt], {})) {
    if (!over_) push(prompt, std::move(other));
  }
}

void Generation::push(size_t prompt, Event event) {
  engine::TextAssembler& assembler = assemblers_[prompt];
  engine::TextDelta delta = assembler.push(event);
  const size_t per_prompt = choices_.size() / assemblers_.size();
  ChoiceDelta& choice = choices_[prompt * per_prompt + static_cast<size_t>(delta.choice)];
  // An abort is the echo of our own once a stop string has ended the choice; else the engine is shutting
  // down.
  if (choice.finish == FinishReason::none) {
    if (delta.finish == FinishReason::abort) {
      return fail({.status = 503, .message = "the server is shutting down", .code = "unavailable"});
    }
    choice.finish = delta.finish;
    ChoiceDelta step{.index = choice.index, .finish = delta.finish};
    if (job_.without_tokens) {
      if (delta.finish != FinishReason::none) choice.finish = step.finish = FinishReason::length;
    } else {
      step.text = std::move(delta.text);
      step.logprobs = std::move(event.logprobs);
      // A stop string drops the last tokens of an event.
      if (step.logprobs.size() > delta.token_ids.size()) step.logprobs.resize(delta.token_ids.size());
    }
    emit(std::move(step));
  }
  // Ended by a stop string, of which the engine knows nothing.
  if (delta.finish != FinishReason::none && event.finish == FinishReason::none)
    backend_.stop(ids_[prompt], delta.choice);
  if (delta.last) on_last(delta.timing);
}

void Generation::emit(ChoiceDelta delta) {
  if (job_.stream) {
    if (delta.text.empty() && delta.logprobs.empty() && delta.finish == FinishReason::none) return;
    return write(job_.format->event(delta));
  }
  ChoiceDelta& choice = choices_[static_cast<size_t>(delta.index)];
  choice.text += delta.text;
  std::ranges::move(delta.logprobs, std::back_inserter(choice.logprobs));
}

// One server-sent event.
void Generation::write(std::string_view json) {
  line_.assign("data: ").append(json).append("\n\n");
  if (!responder_->write(line_)) {
    over_ = true;
    abort_all();
  }
}

// Of each prompt's choices the `n` with the highest mean log-probability of a token stay, best first. One without tokens is the
// last.
void Generation::keep_best() {
  const auto drawn = choices_.size() / assemblers_.size(), n = static_cast<size_t>(job_.n);
  if (drawn == n) return;
  const auto mean = [](const ChoiceDelta& choice) {
    double sum = 0;
    for (const TokenLogprob& token : choice.logprobs) sum += token.logprob;
    return choice.logprobs.empty() ? -HUGE_VAL : sum / static_cast<double>(choice.logprobs.size());
  };
  std::vector<ChoiceDelta> best;
  for (auto first = choices_.begin(); first != choices_.end(); first += static_cast<ptrdiff_t>(drawn)) {
    std::stable_sort(first, first + static_cast<ptrdiff_t>(drawn),
                     [&](const ChoiceDelta& a, const ChoiceDelta& b) { return mean(a) > mean(b); });
    std::move(first, first + job_.n, std::back_inserter(best));
  }
  choices_ = std::move(best);
  for (size_t i = 0; i < choices_.size(); ++i) choices_[i].index = static_cast<int32_t>(i);
}

void Generation::on_last(const engine::RequestTiming& timing) {
  usage_.prompt_tokens += timing.prompt_tokens;
  usage_.cached_tokens += timing.cached_tokens;
  if (!job_.without_tokens) usage_.completion_tokens += timing.completion_tokens;
  if (choices_.size() == 1 && !job_.without_tokens) {
    usage_.timed = true;
    usage_.ttft_ms = timing.ttft_ms();
    usage_.tpot_ms = timing.tpot_ms();
    usage_.tokens_per_s = timing.tokens_per_s();
  }
  if (--running_ == 0 && !over_) complete();
}

void Generation::complete() {
  over_ = true;
  if (!job_.stream) {
    keep_best();
    return responder_->send({.body = job_.format->whole(choices_, usage_)});
  }
  if (job_.include_usage) write(job_.format->usage_event(usage_));
  write("[DONE]");
  responder_->finish();
}

// Before a stream has begun this is the answer; after that it is the stream's last event.
void Generation::fail(const ApiError& error) {
  over_ = true;
  abort_all();
  responder_->send(error.response());
  write(error.body());
  responder_->finish();
}

ApiError Generation::error_of(const Status& status) const {
  ApiError error = ApiError::from(status, param_of(status));
  if (status.code() == Code::unavailable && Clock::now() >= deadline_) {
    error.status = 504;
    error.code = "timeout";
    error.param = "timeout";
  }
  return error;
}

void Generation::abort_all() {
  for (const RequestId id : ids_) backend_.abort(id);
}

}  // namespace

void start_generation(Backend& backend, std::shared_ptr<Responder> responder, GenerationJob job) {
  std::make_shared<Generation>(backend, std::move(responder), std::move(job))->start();
}

}  // namespace headrace::server
