#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "testing/engine_load.h"

namespace headrace::engine {
namespace {

using headrace::testing::CollectingSink;
using headrace::testing::FakeModel;
using headrace::testing::FakeRunner;
using headrace::testing::FakeSampling;
using headrace::testing::LoadOptions;
using headrace::testing::LoadReport;
using headrace::testing::run_engine_load;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

EngineConfig checked_config() {
  EngineConfig config;
  config.check_every_step = true;
  return config;
}
std::unique_ptr<Engine> make_engine(const FakeModel& model, const EngineConfig& config = checked_config()) {
  return std::make_unique<Engine>(std::make_unique<FakeRunner>(model), config, std::vector<int32_t>{model.eos_id});
}
Request make_request(std::vector<int32_t> prompt, int32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}
std::shared_ptr<CollectingSink> ask(Engine& engine, const Request& request) {
  auto sink = std::make_shared<CollectingSink>(request.n);
  const Result<RequestId> id = engine.submit(request, sink);
  EXPECT_TRUE(id.has_value()) << id.error().message();
  EXPECT_TRUE(sink->wait());
  EXPECT_EQ(sink->complaint(), "");
  return sink;
}
std::vector<int32_t> numbers(int32_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) ids[i] = i % 100;
  return ids;
}

// ---- Answers

TEST(Engine, AnswersWithTheModelsTokensAtAnyPipelineDepth) {
  for (const int depth : {0, 1, 3}) {
    const FakeModel model{.depth = depth};
    const auto engine = make_engine(model);
    const auto sink = ask(*engine, make_request({1, 2, 3}, 20));
    EXPECT_EQ(sink->tokens(), model.answer(std::vector<int32_t>{1, 2, 3}, 20, {}));
    EXPECT_EQ(sink->finish(), FinishReason::length);
  }
}

TEST(Engine, TheEndOfSequenceIdStopsAndIsNotAmongTheTokens) {
  for (const int depth : {0, 1}) {
    const FakeModel model{.depth = depth, .reply = {5, 6, 7}, .eos_id = 2};
    const auto engine = make_engine(model);
    const auto sink = ask(*engine, make_request({1}, 20));
    EXPECT_EQ(sink->tokens(), model.reply);
    EXPECT_EQ(sink->finish(), FinishReason::stop);
    EXPECT_EQ(sink->last_event().timing.completion_tokens, 3);
    EXPECT_EQ(sink->last_event().end_token, 2);

    Request ignoring = make_request({1}, 6);
    ignoring.ignore_eos = true;
    EXPECT_THAT(ask(*engine, ignoring)->tokens(), SizeIs(6));
    Request stopping = make_request({1}, 20);
    stopping.stop_token_ids = {6};
    EXPECT_EQ(ask(*engine, stopping)->tokens(), std::vector<int32_t>{5});
  }
}

TEST(Engine, MaxTokensIsCutToWhatTheContextHasLeft) {
  const FakeModel model{.max_context = 32};
  const auto engine = make_engine(model);
  const auto sink = ask(*engine, make_request(numbers(30), 100));
  EXPECT_THAT(sink->tokens(), SizeIs(2));
  EXPECT_EQ(sink->finish(), FinishReason::length);
}

TEST(Engine, ChoicesShareThePromptAndDifferByTheirStream) {
  const FakeModel model;
  const auto engine = make_engine(model);
  Request request = make_request(numbers(100), 10);
  request.n = 4;
  request.sampling = {.temperature = 1.0f, .seed = 9};
  const auto sink = ask(*engine, request);
  for (int32_t choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(sink->tokens(choice), model.answer(request.prompt, 10, {.temperature = 1, .seed = 9, .stream = choice}));
  }
  EXPECT_NE(sink->tokens(0), sink->tokens(1));
  EXPECT_EQ(sink->last_event().timing.completion_tokens, 40);
  EXPECT_EQ(sink->last_event().timing.longest_choice, 10);
  EXPECT_LT(engine->stats().kv_blocks_used, 4u * 7) << "6 shared blocks and the tails";
}

TEST(Engine, MoreChoicesThanSlotsTakeTurns) {
  const FakeModel model{.max_seqs = 2};
  const auto engine = make_engine(model);
  Request request = make_request({1, 2}, 5);
  request.n = 9;
  request.sampling.temperature = 1;
  const auto sink = ask(*engine, request);
  for (int32_t choice = 0; choice < 9; ++choice) EXPECT_THAT(sink->tokens(choice), SizeIs(5));
}

// The log-probabilities of the fake model's logits, in float64.
std::vector<double> log_softmax(std::span<const float> logits) {
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  std::vector<double> out;
  for (const float x : logits) out.push_back(static_cast<double>(x) - std::log(sum));
  return out;
}

TEST(Engine, EveryTokenComesWithItsLogprobAndTheBestOnes) {
  const FakeModel model{.vocab_size = 8, .depth = 1, .reply = {5, 6}, .eos_id = 2};
  const auto engine = make_engine(model);
  Request request = make_request({1}, 20);
  request.logprobs = 3;
  const auto sink = ask(*engine, request);
  EXPECT_EQ(sink->tokens(), (std::vector<int32_t>{5, 6}));
  const std::vector<TokenLogprob> got = sink->logprobs();
  ASSERT_THAT(got, SizeIs(2)) << "the id that stops the choice is no token of it";
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<double> expected = log_softmax(model.logits(i == 0 ? std::vector<int32_t>{1} : std::vector<int32_t>{1, 5}, {}));
    EXPECT_EQ(got[i].id, i == 0 ? 5 : 6);
    EXPECT_NEAR(got[i].logprob, expected[got[i].id], 1e-6);
    ASSERT_THAT(got[i].top, SizeIs(3));
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(got[i].top[k].second, expected[got[i].top[k].first], 1e-6);
      const auto better = std::ranges::count_if(expected, [&](double x) { return x > got[i].top[k].second + 1e-6; });
      EXPECT_EQ(better, static_cast<ptrdiff_t>(k));
    }
  }
  EXPECT_THAT(ask(*engine, make_request({1}, 20))->logprobs(), IsEmpty());
}

