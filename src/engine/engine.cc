// The engine thread. Callers leave requests and aborts in a mailbox; between two steps the thread empties it, plans as many
// steps as the runner's pipeline holds, and waits for the oldest. Everything below the mailbox belongs to that thread.
#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "base/log.h"
#include "engine/admission.h"
#include "engine/block_manager.h"
#include "engine/request_state.h"
#include "engine/scheduler.h"
#include "engine/step_builder.h"
#include "engine/step_pace.h"

namespace headrace::engine {
namespace {

using RequestPtr = std::shared_ptr<RequestState>;

// The runner's limits, its context cut to what was configured.
runtime::RunnerLimits engine_limits(const EngineConfig& config, runtime::RunnerLimits limits) {
  if (config.max_context > 0 && config.max_context < limits.max_context) {
    limits.max_context = static_cast<int32_t>(config.max_context);
  }
  return limits;
}

}  // namespace

class Engine::Impl {
 public:
  Impl(std::unique_ptr<runtime::ModelRunner> runner, const EngineConfig& config, std::vector<int32_t> eos_ids)
      : runner_(std::move(runner)),
        limits_(engine_limits(config, runner_->limits())),
        config_(config),
        eos_ids_(std::move(eos_ids)),
        scheduler_limits_(scheduler_limits(config, limits_)),
        admission_(limits_, scheduler_limits_, eos_ids_),
        blocks_(limits_.groups, max_uncommitted(scheduler_limits_, limits_)),
        scheduler_(blocks_, scheduler_limits_),
        pace_(static_cast<double>(config.target_tpot_ms) * 1e-3),
        pipeline_(static_cast<size_t>(limits_.pipeline_depth) + 1) {
    memory_ = runner_->memory();
    update_gauges(stats_);
    thread_ = std::thread([this] { run(); });
  }

  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);
  void abort(RequestId id, int32_t choice, FinishReason reason);
  void clear_prefix_cache();
  void shutdown();

  EngineStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  runtime::RunnerMemory memory() const {
    const std::lock_guard lock(mutex_);
    return memory_;
  }
  void set_observer(std::shared_ptr<EngineObserver> observer) {
    const std::lock_guard lock(mutex_);
    observer_ = std::move(observer);
  }
  const runtime::RunnerLimits& limits() const { return limits_; }

 private:
  // A step that was submitted and not yet waited for.
  struct Step {
    runtime::Ticket ticket;
    TimePoint submitted;
    std::vector<ScheduledSequence> rows;
  };

  struct Abort {
    RequestId id;
    int32_t choice;
    FinishReason reason;
  };

  void run();
  bool take_mail();
  void submit_steps();
  void note_scheduled(std::span<const ScheduledSequence> rows, TimePoint now);
  void retire_step();
  Status check_result(const Step& step, const runtime::StepResult& result) const;
  void apply_result(const Step& step, const runtime::StepResult& result, TimePoint now);
  void apply_embedding(const ScheduledSequence& row, std::span<const float> embedding, TimePoint now);
  void apply_scores(const ScheduledSequence& row, const runtime::StepResult& result, size_t index);
  void apply_token(const ScheduledSequence& row, const runtime::StepResult& result, size_t index, TimePoint now);
  void apply_beam(RequestState& request, const ScheduledSequence& row, TokenLogprob candidates, TimePoint now);
  void finish_beams(RequestState& request, TimePoint now);
  void end_late_requests();
  void publish_step(const Step& step, TimePoint now);
  void count_tokens(RequestState& request, int32_t count, int32_t length, TimePoint now);
  void finish_choice(RequestState& request, Sequence& choice, Event event);
  void end_choice(RequestState& request, Event event);
  void end_choices(RequestState& request, int32_t which, FinishReason reason, const Status& status = {});
  void end_all(FinishReason reason, const Status& status = {});
  void count_ended(const RequestState& request, FinishReason reason);
  void fail_running(uint64_t step, const Status& status);
  void update_gauges(EngineStats& stats) const;
  bool has_work() const { return num_in_flight_ > 0 || !requests_.empty(); }

