#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

namespace headrace::server {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Seconds. The first token of a long prompt takes seconds on a CPU; a token of a small model a millisecond.
const Histogram::BucketBoundaries kTtftBuckets = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                                  1,     2,    5,    10,   30,  60};
const Histogram::BucketBoundaries kTpotBuckets = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2};
const Histogram::BucketBoundaries kRequestBuckets = {0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600};
const Histogram::BucketBoundaries kStepBuckets = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                                  0.05,   0.1,   0.2,   0.5,   1,    2};
const Histogram::BucketBoundaries kTokenBuckets = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

// The histograms, filled on the engine thread.
class Latencies final : public engine::EngineObserver {
 public:
  Latencies()
      : ttft_(add("headrace_ttft_seconds", "Time from a request's arrival to its first token", kTtftBuckets)),
        tpot_(add("headrace_tpot_seconds", "Mean time between the tokens of an answer after its first",
                  kTpotBuckets)),
        request_(add("headrace_request_seconds", "Time from a request's arrival to its last token",
                     kRequestBuckets)),
        queue_(add("headrace_queue_seconds", "Time from a request's arrival to its first planned token",
                   kTtftBuckets)),
        prefill_(add("headrace_prefill_seconds", "Time from a request's first planned token to its first token",
                     kTtftBuckets)),
        decode_(add("headrace_decode_seconds", "Time from a request's first token to its last", kRequestBuckets)),
        prompt_(add("headrace_request_prompt_tokens", "Tokens of a request's prompt", kTokenBuckets)),
        generation_(add("headrace_request_generation_tokens", "Tokens of a request's answer", kTokenBuckets)),
        step_(add("headrace_step_seconds", "Time of one engine step", kStepBuckets)),
        step_tokens_(add("headrace_step_tokens", "Tokens of one engine step", kTokenBuckets)) {}

  void on_step(double seconds, int tokens, int) override {
    step_.Observe(seconds);
    step_tokens_.Observe(tokens);
  }

  void on_finish(const engine::RequestTiming& timing, engine::FinishReason reason) override {
    if (reason == engine::FinishReason::error || timing.completion_tokens == 0) return;
    ttft_.Observe(timing.ttft_ms() / 1e3);
    queue_.Observe(seconds_between(timing.arrived, timing.scheduled));
    prefill_.Observe(seconds_between(timing.scheduled, timing.first_token));
    decode_.Observe(seconds_between(timing.first_token, timing.last_token));
    request_.Observe(seconds_between(timing.arrived, timing.last_token));
    if (timing.longest_choice > 1) tpot_.Observe(timing.tpot_ms() / 1e3);
    prompt_.Observe(timing.prompt_tokens);
    generation_.Observe(timing.completion_tokens);
  }

  std::vector<MetricFamily> collect() const { return registry_.Collect(); }

 private:
  Histogram& add(const char* name, const char* help, const Histogram::BucketBoundaries& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add({}, buckets);
  }

  prometheus::Registry registry_;
  Histogram &ttft_, &tpot_, &request_, &queue_, &prefill_, &decode_, &prompt_, &generation_, &step_, &step_tokens_;
};

using Labels = std::vector<ClientMetric::Label>;

MetricFamily family(MetricType type, const char* name, const char* help,
                    const std::vector<std::pair<Labels, double>>& values) {
  MetricFamily out{name, help, type, {}};
  for (const auto& [labels, value] : values) {
    ClientMetric metric;
    metric.label = labels;
    if (type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    out.metric.push_back(std::move(metric));
  }
  return out;
}

double number(uint64_t value) {
  return static_cast<double>(value);
}

}  // namespace

class Metrics::Impl {
 public:
  explicit Impl(Backend& backend)
      : backend_(backend),
        answers_(prometheus::BuildCounter()
                     .Name("headrace_http_answers_total")
                     .Help("HTTP answers, by endpoint and status")
                     .Register(registry_)) {
    backend_.set_observer(latencies_);
  }

  void count_answer(std::string_view endpoint, int status) {
    answers_.Add({{"endpoint", std::string(endpoint)}, {"status", std::to_string(status)}}).Increment();
  }

  void set_http_stats(std::function<HttpStats()> stats) {
    const std::lock_guard lock(mutex_);
    http_stats_ = std::move(stats);
  }

  std::string text() const {
    std::vector<MetricFamily> families = latencies_->collect();
    for (MetricFamily& answers : registry_.Collect()) families.push_back(std::move(answers));
    add_engine(families);
    add_http(families);
    return prometheus::TextSerializer().Serialize(families);
  }