TEST(Engine, PromptLogprobsComeOnceWithTheFirstEvent) {
  const FakeModel model{.vocab_size = 64, .max_tokens = 24, .max_seqs = 4, .max_scored_tokens = 5};
  const auto engine = make_engine(model);
  Request request = make_request(numbers(40), 3);
  (void)ask(*engine, request);  // the prompt is in the cache, and must be computed all the same
  request.prompt_logprobs = 2;
  request.n = 2;
  const auto sink = ask(*engine, request);
  const std::vector<TokenLogprob> got = sink->prompt_logprobs();
  ASSERT_THAT(got, SizeIs(39));
  for (size_t i = 0; i < got.size(); ++i) {
    const std::vector<double> expected = log_softmax(model.logits(std::span(request.prompt).first(i + 1), {}));
    EXPECT_EQ(got[i].id, request.prompt[i + 1]);
    EXPECT_NEAR(got[i].logprob, expected[got[i].id], 1e-6);
    EXPECT_GE(got[i].top.size(), 2u);
  }
  EXPECT_THAT(sink->tokens(1), SizeIs(3));
}

TEST(Engine, PromptLogprobsWithoutRowsForThemAreRefused) {
  const FakeModel model{.max_scored_tokens = 0};
  const auto engine = make_engine(model);
  Request request = make_request({1, 2, 3}, 3);
  request.prompt_logprobs = 0;
  const auto sink = std::make_shared<CollectingSink>();
  EXPECT_EQ(engine->submit(request, sink).error().code(), Code::unsupported);
  request.prompt_logprobs = -1;
  EXPECT_THAT(ask(*engine, request)->tokens(), SizeIs(3));
}

TEST(Engine, NoStopIdIsDrawnBeforeMinTokens) {
  const FakeModel model{.eos_id = 2, .eos_one_in = 2};
  const auto engine = make_engine(model);
  for (const int32_t least : {0, 1, 7, 20}) {
    Request request = make_request({1}, 20);
    request.min_tokens = least;
    EXPECT_GE(ask(*engine, request)->tokens().size(), static_cast<size_t>(least));
  }
}

