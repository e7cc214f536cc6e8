#include "engine/generation.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/check.h"

namespace headrace::engine {
namespace {

// Events on their way from the engine thread to the thread that waits for them.
class EventQueue final : public EventSink {
 public:
  void on_event(Event event) override {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    arrived_.notify_one();
  }
  // False when nothing came within `patience`.
  bool pop(std::chrono::milliseconds patience, Event& event) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, patience, [&] { return !events_.empty(); })) return false;
    event = std::move(events_.front());
    events_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Event> events_;
};

// How long a cancellation can go unseen while no token comes.
constexpr std::chrono::milliseconds kPollInterval{20};

}  // namespace

TextAssembler::TextAssembler(const text::Tokenizer& tokenizer, int32_t choices, const Options& options)
    : min_tokens_(options.min_tokens) {
  const auto begin = options.starts_text ? text::Detokenizer::Begin::text : text::Detokenizer::Begin::anywhere;
  for (int32_t i = 0; i < choices; ++i) {
    choices_.push_back(
        {text::Detokenizer(tokenizer, begin), text::StreamDecoder({options.stop, options.include_stop})});
  }
}

TextDelta TextAssembler::push(const Event& event) {
  CHECK(event.choice >= 0 && event.choice < static_cast<int32_t>(choices_.size()));
  TextDelta delta{.choice = event.choice, .status = event.status, .timing = event.timing};
  Choice& choice = choices_[event.choice];
  if (choice.finished) return delta;
  take_tokens(choice, event, delta);
  if (!delta.token_ids.empty() || last_token_ == TimePoint()) last_token_ = event.timing.last_token;
  if (choice.decoder.stopped()) {
    delta.finish = FinishReason::stop;
  } else if (event.finish != FinishReason::none) {
    delta.text += choice.decoder.push(choice.detokenizer.finish());
    delta.text += choice.decoder.finish();
    delta.finish = event.finish;
    delta.end_token = event.end_token;
  }
  if (delta.finish != FinishReason::none) {
    choice.finished = true;
    ++num_finished_;
    delta.last = num_finished_ == static_cast<int32_t>(choices_.size());
    should_abort_ = delta.last && !event.last;
  }
  delta.timing.last_token = last_token_;
  delta.timing.completion_tokens = delta.timing.longest_choice = 0;
  for (const Choice& each : choices_) {
    delta.timing.completion_tokens += each.tokens;
    delta.timing.longest_choice = std::max(delta.timing.longest_choice, each.tokens);
  }
  return delta;
}

void TextAssembler::take_tokens(Choice& choice, const Event& event, TextDelta& delta) const {
  for (const int32_t token : event.tokens) {
    if (choice.decoder.stopped()) return;
    choice.decoder.ignore_stops(choice.tokens < min_tokens_);
    delta.text += choice.decoder.push(choice.detokenizer.push(token));
    delta.token_ids.push_back(token);
    ++choice.tokens;
  }
}

Result<TextDelta> generate(Engine& engine, const text::Tokenizer& tokenizer, Request request, std::vector<std::string> stop,
                           const std::function<void(const TextDelta&)>& on_delta,
                           const std::function<bool()>& cancelled) {
  TextAssembler assembler(
      tokenizer, request.n,
      {.stop = std::move(stop), .min_tokens = request.min_tokens, .starts_text = request.starts_text});
  const auto queue = std::make_shared<EventQueue>();
  HR_ASSIGN_OR_RETURN(const RequestId id, engine.submit(std::move(request), queue));
  bool aborted = false;
  for (Event event;;) {
    if (!aborted && cancelled && cancelled()) {
      engine.abort(id);
      aborted = true;
    }
    if (!queue->pop(kPollInterval, event)) continue;
    const TextDelta delta = assembler.push(event);
    if (!delta.status.ok()) {
      engine.abort(id);
      return tl::unexpected(delta.status);
    }
    if (on_delta) on_delta(delta);
    if (delta.finish != FinishReason::none && event.finish == FinishReason::none) engine.stop(id, delta.choice);
    if (delta.last) return delta;
  }
}

Result<TextDelta> generate(ServingModel& model, Request request, std::vector<std::string> stop,
                           const std::function<void(const TextDelta&)>& on_delta,
                           const std::function<bool()>& cancelled) {
  if (!model.has_tokenizer()) {
    return error(Code::unsupported, "model {} has no tokenizer: it can be benchmarked, not asked", model.card().id);
  }
  return generate(model.engine(), model.tokenizer(), std::move(request), std::move(stop), on_delta, cancelled);
}

}  // namespace headrace::engine
