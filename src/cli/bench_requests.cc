// docs/metrics.md defines the figures.
#include "cli/bench_requests.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/interrupt.h"
#include "cli/resolve_model.h"
#include "cli/terminal.h"
#include "engine/static_batch.h"
#include "load/prompts.h"
#include "load/statistics.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

// What both ways of batching leave behind.
struct Outcome {
  std::string model;
  double seconds = 0;
  int64_t prompt_tokens = 0, output_tokens = 0;
  std::vector<double> ttft_ms, tpot_ms, e2e_ms;
  uint64_t steps = 0, step_tokens = 0, preemptions = 0;
  uint64_t seq_steps = 0, kv_live = 0, kv_slots = 0;
  int32_t kv_groups = 1;
  int64_t longest = 0;      // prompt and answer of the longest request
  int64_t max_context = 0;  // of the engine
  uint64_t device_peak = 0;
  bool interrupted = false;

  void add(TimePoint begin, TimePoint first, TimePoint last, size_t tokens) {
    output_tokens += static_cast<int64_t>(tokens);
    ttft_ms.push_back(ms_between(begin, first));
    e2e_ms.push_back(ms_between(begin, last));
    if (tokens > 1) tpot_ms.push_back(ms_between(first, last) / static_cast<double>(tokens - 1));
  }
  double kv_use() const { return ratio(kv_live, static_cast<double>(kv_slots)); }
  // What a cache would be filled to that reserves `length` tokens for every running sequence.
  double reserved_use(int64_t length) const {
    return ratio(kv_live, static_cast<double>(seq_steps) * static_cast<double>(length) * kv_groups);
  }

 private:
  static double ratio(uint64_t part, double whole) { return whole > 0 ? static_cast<double>(part) / whole : 0; }
};

// Random ids, each prompt's own. The work does not depend on them, except that no prompt begins like another.
std::vector<int32_t> prompt_of(int64_t number, int32_t length, int64_t vocab_size) {
  std::mt19937_64 random(static_cast<uint64_t>(number) + 1);
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
  return ids;
}

// Steps as the engine tells of them. A request's end is told before the step that brought it.
class StepCounter final : public engine::EngineObserver {
 public:
  void on_step(double, int tokens, int) override {
    const std::lock_guard lock(mutex_);
    tokens_ += static_cast<uint64_t>(tokens);
    step_is_out_ = false;
    changed_.notify_all();
  }
  void on_finish(const engine::RequestTiming&, engine::FinishReason) override {
    const std::lock_guard lock(mutex_);
    ++finished_;
    step_is_out_ = true;
  }
  // The tokens of all steps, once `requests` have ended and the last step has been told of: the engine's figures have it too
  // then. An abort may have no step, and is not waited for long.
  uint64_t tokens_after(int64_t requests) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(1), [&] { return finished_ >= requests && !step_is_out_; });
    return tokens_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t tokens_ = 0;
  int64_t finished_ = 0;
  bool step_is_out_ = false;
};

// Counts the requests that have ended, for a thread that waits for all.
class Ended {
 public:
  void one() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  int64_t wait_a_little() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100));
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t count_ = 0;
};

class Sink final : public engine::EventSink {
 public:
  explicit Sink(Ended& ended) : ended_(ended) {}
  void on_event(engine::Event event) override {
    if (!event.last) return;
    timing = event.timing;
    finish = event.finish;
    status = std::move(event.status);
    ended_.one();
  }
  // Once it has ended.
  engine::RequestTiming timing;
  engine::FinishReason finish = engine::FinishReason::none;
  Status status;

 private:
  Ended& ended_;
};