  const std::unique_ptr<runtime::ModelRunner> runner_;
  const runtime::RunnerLimits limits_;
  const EngineConfig config_;
  const std::vector<int32_t> eos_ids_;
  const SchedulerLimits scheduler_limits_;
  const Admission admission_;

  // The mailbox and what is read from outside; mutex_ guards them.
  mutable std::mutex mutex_;
  std::condition_variable mail_;
  std::vector<RequestPtr> arrivals_;
  std::vector<Abort> aborts_;
  bool clear_cache_ = false;
  bool stop_ = false;
  Status lost_;  // not ok once the device is gone
  RequestId next_id_ = 1;
  EngineStats stats_;
  runtime::RunnerMemory memory_;
  std::shared_ptr<EngineObserver> observer_;

  // The engine thread's own.
  BlockManager blocks_;
  Scheduler scheduler_;
  StepPace pace_;
  StepBuilder builder_;
  std::unordered_map<RequestId, RequestPtr> requests_;
  std::vector<RequestPtr> new_requests_;
  std::vector<Abort> new_aborts_;
  std::set<std::pair<TimePoint, RequestId>> deadlines_;
  std::vector<BlockCopy> copies_;
  runtime::StepPlan plan_;
  std::vector<Step> pipeline_;  // a ring; num_in_flight_ steps from oldest_ on
  size_t oldest_ = 0;
  size_t num_in_flight_ = 0;
  uint64_t num_steps_ = 0;
  uint64_t num_generated_ = 0;
  TimePoint last_retired_;

  std::mutex join_mutex_;
  std::thread thread_;
};

// ---- Callers' threads

Result<RequestId> Engine::Impl::submit(Request request, std::shared_ptr<EventSink> sink) {
  const TimePoint arrived = Clock::now();
  Status status = admission_.check(request);
  if (status.ok() && request.deadline <= arrived) status = make_status(Code::unavailable, "the request's deadline had passed when it came");
  RequestPtr state;
  if (status.ok()) state = make_request_state(std::move(request), std::move(sink), eos_ids_, arrived);
  const std::lock_guard lock(mutex_);
  if (status.ok() && stop_) status = make_status(Code::unavailable, "the engine is shutting down");
  if (status.ok()) status = lost_;
  if (status.ok() && stats_.requests_waiting >= static_cast<uint64_t>(config_.max_queue)) {
    status = make_status(Code::resource_exhausted, "the queue holds {} requests, as many as --max-queue allows: try again later",
                         stats_.requests_waiting);
  }
  if (!status.ok()) {
    ++stats_.requests_rejected;
    return tl::unexpected(std::move(status));
  }
  state->set_id(next_id_++);
  ++stats_.requests_waiting;
  arrivals_.push_back(state);
  mail_.notify_one();
  return state->id;
}

void Engine::Impl::abort(RequestId id, int32_t choice, FinishReason reason) {
  const std::lock_guard lock(mutex_);
  aborts_.push_back({id, choice, reason});
  mail_.notify_one();
}

void Engine::Impl::clear_prefix_cache() {
  const std::lock_guard lock(mutex_);
  clear_cache_ = true;
  mail_.notify_one();
}

void Engine::Impl::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    mail_.notify_one();
  }
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

// ---- The engine thread

void Engine::Impl::run() {
  while (take_mail()) {
    submit_steps();
    if (num_in_flight_ > 0) retire_step();
    if (config_.check_every_step) {
      const Status status = scheduler_.check();
      if (!status.ok()) log_error("after step {}: {}", num_steps_, status.message());
      CHECK(status.ok());
    }
  }
  end_all(FinishReason::abort);
  while (num_in_flight_ > 0) retire_step();  // a runner must not be destroyed with steps in flight
}

