#include "testing/engine_load.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <random>
#include <thread>

namespace headrace::testing {
namespace {

using engine::Event;
using engine::FinishReason;
using engine::Request;

constexpr std::chrono::seconds kPatience{60};

FakeSampling fake_sampling(const Request& request, int32_t choice) {
  const engine::SamplingParams& s = request.sampling;
  return {.temperature = s.temperature, .top_p = s.top_p, .min_p = s.min_p, .top_k = s.top_k, .seed = s.seed, .stream = choice};
}

Request random_request(std::mt19937_64& random, const LoadOptions& options) {
  const auto uniform = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random); };
  Request request;
  request.prompt.resize(static_cast<size_t>(uniform(1, options.max_prompt)));
  const int32_t common = uniform(0, options.max_prompt);
  for (int32_t i = 0; i < static_cast<int32_t>(request.prompt.size()); ++i) {
    request.prompt[i] = i < common ? i * 3 % 50 : uniform(0, 49);
  }
  request.max_tokens = uniform(1, options.max_answer);
  request.n = uniform(1, options.max_choices);
  request.priority = uniform(0, 1);
  request.ignore_eos = uniform(0, 3) == 0;
  request.sampling = {.temperature = 0.25f * static_cast<float>(uniform(0, 4)),
                      .top_p = 0.5f + 0.1f * static_cast<float>(uniform(0, 5)),
                      .min_p = 0.1f * static_cast<float>(uniform(0, 3)),
                      .top_k = uniform(0, 50),
                      .seed = random()};
  if (uniform(0, 9) == 0) request.cache_key = "tenant";
  return request;
}

// What is wrong with the answer in `sink`; empty: nothing.
std::string judge(const LoadOptions& options, const Request& request, const CollectingSink& sink, bool aborted) {
  if (std::string complaint = sink.complaint(); !complaint.empty()) return complaint;
  for (int32_t choice = 0; choice < request.n; ++choice) {
    const std::vector<int32_t> got = sink.tokens(choice);
    const std::vector<int32_t> expected =
        options.model.answer(request.prompt, request.max_tokens, fake_sampling(request, choice), request.ignore_eos);
    const FinishReason finish = sink.finish(choice);
    if (aborted && finish == FinishReason::abort) {
      if (got.size() > expected.size() || !std::equal(got.begin(), got.end(), expected.begin())) {
        return fmt::format("choice {}: what came before the abort differs from a run alone", choice);
      }
      continue;
    }
    if (got != expected) return fmt::format("choice {}: {} tokens differ from a run alone", choice, got.size());
    const bool full = static_cast<int32_t>(expected.size()) == request.max_tokens;
    if (finish != (full ? FinishReason::length : FinishReason::stop)) {
      return fmt::format("choice {} ended with {}", choice, engine::finish_reason_name(finish));
    }
  }
  return {};
}

// One thread's share of the load.
std::string run_client(const LoadOptions& options, engine::Engine& engine, int32_t client) {
  std::mt19937_64 random(options.seed * 1000 + static_cast<uint64_t>(client));
  struct Sent {
    Request request;
    std::shared_ptr<CollectingSink> sink;
    bool aborted = false;
  };
  std::vector<Sent> sent;
  for (int32_t i = 0; i < options.requests / options.threads; ++i) {
    const Request request = random_request(random, options);
    const auto sink = std::make_shared<CollectingSink>(request.n);
    const auto id = engine.submit(request, sink);
    if (!id) return id.error().to_string();
    sent.push_back({request, sink});
    if (std::bernoulli_distribution(options.abort_chance)(random)) {
      sent.back().aborted = true;
      if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      engine.abort(*id);
    }
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
  }
  for (const Sent& each : sent) {
    if (!each.sink->wait()) return "a request never ended";
    if (std::string wrong = judge(options, each.request, *each.sink, each.aborted); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

void CollectingSink::on_event(Event event) {
  const std::lock_guard lock(mutex_);
  std::vector<int32_t>& tokens = tokens_.at(event.choice);
  if (ended_) complaint_ = "an event after the last one";
  if (finish_[event.choice] != FinishReason::none) complaint_ = "an event of a choice that had ended";
  tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
  std::ranges::move(event.logprobs, std::back_inserter(logprobs_.at(event.choice)));
  if (!event.prompt_logprobs.empty() && !prompt_logprobs_.empty()) complaint_ = "prompt log-probabilities twice";
  std::ranges::move(event.prompt_logprobs, std::back_inserter(prompt_logprobs_));
  finish_[event.choice] = event.finish;
  ended_ = event.last;
  const bool all_ended = std::ranges::find(finish_, FinishReason::none) == finish_.end();
  if (ended_ != all_ended) complaint_ = "`last` is not set on the end of the last choice";
  if ((event.finish == FinishReason::error) == event.status.ok()) complaint_ = "status and finish reason disagree";
  last_ = std::move(event);
  changed_.notify_all();
}

bool CollectingSink::wait() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return ended_; });
}

bool CollectingSink::wait_for_tokens(size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return ended_ || tokens_[0].size() >= count; });
}

std::vector<int32_t> CollectingSink::tokens(int32_t choice) const {
  const std::lock_guard lock(mutex_);
  return tokens_.at(choice);
}
FinishReason CollectingSink::finish(int32_t choice) const {
  const std::lock_guard lock(mutex_);
  return finish_.at(choice);
}
Event CollectingSink::last_event() const {
  const std::lock_guard lock(mutex_);
  return last_;
}
std::vector<engine::TokenLogprob> CollectingSink::logprobs(int32_t choice) const {
  const std::lock_guard lock(mutex_);
  return logprobs_.at(choice);
}
std::vector<engine::TokenLogprob> CollectingSink::prompt_logprobs() const {
  const std::lock_guard lock(mutex_);
  return prompt_logprobs_;
}
std::string CollectingSink::complaint() const {
  const std::lock_guard lock(mutex_);
  return complaint_;
}

LoadReport run_engine_load(const LoadOptions& options) {
  engine::EngineConfig config = options.config;
  config.check_every_step = true;
  engine::Engine engine(std::make_unique<FakeRunner>(options.model), config, {options.model.eos_id});
  std::vector<std::string> failures(static_cast<size_t>(options.threads));
  std::vector<std::thread> clients;
  for (int32_t i = 0; i < options.threads; ++i) {
    clients.emplace_back([&, i] { failures[i] = run_client(options, engine, i); });
  }
  for (std::thread& client : clients) client.join();
  LoadReport report;
  for (const std::string& failure : failures) {
    if (report.failure.empty() && !failure.empty()) report.failure = fmt::format("seed {}: {}", options.seed, failure);
  }
  report.stats = engine.stats();
  return report;
}

}  // namespace headrace::testing