Result<std::vector<std::shared_ptr<Sink>>> answer_all(engine::ServingModel& model, const load::Lengths& lengths,
                                                      int64_t first_number, bool& interrupted) {
  const auto count = static_cast<int64_t>(lengths.prompt.size());
  std::vector<engine::Request> requests(lengths.prompt.size());
  for (int64_t i = 0; i < count; ++i) {
    engine::Request& request = requests[static_cast<size_t>(i)];
    request.prompt = prompt_of(first_number + i, lengths.prompt[static_cast<size_t>(i)], model.card().vocab_size);
    request.max_tokens = lengths.output[static_cast<size_t>(i)];
    request.sampling.temperature = 0;
    request.ignore_eos = true;
  }
  Ended ended;
  std::vector<std::shared_ptr<Sink>> sinks;
  std::vector<engine::RequestId> ids;
  ProgressBar bar("measuring");
  Status refused;
  for (engine::Request& request : requests) {
    auto sink = std::make_shared<Sink>(ended);
    const auto id = model.engine().submit(std::move(request), sink);
    if (!id) {
      refused = id.error();
      break;
    }
    sinks.push_back(std::move(sink));
    ids.push_back(*id);
  }
  const auto abort_all = [&] {
    for (const engine::RequestId id : ids) model.engine().abort(id);
  };
  if (!refused.ok()) abort_all();
  // The sinks refer to `ended`: nothing leaves before all have.
  for (int64_t done = 0; done < static_cast<int64_t>(sinks.size());) {
    done = ended.wait_a_little();
    bar.update(static_cast<double>(done) / static_cast<double>(count), fmt::format("{} of {} requests", done, count));
    if (InterruptGuard::interrupted() && !interrupted) {
      interrupted = true;
      abort_all();
    }
  }
  HR_RETURN_IF_ERROR(std::move(refused));
  for (const auto& sink : sinks) HR_RETURN_IF_ERROR(Status(sink->status));
  return sinks;
}

Result<Outcome> run_engine(const ModelOptions& options, const load::Lengths& lengths) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<engine::ServingModel> model, open_model(options));
  Outcome out;
  // What the first step of a process pays is not counted.
  constexpr int64_t kWarmup = int64_t{1} << 40;
  const auto steps = std::make_shared<StepCounter>();
  model->engine().set_observer(steps);
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const auto warmed, answer_all(*model, {{1}, {1}}, kWarmup, out.interrupted));
  const uint64_t tokens_before = steps->tokens_after(1);
  const engine::EngineStats before = model->engine().stats();
  HR_ASSIGN_OR_RETURN(const auto sinks, answer_all(*model, lengths, 0, out.interrupted));
  out.step_tokens = steps->tokens_after(1 + static_cast<int64_t>(sinks.size())) - tokens_before;
  const engine::EngineStats after = model->engine().stats();
  TimePoint begin = TimePoint::max(), end{};
  for (const auto& sink : sinks) {
    const engine::RequestTiming& timing = sink->timing;
    begin = std::min(begin, timing.arrived);
    end = std::max(end, timing.last_token);
    if (sink->finish == engine::FinishReason::abort || timing.completion_tokens == 0) continue;
    out.prompt_tokens += timing.prompt_tokens;
    out.add(timing.arrived, timing.first_token, timing.last_token, static_cast<size_t>(timing.completion_tokens));
  }
  out.model = model->card().id;
  out.seconds = std::max(0.0, seconds_between(begin, end));
  out.steps = after.steps - before.steps;
  out.preemptions = after.preemptions - before.preemptions;
  out.seq_steps = after.seq_steps - before.seq_steps;
  out.kv_live = after.kv_live_token_steps - before.kv_live_token_steps;
  out.kv_slots = after.kv_slot_steps - before.kv_slot_steps;
  out.kv_groups = static_cast<int32_t>(model->engine().limits().groups.size());
  out.max_context = model->engine().limits().max_context;
  out.device_peak = model->engine().memory().peak;
  return out;
}