// Waits while there is nothing to do. False: shut down; what the mailbox held is in requests_ all the same.
bool Engine::Impl::take_mail() {
  bool clear = false, stop = false;
  Status lost;
  {
    std::unique_lock lock(mutex_);
    mail_.wait(lock, [&] { return stop_ || clear_cache_ || !arrivals_.empty() || !aborts_.empty() || has_work(); });
    new_requests_.swap(arrivals_);
    new_aborts_.swap(aborts_);
    clear = std::exchange(clear_cache_, false);
    stop = stop_;
    lost = lost_;
  }
  for (RequestPtr& request : new_requests_) {
    // The other beams begin as forks of the first.
    const size_t count = request->beams ? 1 : request->choices.size();
    for (size_t i = 0; i < count; ++i) scheduler_.add(request->choices[i]);
    if (request->deadline != TimePoint::max()) deadlines_.emplace(request->deadline, request->id);
    requests_.emplace(request->id, std::move(request));
  }
  for (const Abort& abort : new_aborts_) {
    const auto found = requests_.find(abort.id);
    if (found != requests_.end()) end_choices(*found->second, abort.choice, abort.reason);
  }
  new_requests_.clear();
  new_aborts_.clear();
  end_late_requests();
  if (!lost.ok()) end_all(FinishReason::error, lost);  // accepted before the device was gone
  if (clear) {
    blocks_.clear_prefix_cache();
    const std::lock_guard lock(mutex_);
    update_gauges(stats_);
  }
  return !stop;
}

void Engine::Impl::end_late_requests() {
  const TimePoint now = deadlines_.empty() ? TimePoint() : Clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto found = requests_.find(deadlines_.begin()->second);
    deadlines_.erase(deadlines_.begin());
    if (found == requests_.end()) continue;
    end_choices(*found->second, kAllChoices, FinishReason::error,
                make_status(Code::unavailable, "the request's deadline passed after {:.0f} ms",
                            ms_between(found->second->timing.arrived, now)));
  }
}

void Engine::Impl::submit_steps() {
  while (num_in_flight_ < pipeline_.size()) {
    const std::span<const ScheduledSequence> rows = scheduler_.schedule(pace_.prefill_budget());
    if (rows.empty()) break;
    Step& step = pipeline_[(oldest_ + num_in_flight_) % pipeline_.size()];
    step.submitted = Clock::now();
    step.rows.assign(rows.begin(), rows.end());
    note_scheduled(rows, step.submitted);
    blocks_.take_copies(copies_);
    builder_.build(++num_steps_, rows, blocks_.num_groups(), copies_, plan_);
    Result<runtime::Ticket> ticket = runner_->submit(plan_);
    if (!ticket) {
      while (num_in_flight_ > 0) retire_step();
      step.rows.clear();
      fail_running(num_steps_, ticket.error());
      return;
    }
    step.ticket = *ticket;
    ++num_in_flight_;
  }
  // The scheduler promises that someone advances when no result is awaited.
  CHECK(num_in_flight_ > 0 || requests_.empty());
}

void Engine::Impl::note_scheduled(std::span<const ScheduledSequence> rows, TimePoint now) {
  for (const ScheduledSequence& row : rows) {
    RequestState& request = *requests_.at(row.sequence->rank.request);
    if (request.scheduled) continue;
    request.scheduled = true;
    request.timing.scheduled = now;
    request.timing.cached_tokens = row.sequence->num_cached_tokens;
    const std::lock_guard lock(mutex_);
    --stats_.requests_waiting;
    ++stats_.requests_running;
    stats_.prompt_tokens += static_cast<uint64_t>(request.timing.prompt_tokens);
    if (row.sequence->num_prompt_logprobs >= 0) continue;  // whose prompt is not looked up
    stats_.prefix_query_tokens += static_cast<uint64_t>(request.timing.prompt_tokens);
    stats_.prefix_hit_tokens += static_cast<uint64_t>(request.timing.cached_tokens);
  }
}

// Waits for the oldest step and hands out what it brought.
void Engine::Impl::retire_step() {
  Step& step = pipeline_[oldest_];
  Result<runtime::StepResult> result = runner_->wait(step.ticket);
  const TimePoint now = Clock::now();
  oldest_ = (oldest_ + 1) % pipeline_.size();
  --num_in_flight_;
  Status status = result ? check_result(step, *result) : result.error();
  if (status.ok()) {
    apply_result(step, *result, now);
    publish_step(step, now);
  } else {
    fail_running(step.ticket.step, status);
  }
  step.rows.clear();
}