TEST(Engine, ALateRequestEndsWithAnErrorAndOthersGoOn) {
  const FakeModel model{.step_delay = std::chrono::milliseconds(2)};
  const auto engine = make_engine(model);
  Request late = make_request({1, 2, 3}, 1000);
  late.deadline = Clock::now() + std::chrono::milliseconds(30);
  const auto late_sink = std::make_shared<CollectingSink>(), sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine->submit(late, late_sink));
  ASSERT_TRUE(engine->submit(make_request({4, 5}, 40), sink));
  ASSERT_TRUE(late_sink->wait());
  EXPECT_EQ(late_sink->finish(), FinishReason::error);
  EXPECT_EQ(late_sink->last_event().status.code(), Code::unavailable);
  EXPECT_THAT(late_sink->last_event().status.message(), HasSubstr("deadline"));
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->finish(), FinishReason::length);
  late.deadline = Clock::now() - std::chrono::milliseconds(1);
  EXPECT_EQ(engine->submit(late, late_sink).error().code(), Code::unavailable);
}

// Their beams want 24 slots, 8 are there: each keeps the slots of all its beams from the first.
TEST(Engine, BeamSearchesThatArriveAtOnceTakeTurns) {
  const FakeModel model{.max_seqs = 8, .num_blocks = {24}};
  const auto engine = make_engine(model);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (int32_t i = 0; i < 6; ++i) {
    Request request = make_request({i + 1, 2, 3}, 20);
    request.beam.width = 4;
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->submit(request, sinks.back()));
  }
  for (const auto& sink : sinks) {
    ASSERT_TRUE(sink->wait());
    EXPECT_EQ(sink->finish(), FinishReason::length);
  }
}

TEST(Engine, BeamsEndWithTheirBestHypotheses) {
  const FakeModel model{.vocab_size = 50, .eos_id = 2};
  const auto engine = make_engine(model);
  Request request = make_request(numbers(21), 6);
  request.beam.width = 4;
  request.n = 3;
  request.logprobs = 1;
  const auto sink = ask(*engine, request);
  double last = HUGE_VAL;
  for (int32_t choice = 0; choice < 3; ++choice) {
    double sum = 0;
    std::vector<int32_t> ids = request.prompt;
    for (const TokenLogprob& token : sink->logprobs(choice)) {
      EXPECT_NEAR(token.logprob, log_softmax(model.logits(ids, {}))[token.id], 1e-6);
      ids.push_back(token.id);
      sum += token.logprob;
    }
    const double score = sum / static_cast<double>(sink->logprobs(choice).size());
    EXPECT_LE(score, last + 1e-9);
    last = score;
  }
  EXPECT_NE(sink->tokens(0), sink->tokens(1));
  EXPECT_EQ(engine->stats().kv_blocks_used, engine->stats().kv_blocks_cached);
}

TEST(Engine, ARepeatedPromptIsFoundInTheCacheUnlessTheKeyDiffers) {
  const FakeModel model;
  const auto engine = make_engine(model);
  Request request = make_request(numbers(100), 4);
  const auto first = ask(*engine, request), again = ask(*engine, request);
  EXPECT_EQ(first->last_event().timing.cached_tokens, 0);
  EXPECT_EQ(again->last_event().timing.cached_tokens, 96);
  EXPECT_EQ(first->tokens(), again->tokens());
  request.cache_key = "another tenant";
  EXPECT_EQ(ask(*engine, request)->last_event().timing.cached_tokens, 0);
  EXPECT_EQ(engine->stats().prefix_hit_tokens, 96u);
  EXPECT_EQ(engine->stats().prefix_query_tokens, 300u);
}

