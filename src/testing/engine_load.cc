#include "testing/engine_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <random>
#include <thread>

#include "engine/beam_search.h"

namespace headrace::testing {
namespace {

using engine::Event;
using engine::FinishReason;
using engine::Request;

constexpr std::chrono::seconds kPatience{60};

FakeSampling fake_sampling(const Request& request, int32_t choice) {
  const engine::SamplingParams& s = request.sampling;
  return {.temperature = s.temperature,
          .top_p = s.top_p,
          .min_p = s.min_p,
          .top_k = s.top_k,
          .seed = s.seed,
          .stream = choice,
          .typical_p = s.typical_p,
          .repetition_penalty = s.repetition_penalty,
          .frequency_penalty = s.frequency_penalty,
          .presence_penalty = s.presence_penalty,
          .num_prompt = static_cast<int32_t>(request.prompt.size())};
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
  if (uniform(0, 5) == 0) {
    request.sampling.temperature = 0;  // the fake model's logits hang on what would be drawn
    request.beam = {.width = uniform(1, options.max_beams), .early_stopping = uniform(0, 1) == 0};
    request.n = uniform(1, request.beam.width);
    return request;
  }
  request.sampling = {.temperature = 0.25f * static_cast<float>(uniform(0, 4)),
                      .top_p = 0.5f + 0.1f * static_cast<float>(uniform(0, 5)),
                      .min_p = 0.1f * static_cast<float>(uniform(0, 3)),
                      .top_k = uniform(0, 50),
                      .seed = random()};
  if (uniform(0, 9) == 0) request.cache_key = "tenant";
  if (uniform(0, 3) == 0) request.min_tokens = uniform(0, request.max_tokens);
  if (uniform(0, 3) == 0) request.logprobs = uniform(0, 3);
  if (uniform(0, 19) == 0) request.prompt_logprobs = uniform(0, 3);
  if (uniform(0, 3) == 0) request.sampling.repetition_penalty = 1.0f + 0.25f * static_cast<float>(uniform(0, 2));
  if (uniform(0, 3) == 0) request.sampling.presence_penalty = 0.5f;
  if (uniform(0, 3) == 0) request.sampling.typical_p = 0.5f;
  if (uniform(0, 3) == 0) request.sampling.logit_bias = {{uniform(0, 49), 1.5f}, {uniform(0, 49), -2.0f}};
  if (uniform(0, 3) == 0) request.sampling.bad_words = {{uniform(0, 511)}, {uniform(0, 511), uniform(0, 511)}};
  if (uniform(0, 3) == 0) request.stop_token_ids = {uniform(0, 511), uniform(0, 511)};
  return request;
}

bool is_stop(const LoadOptions& options, const Request& request, int32_t token) {
  return std::ranges::find(request.stop_token_ids, token) != request.stop_token_ids.end() ||
         (token == options.model.eos_id && !request.ignore_eos);
}

// Choice `choice` of the request alone, written from engine/request.h: what may not be drawn at each position.
std::vector<int32_t> run_alone(const LoadOptions& options, const Request& request, int32_t choice) {
  const engine::SamplingParams& params = request.sampling;
  std::vector<int32_t> ids = request.prompt, answer;
  while (static_cast<int32_t>(answer.size()) < request.max_tokens) {
    FakeSampling sampling = fake_sampling(request, choice);
    sampling.biases = params.logit_bias;
    for (int32_t id = 0; id < options.model.vocab_size; ++id) {
      const bool too_early = static_cast<int32_t>(answer.size()) < request.min_tokens;
      if (too_early && is_stop(options, request, id)) sampling.biases.emplace_back(id, -HUGE_VALF);
    }
    for (const std::vector<int32_t>& word : params.bad_words) {
      const std::span<const int32_t> before(word.data(), word.size() - 1);
      if (before.size() <= answer.size() && std::ranges::equal(before, std::span(answer).last(before.size()))) {
        sampling.biases.emplace_back(word.back(), -HUGE_VALF);
      }
    }
    const int32_t token = options.model.next_token(ids, sampling);
    if (is_stop(options, request, token)) break;
    ids.push_back(token);
    answer.push_back(token);
  }
  return answer;
}

// The hypotheses of a beam search alone, from the fake model's logits.
std::vector<engine::BeamSearch::Hypothesis> search_alone(const LoadOptions& options, const Request& request) {
  std::vector<int32_t> stops;
  if (!request.ignore_eos) stops = {options.model.eos_id};
  engine::BeamSearch search(request.beam, stops, request.min_tokens, request.max_tokens, request.logprobs);
  std::vector<std::vector<int32_t>> beams = {request.prompt};
  while (true) {
    std::vector<engine::TokenLogprob> candidates;
    for (const std::vector<int32_t>& ids : beams) {
      const std::vector<float> logits = options.model.logits(ids, {});
      double sum = 0;
      engine::TokenLogprob best;
      for (const float x : logits) sum += std::exp(static_cast<double>(x));
      for (size_t id = 0; id < logits.size(); ++id) {
        // As a runner gives them: in float32.
        const auto logprob = static_cast<float>(static_cast<double>(logits[id]) - std::log(sum));
        best.top.emplace_back(static_cast<int32_t>(id), static_cast<double>(logprob));
      }
      std::ranges::stable_sort(best.top, std::greater<>(), &std::pair<int32_t, double>::second);
      best.top.resize(static_cast<size_t>(search.num_candidates()));
      candidates.push_back(std::move(best));
    }
    const auto moves = search.advance(candidates);
    if (moves.empty()) return search.results();
    std::vector<std::vector<int32_t>> next;
    for (const auto& move : moves) {
      next.push_back(beams[move.parent]);
      next.back().push_back(move.token);
    }
    beams = std::move(next);
  }
}

// What is wrong with the hypotheses in `sink`; empty: nothing.
std::string judge_beams(const LoadOptions& options, const Request& request, const CollectingSink& sink, bool aborted) {
  if (aborted && sink.finish() == FinishReason::abort) return {};
  const auto expected = search_alone(options, request);
  for (int32_t choice = 0; choice < request.n; ++choice) {
    std::vector<int32_t> ids;
    for (const engine::TokenLogprob& token : expected.at(choice).tokens) ids.push_back(token.id);
    if (sink.tokens(choice) != ids) return fmt::format("hypothesis {} differs from a search alone", choice);
  }
  return {};
}

// What is wrong with the answer in `sink`; empty: nothing.
std::string judge(const LoadOptions& options, const Request& request, const CollectingSink& sink, bool aborted) {
  if (std::string complaint = sink.complaint(); !complaint.empty()) return complaint;
  if (request.beam.width > 0) return judge_beams(options, request, sink, aborted);
  const size_t scored = request.prompt_logprobs >= 0 ? request.prompt.size() - 1 : 0;
  if (!aborted && sink.prompt_logprobs().size() != scored) {
    return fmt::format("{} prompt log-probabilities of {}", sink.prompt_logprobs().size(), scored);
  }
  for (int32_t choice = 0; choice < request.n; ++choice) {
    const std::vector<int32_t> got = sink.tokens(choice);
    const std::vector<int32_t> expected = run_alone(options, request, choice);
    const FinishReason finish = sink.finish(choice);
    if (aborted && finish == FinishReason::abort) {
      if (got.size() > expected.size() || !std::equal(got.begin(), got.end(), expected.begin())) {
        return fmt::format("choice {}: what came before the abort differs from a run alone", choice);
      }
      continue;
    }
    if (request.logprobs >= 0 && sink.logprobs(choice).size() != got.size()) return "tokens without log-probabilities";
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
    if (!id) {
      // More beams than slots, or than all blocks hold.
      const bool refused = id.error().code() == Code::resource_exhausted || id.error().code() == Code::invalid_argument;
      if (request.beam.width > 0 && refused) continue;
      return id.error().to_string();
    }
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
  end_token_[event.choice] = event.end_token;
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
int32_t CollectingSink::end_token(int32_t choice) const {
  const std::lock_guard lock(mutex_);
  return end_token_.at(choice);
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