Status Engine::Impl::check_result(const Step& step, const runtime::StepResult& result) const {
  size_t rows = 0;
  bool want_logprobs = false;
  for (const ScheduledSequence& row : step.rows) {
    rows += static_cast<size_t>(row.num_rows());
    want_logprobs |= row.num_scored > 0 || (row.sample && row.sequence->num_logprobs >= 0);
  }
  const size_t embeddings = step.rows.size() * static_cast<size_t>(limits_.embedding_size);
  const size_t logprobs = want_logprobs ? rows : 0, listed = logprobs * runtime::kMaxLogprobs;
  if (result.embeddings.size() == embeddings && result.tokens.size() == rows && result.logprobs.size() == logprobs &&
      result.top_ids.size() == listed && result.top_logprobs.size() == listed) {
    return {};
  }
  return make_status(Code::internal,
                     "step {}: want {} numbers of embeddings, {} tokens, {} log-probabilities and {} beside them from the model "
                     "runner, got {}, {}, {}, {} and {}",
                     step.ticket.step, embeddings, rows, logprobs, listed, result.embeddings.size(), result.tokens.size(),
                     result.logprobs.size(), result.top_ids.size(), result.top_logprobs.size());
}

namespace {

// Row `index` of a result: the log-probability of `id`, and the `num_listed` best.
TokenLogprob read_logprob(const runtime::StepResult& result, size_t index, int32_t id, int32_t num_listed) {
  TokenLogprob token{.id = id, .logprob = static_cast<double>(result.logprobs[index])};
  const size_t at = index * runtime::kMaxLogprobs;
  for (size_t i = 0; i < static_cast<size_t>(num_listed) && result.top_ids[at + i] >= 0; ++i) {
    token.top.emplace_back(result.top_ids[at + i], static_cast<double>(result.top_logprobs[at + i]));
  }
  if (std::ranges::find(token.top, id, &std::pair<int32_t, double>::first) == token.top.end()) token.top.emplace_back(id, token.logprob);
  return token;
}

}  // namespace

void Engine::Impl::apply_result(const Step& step, const runtime::StepResult& result, TimePoint now) {
  const size_t width = static_cast<size_t>(limits_.embedding_size);
  size_t next_row = 0, place = 0;
  for (const ScheduledSequence& row : step.rows) {
    const size_t index = next_row, at = place++;
    next_row += static_cast<size_t>(row.num_rows());
    if (!Scheduler::is_current(row)) continue;  // preempted, ended or aborted while the step ran
    if (row.sequence->whole) {
      apply_embedding(row, std::span(result.embeddings).subspan(at * width, width), now);
      continue;
    }
    if (row.num_scored > 0) apply_scores(row, result, index);
    if (!Scheduler::is_current(row)) continue;
    if (row.sample) {
      apply_token(row, result, index + static_cast<size_t>(row.num_scored), now);
    } else {
      scheduler_.complete(row);
    }
  }
}

// Prompt log-probabilities, from logit row `index` on.
void Engine::Impl::apply_scores(const ScheduledSequence& row, const runtime::StepResult& result, size_t index) {
  const Sequence& sequence = *row.sequence;
  RequestState& request = *requests_.at(sequence.rank.request);
  for (int32_t i = 0; i < row.num_scored; ++i) {
    const size_t at = index + static_cast<size_t>(i);
    if (std::isnan(result.logprobs[at])) {
      end_choices(request, kAllChoices, FinishReason::error,
                  make_status(Code::internal, "the model's logits at position {} are not finite", row.first_scored + i));
      blocks_.clear_prefix_cache();
      return;
    }
    request.prompt_logprobs.push_back(
        read_logprob(result, at, sequence.ids[row.first_scored + i + 1], sequence.num_prompt_logprobs));
  }
}

void Engine::Impl::apply_embedding(const ScheduledSequence& row, std::span<const float> embedding, TimePoint now) {
  RequestState& request = *requests_.at(row.sequence->rank.request);
  if (!std::ranges::all_of(embedding, [](float x) { return std::isfinite(x); })) {
    return end_choices(request, kAllChoices, FinishReason::error,
                       make_status(Code::internal, "the model's embedding of input {} is not finite", row.sequence->rank.choice));
  }
  scheduler_.complete(row);
  if (request.timing.first_token == TimePoint()) request.timing.first_token = now;
  request.timing.last_token = now;
  Event event{.request = request.id, .choice = row.sequence->rank.choice};
  event.embedding.assign(embedding.begin(), embedding.end());
  event.finish = FinishReason::stop;
  finish_choice(request, *row.sequence, std::move(event));
}