Result<Outcome> run_static(const ModelOptions& options, const load::Lengths& lengths, int64_t batch, int64_t context) {
  HR_ASSIGN_OR_RETURN(const std::string path, resolve_model(options.path));
  std::unique_ptr<engine::StaticBatch> batches;
  {
    ProgressBar bar("loading");
    engine::ServingOptions serving = options.serving;
    serving.progress = [&bar](double fraction, std::string_view what) { bar.update(fraction, what); };
    HR_ASSIGN_OR_RETURN(batches, engine::StaticBatch::open(path, serving, batch, context));
  }
  Outcome out;
  // What the first step of a process pays is not counted.
  const std::vector<engine::StaticRequest> warmup = {
      {std::vector<int32_t>(static_cast<size_t>(std::min<int64_t>(32, context - 1)), 1), 1}};
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const auto warmed, batches->run(warmup));
  const engine::StaticStats before = batches->stats();
  std::vector<engine::StaticRequest> requests;
  for (size_t i = 0; i < lengths.prompt.size(); ++i) {
    requests.push_back({prompt_of(static_cast<int64_t>(i), lengths.prompt[i], batches->vocab_size()), lengths.output[i]});
  }
  ProgressBar bar("measuring");
  const TimePoint begin = Clock::now();
  HR_ASSIGN_OR_RETURN(const auto answers, batches->run(requests, [&](size_t done) {
    bar.update(static_cast<double>(done) / static_cast<double>(requests.size()),
               fmt::format("{} of {} requests", done, requests.size()));
    return !InterruptGuard::interrupted();
  }));
  out.seconds = seconds_between(begin, Clock::now());
  for (size_t i = 0; i < answers.size(); ++i) {
    out.prompt_tokens += lengths.prompt[i];
    out.add(begin, answers[i].first_token, answers[i].last_token, answers[i].tokens.size());
  }
  const engine::StaticStats& stats = batches->stats();
  out.model = options.path;
  out.steps = stats.steps - before.steps;
  out.step_tokens = stats.step_tokens - before.step_tokens;
  out.seq_steps = stats.seq_steps - before.seq_steps;
  out.kv_live = stats.live_tokens - before.live_tokens;
  out.kv_slots = stats.slots - before.slots;
  out.max_context = context;
  out.device_peak = batches->memory().peak;
  return out;
}