TEST(Engine, TimingStampsFollowTheRequest) {
  const FakeModel model{.step_delay = std::chrono::milliseconds(2)};
  const auto engine = make_engine(model);
  const RequestTiming timing = ask(*engine, make_request({1, 2, 3}, 5))->last_event().timing;
  EXPECT_LE(timing.arrived, timing.scheduled);
  EXPECT_LT(timing.scheduled, timing.first_token);
  EXPECT_EQ(timing.prompt_tokens, 3);
  EXPECT_EQ(timing.completion_tokens, 5);
  EXPECT_GE(timing.ttft_ms(), 2.0);
  EXPECT_GE(timing.tpot_ms(), 2.0);
}

// ---- Refusals

TEST(Engine, WhatCanNeverRunIsRefusedWithTheLimitNamed) {
  const FakeModel model{.max_context = 64, .num_blocks = {3}};
  EngineConfig config = checked_config();
  config.max_context = 50;
  const auto engine = make_engine(model, config);
  const auto refused = [&](const Request& request) { return engine->submit(request, nullptr).error(); };
  EXPECT_EQ(refused(make_request({}, 1)).code(), Code::invalid_argument);
  const Status too_long = refused(make_request(numbers(50), 1));
  EXPECT_EQ(too_long.code(), Code::invalid_argument);
  EXPECT_THAT(too_long.message(), HasSubstr("50 tokens and at least 1 to generate, the context holds 50"));
  const Status too_big = refused(make_request(numbers(30), 10));
  EXPECT_EQ(too_big.code(), Code::resource_exhausted);
  EXPECT_THAT(too_big.message(), HasSubstr("needs 39 tokens of KV cache, all of it holds 32"));
  EXPECT_EQ(engine->stats().requests_rejected, 3u);
  EXPECT_THAT(ask(*engine, make_request(numbers(30), 3))->tokens(), SizeIs(3));
}

TEST(Engine, AFullQueueRefusesAndTakesAgainLater) {
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  FakeModel model{.max_seqs = 1};
  model.on_wait = [open](uint64_t) {
    open.wait();
    return Status();
  };
  EngineConfig config = checked_config();
  config.max_queue = 2;
  const auto engine = make_engine(model, config);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  const auto submit = [&] {
    sinks.push_back(std::make_shared<CollectingSink>());
    return engine->submit(make_request({1}, 3), sinks.back());
  };
  ASSERT_TRUE(submit().has_value());
  while (engine->stats().requests_running == 0) std::this_thread::yield();
  ASSERT_TRUE(submit().has_value());
  ASSERT_TRUE(submit().has_value());
  const auto refused = submit();
  sinks.pop_back();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::resource_exhausted);
  gate.set_value();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->wait());
  EXPECT_TRUE(submit().has_value());
  EXPECT_TRUE(sinks.back()->wait());
}

// ---- Faults and ends

TEST(Engine, ARowThatIsNotFiniteFailsItsRequestAndNoOther) {
  for (const int depth : {0, 1}) {
    FakeModel model{.depth = depth};
    model.not_finite = [](std::span<const int32_t> ids) { return ids[0] == 7 && ids.size() >= 20; };
    const auto engine = make_engine(model);
    const auto bad = std::make_shared<CollectingSink>(2), good = std::make_shared<CollectingSink>();
    Request failing = make_request({7, 8}, 40);
    failing.n = 2;
    ASSERT_TRUE(engine->submit(failing, bad).has_value());
    ASSERT_TRUE(engine->submit(make_request({1, 2}, 40), good).has_value());
    ASSERT_TRUE(bad->wait() && good->wait());
    EXPECT_EQ(bad->finish(0), FinishReason::error);
    EXPECT_EQ(bad->finish(1), FinishReason::error);
    EXPECT_EQ(bad->last_event().status.code(), Code::internal);
    EXPECT_EQ(bad->complaint() + good->complaint(), "");
    EXPECT_EQ(good->tokens(), model.answer(std::vector<int32_t>{1, 2}, 40, {}));
    EXPECT_EQ(engine->stats().requests_failed, 1u);
  }
}