// The row that samples is logit row `index`.
void Engine::Impl::apply_token(const ScheduledSequence& row, const runtime::StepResult& result, size_t index, TimePoint now) {
  Sequence& sequence = *row.sequence;
  RequestState& request = *requests_.at(sequence.rank.request);
  const int32_t token = result.tokens[index];
  if (token < 0 || token >= limits_.vocab_size) {
    const bool bans = sequence.min_tokens > 0 || !sequence.sampling.bad_words.empty() || !sequence.sampling.logit_bias.empty();
    end_choices(request, kAllChoices, FinishReason::error,
                make_status(bans ? Code::invalid_argument : Code::internal,
                            "no token can be drawn after {} tokens of choice {}: {}the model's logits are not finite", row.first + row.count,
                            sequence.rank.choice, bans ? "min_tokens, bad_words and logit_bias leave none, or " : ""));
    blocks_.clear_prefix_cache();  // what led to them may have been cached
    return;
  }
  scheduler_.complete(row);
  if (request.timing.first_token == TimePoint()) request.timing.first_token = request.timing.last_token = now;
  if (request.beams) {
    return apply_beam(request, row, read_logprob(result, index, token, sequence.num_logprobs), now);
  }
  scheduler_.append(row.sequence, token);
  Event event{.request = request.id, .choice = sequence.rank.choice};
  if (sequence.rank.choice == 0) event.prompt_logprobs = std::move(request.prompt_logprobs);
  request.prompt_logprobs.clear();
  if (sequence.is_stop(token)) {
    event.finish = FinishReason::stop;
    event.end_token = token;
  } else {
    event.tokens.push_back(token);
    if (sequence.num_logprobs >= 0) event.logprobs.push_back(read_logprob(result, index, token, sequence.num_logprobs));
    const int32_t generated = static_cast<int32_t>(sequence.ids.size()) - sequence.num_prompt_tokens;
    count_tokens(request, 1, generated, now);
    if (generated >= sequence.max_tokens) event.finish = FinishReason::length;
  }
  if (event.finish != FinishReason::none) return finish_choice(request, sequence, std::move(event));
  event.timing = request.timing;
  request.sink->on_event(std::move(event));
}

void Engine::Impl::count_tokens(RequestState& request, int32_t count, int32_t length, TimePoint now) {
  request.timing.last_token = now;
  request.timing.completion_tokens += count;
  request.timing.longest_choice = std::max(request.timing.longest_choice, length);
  num_generated_ += static_cast<uint64_t>(count);
}

// One beam's best next tokens. When all have come, the beams move on together.
void Engine::Impl::apply_beam(RequestState& request, const ScheduledSequence& row, TokenLogprob candidates, TimePoint now) {
  const auto in_sequence = std::ranges::find(request.sequence_of_beam, row.sequence->rank.choice);
  request.beam_candidates[static_cast<size_t>(in_sequence - request.sequence_of_beam.begin())] = std::move(candidates);
  if (--request.num_beams_awaited > 0) return;
  const std::vector<BeamSearch::Move> moves =
      request.beams->advance(std::span(request.beam_candidates).first(request.sequence_of_beam.size()));
  if (moves.empty()) return finish_beams(request, now);
  // The first move of a beam stays in its sequence: none is overwritten while others still go on from it.
  const size_t width = request.choices.size();
  CHECK(moves.size() == width);  // every beam brought as many tokens that do not end it
  std::vector<int32_t> sequence_of(width, -1);
  std::vector<char> taken(width, 0);
  for (size_t i = 0; i < width; ++i) {
    const int32_t parent = request.sequence_of_beam[moves[i].parent];
    if (std::exchange(taken[parent], 1) == 0) sequence_of[i] = parent;
  }
  for (size_t i = 0, free = 0; i < width; ++i) {
    if (sequence_of[i] >= 0) continue;
    while (taken[free]) ++free;
    taken[free] = 1;
    sequence_of[i] = static_cast<int32_t>(free);
    scheduler_.fork(*request.choices[request.sequence_of_beam[moves[i].parent]], request.choices[free]);
  }
  for (size_t i = 0; i < width; ++i) scheduler_.append(request.choices[sequence_of[i]], moves[i].token);
  request.sequence_of_beam = std::move(sequence_of);
  request.num_beams_awaited = static_cast<int32_t>(width);
}

