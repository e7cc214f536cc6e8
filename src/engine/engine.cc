// The engine thread. Callers leave requests and aborts in a mailbox; between two steps the thread empties it, plans as many
// steps as the runner's pipeline holds, and waits for the oldest. Everything below the mailbox belongs to that thread.
#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "base/log.h"
#include "engine/block_manager.h"
#include "engine/request_state.h"
#include "engine/scheduler.h"
#include "engine/step_builder.h"

namespace headrace::engine {
namespace {

using RequestPtr = std::shared_ptr<RequestState>;

SchedulerLimits scheduler_limits(const EngineConfig& config, const runtime::RunnerLimits& runner) {
  int64_t budget = config.max_batched_tokens;
  if (runner.embedding_size > 0) budget = std::max<int64_t>(budget, runner.max_context);  // texts are not cut into chunks
  return {.max_seqs = static_cast<int32_t>(std::min<int64_t>(config.max_seqs, runner.max_seqs)),
          .max_batched_tokens = static_cast<int32_t>(std::min<int64_t>(budget, runner.max_tokens))};
}

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
        blocks_(limits_.groups),
        kv_capacity_(int64_t{blocks_.capacity()} * kKvBlockTokens),
        scheduler_(blocks_, scheduler_limits(config, limits_)),
        pipeline_(static_cast<size_t>(limits_.pipeline_depth) + 1) {
    memory_ = runner_->memory();
    update_gauges(stats_);
    thread_ = std::thread([this] { run(); });
  }

  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);
  void abort(RequestId id, int32_t choice);
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
  };

  Status check_kind(const Request& request) const;
  Status check_size(Request& request) const;
  Status check_inputs_size(const Request& request) const;
  void run();
  bool take_mail();
  void submit_steps();
  void note_scheduled(std::span<const ScheduledSequence> rows, TimePoint now);
  void retire_step();
  Status check_result(const Step& step, const runtime::StepResult& result) const;
  void apply_result(const Step& step, const runtime::StepResult& result, TimePoint now);
  void apply_embedding(const ScheduledSequence& row, std::span<const float> embedding, TimePoint now);
  void apply_token(const ScheduledSequence& row, int32_t token, std::span<const float> logits, TimePoint now);
  void publish_step(const Step& step, TimePoint now);
  void finish_choice(RequestState& request, Sequence& choice, Event event);
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
  const int64_t kv_capacity_;  // tokens of one sequence that the whole pool holds
  Scheduler scheduler_;
  std::unordered_map<RequestId, RequestPtr> requests_;
  std::vector<RequestPtr> new_requests_;
  std::vector<Abort> new_aborts_;
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
  Status status = check_kind(request);
  if (status.ok()) status = check_request(request, limits_.vocab_size);
  if (status.ok()) status = check_size(request);
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

Status Engine::Impl::check_kind(const Request& request) const {
  const bool embeds = limits_.embedding_size > 0;
  if (request.kind == RequestKind::generate && embeds) {
    return make_status(Code::unsupported, "this model makes embeddings and generates no text");
  }
  if (request.kind == RequestKind::embed && !embeds) {
    return make_status(Code::unsupported, "this model generates text and makes no embeddings");
  }
  return {};
}

Status Engine::Impl::check_inputs_size(const Request& request) const {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (static_cast<int64_t>(request.inputs[i].size()) <= limits_.max_context) continue;
    return make_status(Code::invalid_argument, "input[{}]: {} tokens, the model takes {}: shorten the text", i,
                       request.inputs[i].size(), limits_.max_context);
  }
  return {};
}