double per_second(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

void print_json(const RequestsBench& bench, const ModelOptions& model, const Outcome& out) {
  const auto summary = [](const std::vector<double>& values) {
    const load::Summary s = load::summarize(values);
    return Json{{"mean", s.mean}, {"p50", s.p50}, {"p90", s.p90}, {"p99", s.p99}, {"max", s.max}};
  };
  const Json json = {
      {"model", out.model},
      {"requests_file", bench.file},
      {"batching", bench.static_batch > 0 ? "static" : "continuous"},
      {"batch", bench.static_batch > 0 ? bench.static_batch : model.serving.config.max_seqs},
      {"target_tpot_ms", model.serving.config.target_tpot_ms},
      {"completed", out.e2e_ms.size()},
      {"interrupted", out.interrupted},
      {"duration_s", out.seconds},
      {"prompt_tokens", out.prompt_tokens},
      {"output_tokens", out.output_tokens},
      {"output_tokens_per_s", per_second(out.output_tokens, out.seconds)},
      {"total_tokens_per_s", per_second(out.output_tokens + out.prompt_tokens, out.seconds)},
      {"ttft_ms", summary(out.ttft_ms)},
      {"tpot_ms", summary(out.tpot_ms)},
      {"e2e_ms", summary(out.e2e_ms)},
      {"steps", out.steps},
      {"tokens_per_step", out.steps > 0 ? static_cast<double>(out.step_tokens) / static_cast<double>(out.steps) : 0.0},
      {"computed_tokens", out.step_tokens},
      {"preemptions", out.preemptions},
      {"kv_use", out.kv_use()},
      {"kv_use_if_longest_reserved", out.reserved_use(out.longest)},
      {"kv_use_if_context_reserved", out.reserved_use(out.max_context)},
      {"longest_request", out.longest},
      {"max_context", out.max_context},
      {"peak_rss_bytes", peak_rss_bytes()},
      {"peak_device_bytes", out.device_peak}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_text(const RequestsBench& bench, const ModelOptions& model, const Outcome& out) {
  fmt::print("{}: {} requests, {} prompt tokens, {} output tokens in {:.2f} s; {}{}\n\n", printable(out.model),
             out.e2e_ms.size(), out.prompt_tokens, out.output_tokens, out.seconds,
             bench.static_batch > 0 ? fmt::format("static batches of {}", bench.static_batch)
                                    : fmt::format("continuous batching, at most {} at once", model.serving.config.max_seqs),
             out.interrupted ? "; stopped before its end" : "");
  const auto line = [](const char* name, const std::string& value) { fmt::print("  {:<28} {:>12}\n", name, value); };
  line("output tokens/s", fmt::format("{:.1f}", per_second(out.output_tokens, out.seconds)));
  line("total tokens/s", fmt::format("{:.1f}", per_second(out.output_tokens + out.prompt_tokens, out.seconds)));
  line("steps", std::to_string(out.steps));
  line("tokens a step",
       fmt::format("{:.1f}", out.steps > 0 ? static_cast<double>(out.step_tokens) / static_cast<double>(out.steps) : 0.0));
  line("computed tokens", std::to_string(out.step_tokens));
  line("preemptions", std::to_string(out.preemptions));
  line("KV use", fmt::format("{:.1f}%", out.kv_use() * 100));
  fmt::print("  {:<28} {:>11.1f}%  ({} tokens, the longest request)\n", "  if reserved at full length",
             out.reserved_use(out.longest) * 100, out.longest);
  fmt::print("  {:<28} {:>11.1f}%  ({} tokens, the context)\n", "", out.reserved_use(out.max_context) * 100, out.max_context);
  fmt::print("\n  {:<22} {:>12} {:>12} {:>12} {:>12}\n", "", "mean", "p50", "p90", "p99");
  const auto row = [](const char* name, const std::vector<double>& values) {
    const load::Summary s = load::summarize(values);
    fmt::print("  {:<22} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f}\n", name, s.mean, s.p50, s.p90, s.p99);
  };
  row("TTFT, ms", out.ttft_ms);
  row("TPOT, ms", out.tpot_ms);
  row("E2E, ms", out.e2e_ms);
  fmt::print("\nPeak memory {:.0f} MB\n", static_cast<double>(peak_rss_bytes()) * 1e-6);
}

}  // namespace

Status bench_requests(const RequestsBench& bench, ModelOptions model) {
  HR_ASSIGN_OR_RETURN(load::Lengths lengths, load::read_lengths(bench.file));
  const auto count =
      bench.limit > 0 ? std::min(static_cast<size_t>(bench.limit), lengths.prompt.size()) : lengths.prompt.size();
  lengths.prompt.resize(count);
  lengths.output.resize(count);
  int64_t longest = 0;
  for (size_t i = 0; i < count; ++i) longest = std::max<int64_t>(longest, int64_t{lengths.prompt[i]} + lengths.output[i]);
  engine::EngineConfig& config = model.serving.config;
  if (config.max_context > 0 && longest > config.max_context) {
    return make_status(Code::invalid_argument, "--max-context {}: the longest request of {} has {} tokens", config.max_context,
                       bench.file, longest);
  }
  constexpr int64_t kDefaultContext = 8192;  // of --max-context 0, at most
  if (longest > kDefaultContext) config.max_context = longest;
  config.max_queue = std::max<int64_t>(config.max_queue, static_cast<int64_t>(count));
  const InterruptGuard guard(InterruptGuard::Mode::once);
  Outcome out;
  if (bench.static_batch > 0) {
    // The longest prompt and the longest answer may meet in one group.
    const int64_t context = int64_t{*std::max_element(lengths.prompt.begin(), lengths.prompt.end())} +
                            *std::max_element(lengths.output.begin(), lengths.output.end());
    HR_ASSIGN_OR_RETURN(out, run_static(model, lengths, bench.static_batch, context));
  } else {
    HR_ASSIGN_OR_RETURN(out, run_engine(model, lengths));
  }
  out.longest = longest;
  if (bench.json) {
    print_json(bench, model, out);
  } else {
    print_text(bench, model, out);
  }
  return {};
}

}  // namespace headrace::cli