// The hypotheses take the place of the beams: each is one event.
void Engine::Impl::finish_beams(RequestState& request, TimePoint now) {
  const RequestPtr keep = requests_.at(request.id);
  const std::vector<BeamSearch::Hypothesis>& results = request.beams->results();
  const auto count = std::min(static_cast<size_t>(request.num_results), results.size());
  for (size_t i = 0; i < request.choices.size(); ++i) scheduler_.finish(request.choices[i]);
  for (size_t i = 0; i < count; ++i) {
    const auto length = static_cast<int32_t>(results[i].tokens.size());
    count_tokens(request, length, length, now);
  }
  request.num_unfinished = static_cast<int32_t>(count);
  for (size_t i = 0; i < count; ++i) {
    const BeamSearch::Hypothesis& result = results[i];
    Event event{.request = request.id, .choice = static_cast<int32_t>(i), .end_token = result.end_token};
    for (const TokenLogprob& token : result.tokens) event.tokens.push_back(token.id);
    if (request.lists_logprobs) event.logprobs = result.tokens;
    if (i == 0) event.prompt_logprobs = std::move(request.prompt_logprobs);
    event.finish = result.end_token >= 0 ? FinishReason::stop : FinishReason::length;
    end_choice(request, std::move(event));
  }
}

// ---- Ends

// `event` is the last of `choice`. The request is gone when it was the last of its choices.
void Engine::Impl::finish_choice(RequestState& request, Sequence& choice, Event event) {
  scheduler_.finish(request.choices[choice.rank.choice]);
  end_choice(request, std::move(event));
}

void Engine::Impl::end_choice(RequestState& request, Event event) {
  --request.num_unfinished;
  event.last = request.num_unfinished == 0;
  event.timing = request.timing;
  request.outcome = std::max(request.outcome, event.finish);
  const FinishReason reason = request.outcome;
  if (!event.last) return request.sink->on_event(std::move(event));
  const RequestPtr keep = requests_.at(request.id);
  requests_.erase(request.id);
  deadlines_.erase({request.deadline, request.id});
  count_ended(request, reason);
  request.sink->on_event(std::move(event));
}

// Ends choice `which`, or all, where they have not ended yet. Of a beam search, which has no choices before its end, all end.
void Engine::Impl::end_choices(RequestState& request, int32_t which, FinishReason reason, const Status& status) {
  const RequestPtr keep = requests_.at(request.id);
  if (request.beams) {
    for (const SequencePtr& beam : request.choices) scheduler_.finish(beam);
    request.num_unfinished = request.num_results;
    for (int32_t choice = 0; choice < request.num_results; ++choice) {
      end_choice(request, {.request = request.id, .choice = choice, .finish = reason, .status = status});
    }
    return;
  }
  for (const SequencePtr& choice : request.choices) {
    if (choice->state == SequenceState::finished || (which != kAllChoices && which != choice->rank.choice)) continue;
    finish_choice(request, *choice,
                  {.request = request.id, .choice = choice->rank.choice, .finish = reason, .status = status});
  }
}

void Engine::Impl::end_all(FinishReason reason, const Status& status) {
  while (!requests_.empty()) end_choices(*requests_.begin()->second, kAllChoices, reason, status);
}

// Stats first, then the observer, then (in the caller) the last event: who has heard the event finds the figures complete.
void Engine::Impl::count_ended(const RequestState& request, FinishReason reason) {
  std::shared_ptr<EngineObserver> observer;
  {
    const std::lock_guard lock(mutex_);
    --(request.scheduled ? stats_.requests_running : stats_.requests_waiting);
    ++(reason == FinishReason::abort   ? stats_.requests_aborted
       : reason == FinishReason::error ? stats_.requests_failed
                                       : stats_.requests_finished);
    update_gauges(stats_);
    observer = observer_;
  }
  if (observer) observer->on_finish(request.timing, reason);
}