// Cuts max_tokens to the context; refuses what could never run.
Status Engine::Impl::check_size(Request& request) const {
  if (request.kind == RequestKind::embed) return check_inputs_size(request);
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt + 1 > limits_.max_context) {
    return make_status(Code::invalid_argument,
                       "prompt: {} tokens and at least 1 to generate, the context holds {}: shorten the prompt", prompt,
                       limits_.max_context);
  }
  request.max_tokens = static_cast<int32_t>(std::min<int64_t>(request.max_tokens, limits_.max_context - prompt));
  const int64_t needed = prompt + request.max_tokens - 1;  // the last token's keys and values are never needed
  if (needed > kv_capacity_) {
    return make_status(Code::resource_exhausted,
                       "prompt of {} tokens with max_tokens {} needs {} tokens of KV cache, all of it holds {}: lower "
                       "max_tokens, or start with more --kv-tokens",
                       prompt, request.max_tokens, needed, kv_capacity_);
  }
  return {};
}

void Engine::Impl::abort(RequestId id, int32_t choice) {
  const std::lock_guard lock(mutex_);
  aborts_.push_back({id, choice});
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
    for (const SequencePtr& choice : request->choices) scheduler_.add(choice);
    requests_.emplace(request->id, std::move(request));
  }
  for (const Abort& abort : new_aborts_) {
    const auto found = requests_.find(abort.id);
    if (found != requests_.end()) end_choices(*found->second, abort.choice, FinishReason::abort);
  }
  new_requests_.clear();
  new_aborts_.clear();
  if (!lost.ok()) end_all(FinishReason::error, lost);  // accepted before the device was gone
  if (clear) {
    blocks_.clear_prefix_cache();
    const std::lock_guard lock(mutex_);
    update_gauges(stats_);
  }
  return !stop;
}