TEST(Engine, AFailedStepEndsTheRunningRequestsAndTheEngineGoesOn) {
  for (const int depth : {0, 1, 2}) {
    for (const bool at_submit : {true, false}) {
      FakeModel model{.depth = depth};
      (at_submit ? model.on_submit : model.on_wait) = [](uint64_t step) {
        return step == 5 ? make_status(Code::internal, "device fault") : Status();
      };
      const auto engine = make_engine(model);
      const auto sink = ask(*engine, make_request(numbers(20), 50));
      EXPECT_EQ(sink->finish(), FinishReason::error);
      EXPECT_EQ(sink->last_event().status.message(), "device fault");
      while (engine->stats().kv_blocks_used != 0) std::this_thread::yield();
      const auto next = ask(*engine, make_request(numbers(20), 50));
      EXPECT_EQ(next->tokens(), model.answer(numbers(20), 50, {}));
    }
  }
}

TEST(Engine, ALostDeviceFailsAllAndRefusesLaterOnes) {
  FakeModel model{.max_seqs = 1, .depth = 1};
  const auto running = std::make_shared<CollectingSink>(), arriving = std::make_shared<CollectingSink>();
  std::unique_ptr<Engine> engine;
  model.on_wait = [&](uint64_t step) {
    if (step != 5) return Status();
    // Accepted, and in the mailbox still when the device is gone.
    EXPECT_TRUE(engine->submit(make_request({2}, 50), arriving).has_value());
    return make_status(Code::unavailable, "device lost");
  };
  engine = make_engine(model);
  ASSERT_TRUE(engine->submit(make_request({1}, 50), running).has_value());
  ASSERT_TRUE(running->wait());
  ASSERT_TRUE(arriving->wait());
  for (const auto& sink : {running, arriving}) {
    EXPECT_EQ(sink->finish(), FinishReason::error);
    EXPECT_EQ(sink->last_event().status.code(), Code::unavailable);
  }
  const auto refused = engine->submit(make_request({1}, 5), running);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::unavailable);
}

TEST(Engine, AnAbortEndsTheRequestAndFreesItsBlocks) {
  FakeModel model{.depth = 1, .step_delay = std::chrono::microseconds(200)};
  const auto engine = make_engine(model);
  const auto sink = std::make_shared<CollectingSink>();
  const RequestId id = engine->submit(make_request({1, 2, 3}, 2000), sink).value();
  ASSERT_TRUE(sink->wait_for_tokens(20));
  engine->abort(id);
  engine->abort(id);
  engine->abort(12345);
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->finish(), FinishReason::abort);
  EXPECT_LT(sink->tokens().size(), 2000u);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.requests_aborted, 1u);
  EXPECT_EQ(stats.requests_running, 0u);
  EXPECT_EQ(stats.kv_blocks_used, stats.kv_blocks_cached);
}

TEST(Engine, OneChoiceCanBeAbortedAlone) {
  FakeModel model{.step_delay = std::chrono::microseconds(200)};
  const auto engine = make_engine(model);
  Request request = make_request({1, 2, 3}, 60);
  request.n = 2;
  const auto sink = std::make_shared<CollectingSink>(2);
  const RequestId id = engine->submit(request, sink).value();
  ASSERT_TRUE(sink->wait_for_tokens(5));
  engine->abort(id, 0);
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->finish(0), FinishReason::abort);
  EXPECT_EQ(sink->finish(1), FinishReason::length);
  EXPECT_EQ(sink->tokens(1), model.answer(request.prompt, 60, {.stream = 1}));
}

TEST(Engine, ShutdownAbortsWhatRunsAndWaitsAndRefusesTheRest) {
  const FakeModel model{.max_seqs = 1, .depth = 1, .step_delay = std::chrono::microseconds(500)};
  const auto engine = make_engine(model);
  const auto running = std::make_shared<CollectingSink>(), waiting = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine->submit(make_request({1}, 2000), running).has_value());
  ASSERT_TRUE(engine->submit(make_request({1}, 2000), waiting).has_value());
  ASSERT_TRUE(running->wait_for_tokens(1));
  engine->shutdown();
  engine->shutdown();
  EXPECT_EQ(running->finish(), FinishReason::abort);
  EXPECT_EQ(waiting->finish(), FinishReason::abort);
  EXPECT_EQ(engine->submit(make_request({1}, 1), running).error().code(), Code::unavailable);
}