// A step failed: what it computed for the running sequences is lost, and whatever else the device held is in doubt.
void Engine::Impl::fail_running(uint64_t step, const Status& status) {
  log_error("step {} failed: {}", step, status.to_string());
  while (num_in_flight_ > 0) {  // their results build on the failed step
    (void)runner_->wait(pipeline_[oldest_].ticket);
    pipeline_[oldest_].rows.clear();
    oldest_ = (oldest_ + 1) % pipeline_.size();
    --num_in_flight_;
  }
  const bool lost = status.code() == Code::unavailable;
  if (lost) {
    const std::lock_guard lock(mutex_);
    lost_ = status;
  }
  if (lost) end_all(FinishReason::error, status);
  while (!scheduler_.running().empty()) {
    const RequestId id = scheduler_.running().front()->rank.request;
    end_choices(*requests_.at(id), kAllChoices, FinishReason::error, status);
  }
  blocks_.clear_prefix_cache();
  const std::lock_guard lock(mutex_);
  update_gauges(stats_);
}

// ---- Figures

void Engine::Impl::publish_step(const Step& step, TimePoint now) {
  int32_t tokens = 0, decodes = 0;
  for (const ScheduledSequence& row : step.rows) {
    tokens += row.count;
    decodes += row.count == 1 ? 1 : 0;
  }
  BlockManager::Use use;
  for (const SequencePtr& sequence : scheduler_.running()) {
    const BlockManager::Use one = blocks_.use_of(*sequence);
    use.live_tokens += one.live_tokens;
    use.slots += one.slots;
  }
  const double seconds = seconds_between(std::max(step.submitted, last_retired_), now);
  last_retired_ = now;
  pace_.note(decodes, tokens - decodes, seconds);
  const runtime::RunnerMemory memory = runner_->memory();
  std::shared_ptr<EngineObserver> observer;
  {
    const std::lock_guard lock(mutex_);
    ++stats_.steps;
    stats_.seq_steps += scheduler_.running().size();
    stats_.kv_live_token_steps += static_cast<uint64_t>(use.live_tokens);
    stats_.kv_slot_steps += static_cast<uint64_t>(use.slots);
    memory_ = memory;
    update_gauges(stats_);
    observer = observer_;
  }
  if (observer) observer->on_step(seconds, tokens, static_cast<int>(step.rows.size()));
}

void Engine::Impl::update_gauges(EngineStats& stats) const {
  stats.generation_tokens = num_generated_;
  stats.preemptions = scheduler_.num_preemptions();
  stats.kv_blocks_total = static_cast<uint64_t>(blocks_.num_blocks_total());
  stats.kv_blocks_used = static_cast<uint64_t>(blocks_.num_blocks_used());
  stats.kv_blocks_cached = static_cast<uint64_t>(blocks_.num_blocks_cached());
}

// ---- The public face

Engine::Engine(std::unique_ptr<runtime::ModelRunner> runner, const EngineConfig& config, std::vector<int32_t> eos_ids)
    : impl_(std::make_unique<Impl>(std::move(runner), config, std::move(eos_ids))) {}
Engine::~Engine() { shutdown(); }

Result<RequestId> Engine::submit(Request request, std::shared_ptr<EventSink> sink) {
  return impl_->submit(std::move(request), std::move(sink));
}
void Engine::abort(RequestId id, int32_t choice) { impl_->abort(id, choice, FinishReason::abort); }
void Engine::stop(RequestId id, int32_t choice) { impl_->abort(id, choice, FinishReason::stop); }
void Engine::clear_prefix_cache() { impl_->clear_prefix_cache(); }
EngineStats Engine::stats() const { return impl_->stats(); }
const runtime::RunnerLimits& Engine::limits() const { return impl_->limits(); }
runtime::RunnerMemory Engine::memory() const { return impl_->memory(); }
void Engine::set_observer(std::shared_ptr<EngineObserver> observer) { impl_->set_observer(std::move(observer)); }
void Engine::shutdown() { impl_->shutdown(); }

}  // namespace headrace::engine