 private:
  void add_engine(std::vector<MetricFamily>& out) const {
    const engine::EngineStats s = backend_.stats();
    const runtime::RunnerMemory m = backend_.memory();
    const auto gauge = MetricType::Gauge;
    const auto counter = MetricType::Counter;
    out.push_back(family(gauge, "headrace_requests", "Requests in the engine",
                         {{{{"state", "waiting"}}, number(s.requests_waiting)},
                          {{{"state", "running"}}, number(s.requests_running)}}));
    out.push_back(family(counter, "headrace_requests_total", "Requests that have left the engine, by outcome",
                         {{{{"outcome", "finished"}}, number(s.requests_finished)},
                          {{{"outcome", "aborted"}}, number(s.requests_aborted)},
                          {{{"outcome", "failed"}}, number(s.requests_failed)},
                          {{{"outcome", "rejected"}}, number(s.requests_rejected)}}));
    out.push_back(
        family(counter, "headrace_prompt_tokens_total", "Prompt tokens", {{{}, number(s.prompt_tokens)}}));
    out.push_back(family(counter, "headrace_generation_tokens_total", "Tokens generated",
                         {{{}, number(s.generation_tokens)}}));
    out.push_back(family(counter, "headrace_prefix_cache_query_tokens_total",
                         "Prompt tokens looked up in the prefix cache",
                         {{{}, number(s.prefix_query_tokens)}}));
    out.push_back(family(counter, "headrace_prefix_cache_hit_tokens_total", "Of them, found there",
                         {{{}, number(s.prefix_hit_tokens)}}));
    out.push_back(family(counter, "headrace_preemptions_total",
                         "Sequences that gave their KV blocks back to run again later",
                         {{{}, number(s.preemptions)}}));
    out.push_back(family(counter, "headrace_steps_total", "Engine steps", {{{}, number(s.steps)}}));
    const uint64_t held = s.kv_blocks_used - s.kv_blocks_cached;
    out.push_back(family(gauge, "headrace_kv_blocks",
                         "Blocks of the KV cache: used by running sequences, cached prefixes alone, free",
                         {{{{"state", "used"}}, number(held)},
                          {{{"state", "cached"}}, number(s.kv_blocks_cached)},
                          {{{"state", "free"}}, number(s.kv_blocks_total - s.kv_blocks_used)}}));
    out.push_back(family(gauge, "headrace_kv_usage", "Share of the KV cache that running sequences use, 0 to 1",
                         {{{}, s.kv_blocks_total > 0 ? number(held) / number(s.kv_blocks_total) : 0}}));
    out.push_back(family(gauge, "headrace_memory_bytes", "Memory of the model's device, by account",
                         {{{{"account", "weights"}}, number(m.weights)},
                          {{{"account", "kv"}}, number(m.kv)},
                          {{{"account", "arena"}}, number(m.arena)},
                          {{{"account", "peak"}}, number(m.peak)}}));
  }

  void add_http(std::vector<MetricFamily>& out) const {
    const std::lock_guard lock(mutex_);
    if (!http_stats_) return;
    const HttpStats s = http_stats_();
    const auto counter = MetricType::Counter;
    out.push_back(family(MetricType::Gauge, "headrace_http_connections", "Open connections",
                         {{{}, number(s.connections_open)}}));
    out.push_back(family(counter, "headrace_http_connections_total", "Connections, by what became of them",
                         {{{{"outcome", "accepted"}}, number(s.connections_total)},
                          {{{"outcome", "refused"}}, number(s.connections_refused)}}));
    out.push_back(
        family(counter, "headrace_http_requests_total", "HTTP requests", {{{}, number(s.requests_total)}}));
    out.push_back(family(counter, "headrace_http_protocol_errors_total",
                         "Requests that were no acceptable HTTP", {{{}, number(s.protocol_errors_total)}}));
    out.push_back(family(counter, "headrace_http_disconnects_total",
                         "Clients that left before their answer was complete",
                         {{{}, number(s.disconnects_total)}}));
  }

  Backend& backend_;
  const std::shared_ptr<Latencies> latencies_ = std::make_shared<Latencies>();
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& answers_;
  mutable std::mutex mutex_;
  std::function<HttpStats()> http_stats_;  // guarded by mutex_
};

Metrics::Metrics(Backend& backend) : impl_(std::make_unique<Impl>(backend)) {}
Metrics::~Metrics() = default;
void Metrics::set_http_stats(std::function<HttpStats()> stats) {
  impl_->set_http_stats(std::move(stats));
}
void Metrics::count_answer(std::string_view endpoint, int status) {
  impl_->count_answer(endpoint, status);
}
std::string Metrics::text() const {
  return impl_->text();
}

}  // namespace headrace::server