TEST(Engine, ASinkMayAbortAndSubmitFromItsEvents) {
  const FakeModel model;
  const auto engine = make_engine(model);
  struct Chaining final : EventSink {
    Engine* engine = nullptr;
    std::shared_ptr<CollectingSink> next = std::make_shared<CollectingSink>();
    std::atomic<bool> ended = false;
    void on_event(Event event) override {
      if (event.tokens.size() == 1 && !event.last) engine->abort(event.request);
      if (event.last) ended = engine->submit(make_request({4}, 3), next).has_value();
    }
  };
  const auto chaining = std::make_shared<Chaining>();
  chaining->engine = engine.get();
  ASSERT_TRUE(engine->submit(make_request({1}, 500), chaining).has_value());
  ASSERT_TRUE(chaining->next->wait());
  EXPECT_TRUE(chaining->ended);
}

// ---- Figures

TEST(Engine, TheObserverHearsStepsAndEnds) {
  struct Counter final : EngineObserver {
    std::atomic<int> steps = 0, tokens = 0, ends = 0;
    void on_step(double seconds, int step_tokens, int seqs) override {
      if (seconds >= 0 && seqs == 1) ++steps;
      tokens += step_tokens;
    }
    void on_finish(const RequestTiming& timing, FinishReason reason) override {
      if (timing.completion_tokens == 4 && reason == FinishReason::length) ++ends;
    }
  };
  const auto engine = make_engine(FakeModel{.max_tokens = 16});
  const auto counter = std::make_shared<Counter>();
  engine->set_observer(counter);
  ask(*engine, make_request(numbers(20), 4));
  engine->shutdown();
  EXPECT_EQ(counter->steps, 5);  // two chunks, the second samples, and three decodes
  EXPECT_EQ(counter->tokens, 23);
  EXPECT_EQ(counter->ends, 1);
  EXPECT_EQ(engine->stats().steps, 5u);
  EXPECT_EQ(engine->stats().generation_tokens, 4u);
  EXPECT_EQ(engine->stats().prompt_tokens, 20u);
}

TEST(Engine, MemoryComesBackWhenThePrefixCacheIsCleared) {
  const auto engine = make_engine(FakeModel{});
  ask(*engine, make_request(numbers(100), 30));
  EXPECT_EQ(engine->stats().kv_blocks_used, 8u);  // 129 tokens: the full blocks stay as a prefix
  EXPECT_EQ(engine->stats().kv_blocks_cached, 8u);
  engine->clear_prefix_cache();
  while (engine->stats().kv_blocks_used != 0) std::this_thread::yield();
  EXPECT_EQ(ask(*engine, make_request(numbers(100), 1))->last_event().timing.cached_tokens, 0);
}

// ---- Everything at once

TEST(EngineLoad, EveryAnswerIsThatOfARunAloneAndMemoryComesBack) {
  uint64_t preemptions = 0;  // how many there are is a matter of timing; the scheduler's simulation counts them exactly
  for (const int depth : {0, 1, 2}) {
    LoadOptions options{.seed = static_cast<uint64_t>(depth)};
    options.model.depth = depth;
    options.model.eos_id = 0;
    options.model.eos_one_in = 40;
    options.model.max_seqs = 8;
    options.model.num_blocks = {20};
    options.config.max_batched_tokens = 48;
    const LoadReport report = run_engine_load(options);
    EXPECT_EQ(report.failure, "") << "depth " << depth;
    const EngineStats& stats = report.stats;
    EXPECT_EQ(stats.requests_finished + stats.requests_aborted + stats.requests_rejected, 200u);
    EXPECT_LT(stats.requests_rejected, 20u) << "beams that the whole pool cannot hold";
    EXPECT_EQ(stats.requests_running + stats.requests_waiting + stats.requests_failed, 0u);
    EXPECT_EQ(stats.kv_blocks_used, stats.kv_blocks_cached);
    EXPECT_GT(stats.prefix_hit_tokens, 100u);
    preemptions += stats.preemptions;
  }
  EXPECT_GT(preemptions, 0u);
}

}  // namespace
}  // namespace headrace::engine