void Engine::Impl::submit_steps() {
  while (num_in_flight_ < pipeline_.size()) {
    const std::span<const ScheduledSequence> rows = scheduler_.schedule();
    if (rows.empty()) break;
    Step& step = pipeline_[(oldest_ + num_in_flight_) % pipeline_.size()];
    step.submitted = Clock::now();
    step.rows.assign(rows.begin(), rows.end());
    note_scheduled(rows, step.submitted);
    build_step(++num_steps_, rows, blocks_.num_groups(), plan_);
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
  size_t sampled = 0;
  bool want_logits = false;
  for (const ScheduledSequence& row : step.rows) {
    sampled += row.sample ? 1 : 0;
    want_logits |= row.sample && row.sequence->want_logits;
  }
  const size_t embeddings = step.rows.size() * static_cast<size_t>(limits_.embedding_size);
  if (result.embeddings.size() != embeddings) {
    return make_status(Code::internal, "step {}: want {} numbers of embeddings from the model runner, got {}",
                       step.ticket.step, embeddings, result.embeddings.size());
  }
  const size_t logits = want_logits ? sampled * static_cast<size_t>(limits_.vocab_size) : 0;
  if (result.tokens.size() == sampled && (!want_logits || result.logits.size() == logits)) return {};
  return make_status(Code::internal, "step {}: want {} tokens and {} logits from the model runner, got {} and {}",
                     step.ticket.step, sampled, logits, result.tokens.size(), result.logits.size());
}

void Engine::Impl::apply_result(const Step& step, const runtime::StepResult& result, TimePoint now) {
  const size_t width = static_cast<size_t>(limits_.embedding_size);
  size_t sample = 0, place = 0;
  for (const ScheduledSequence& row : step.rows) {
    const size_t index = sample;
    sample += row.sample ? 1 : 0;
    const size_t at = place++;
    if (!Scheduler::is_current(row)) continue;  // preempted, ended or aborted while the step ran
    if (row.sequence->whole) {
      apply_embedding(row, std::span(result.embeddings).subspan(at * width, width), now);
      continue;
    }
    if (!row.sample) {
      scheduler_.complete(row, 0);
      continue;
    }
    std::span<const float> logits = result.logits;
    if (row.sequence->want_logits) {
      const size_t vocab = static_cast<size_t>(limits_.vocab_size);
      logits = logits.subspan(index * vocab, vocab);
    } else {
      logits = {};
    }
    apply_token(row, result.tokens[index], logits, now);
  }
}

void Engine::Impl::apply_embedding(const ScheduledSequence& row, std::span<const float> embedding, TimePoint now) {
  RequestState& request = *requests_.at(row.sequence->rank.request);
  if (!std::ranges::all_of(embedding, [](float x) { return std::isfinite(x); })) {
    return end_choices(request, kAllChoices, FinishReason::error,
                       make_status(Code::internal, "the model's embedding of input {} is not finite", row.sequence->rank.choice));
  }
  scheduler_.complete(row, 0);
  if (request.timing.first_token == TimePoint()) request.timing.first_token = now;
  request.timing.last_token = now;
  Event event{.request = request.id, .choice = row.sequence->rank.choice};
  event.embedding.assign(embedding.begin(), embedding.end());
  event.finish = FinishReason::stop;
  finish_choice(request, *row.sequence, std::move(event));
}

void Engine::Impl::apply_token(const ScheduledSequence& row, int32_t token, std::span<const float> logits, TimePoint now) {
  Sequence& sequence = *row.sequence;
  RequestState& request = *requests_.at(sequence.rank.request);
  if (token < 0 || token >= limits_.vocab_size) {
    end_choices(request, kAllChoices, FinishReason::error,
                make_status(Code::internal, "the model's logits after {} tokens of choice {} are not finite", row.first + row.count,
                            sequence.rank.choice));
    blocks_.clear_prefix_cache();  // what led to them may have been cached
    return;
  }
  scheduler_.complete(row, token);
  RequestTiming& timing = request.timing;
  const bool first = timing.first_token == TimePoint();
  if (first) timing.first_token = timing.last_token = now;
  Event event{.request = request.id, .choice = sequence.rank.choice};
  event.logits.assign(logits.begin(), logits.end());
  if (request.is_stop(token)) {
    event.finish = FinishReason::stop;
    event.end_token = token;
  } else {
    const int32_t generated = static_cast<int32_t>(sequence.ids.size()) - sequence.num_prompt_tokens;
    event.tokens.push_back(token);
    timing.last_token = now;
    ++timing.completion_tokens;
    ++num_generated_;
    timing.longest_choice = std::max(timing.longest_choice, generated);
    if (generated >= sequence.max_tokens) event.finish = FinishReason::length;
  }
  if (event.finish != FinishReason::none) return finish_choice(request, sequence, std::move(event));
  event.timing = timing;
  request.sink->on_event(std::move(event));
}

// ---- Ends

// `event` is the last of `choice`. The request is gone when it was the last of its choices.
void Engine::Impl::finish_choice(RequestState& request, Sequence& choice, Event event) {
  scheduler_.finish(request.choices[choice.rank.choice]);
  --request.num_unfinished;
  event.last = request.num_unfinished == 0;
  event.timing = request.timing;
  const FinishReason reason = event.finish;
  if (!event.last) return request.sink->on_event(std::move(event));
  const RequestPtr keep = requests_.at(request.id);
  requests_.erase(request.id);
  count_ended(request, reason);
  request.sink->on_event(std::move(event));
}

// Ends choice `which`, or all, where they have not ended yet.
void Engine::Impl::end_choices(RequestState& request, int32_t which, FinishReason reason, const Status& status) {
  const RequestPtr keep = requests_.at(request.id);
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
  int32_t tokens = 0;
  for (const ScheduledSequence& row : step.rows) tokens += row.count;
  const double seconds = seconds_between(std::max(step.submitted, last_retired_), now);
  last_retired_ = now;
  const runtime::RunnerMemory memory = runner_->memory();
  std::shared_ptr<EngineObserver> observer;
  {
    const std::lock_guard lock(mutex_);
    ++stats_.steps;
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
void Engine::abort(RequestId id, int32_t choice) { impl_->abort(id, choice); }
void Engine::clear_prefix_cache() { impl_->clear_prefix_cache(); }
EngineStats Engine::stats() const { return impl_->stats(); }
const runtime::RunnerLimits& Engine::limits() const { return impl_->limits(); }
runtime::RunnerMemory Engine::memory() const { return impl_->memory(); }
void Engine::set_observer(std::shared_ptr<EngineObserver> observer) { impl_->set_observer(std::move(observer)); }
void Engine::shutdown() { impl_->shutdown(); }

}  // namespace headrace::engine
