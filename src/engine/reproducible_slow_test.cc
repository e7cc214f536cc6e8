// The same bits at any load: a thousand ragged requests of every kind, with random arrivals and aborts, over a pool that makes
// them preempt each other, in small chunks, with cached prefixes and two threads. Each must give the tokens and log-probabilities that
// it gives alone, in one chunk, without a cache, on one thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "testing/fake_accelerator.h"
#include "testing/tiny_engine.h"

namespace headrace::engine {
namespace {

using headrace::testing::Answer;
using headrace::testing::CollectingSink;
using headrace::testing::TinyEngineOptions;

class RandomRequests {
 public:
  RandomRequests(uint64_t seed, int32_t vocab_size) : random_(seed), vocab_size_(vocab_size) {}

  Request next() {
    Request request;
    request.prompt.resize(static_cast<size_t>(uniform(1, 90)));
    const int32_t family = uniform(0, 2), common = uniform(0, 90);
    for (int32_t i = 0; i < static_cast<int32_t>(request.prompt.size()); ++i) {
      request.prompt[i] = i < common ? (i * 7 + family) % vocab_size_ : id();
    }
    request.max_tokens = uniform(1, 40);
    request.priority = uniform(0, 2);
    request.logprobs = uniform(-1, 5);
    request.ignore_eos = chance(0.2);
    if (chance(0.2)) request.prompt_logprobs = uniform(0, 3);
    if (chance(0.3)) request.min_tokens = uniform(0, request.max_tokens);
    if (chance(0.3)) request.stop_token_ids = {id(), id()};
    if (chance(0.1)) request.cache_key = "tenant";
    if (chance(0.15)) {
      request.beam.width = uniform(1, 5);
      request.n = uniform(1, request.beam.width);
      return request;
    }
    request.n = chance(0.3) ? uniform(2, 4) : 1;
    SamplingParams& sampling = request.sampling;
    sampling.temperature = 0.5f * static_cast<float>(uniform(0, 3));
    sampling.seed = random_();
    if (chance(0.3)) sampling.top_p = 0.7f;
    if (chance(0.3)) sampling.top_k = 8;
    if (chance(0.2)) sampling.min_p = 0.05f;
    if (chance(0.2)) sampling.typical_p = 0.8f;
    if (chance(0.3)) sampling.repetition_penalty = 1.3f;
    if (chance(0.3)) sampling.frequency_penalty = 0.4f;
    if (chance(0.3)) sampling.presence_penalty = -0.3f;
    if (chance(0.3)) sampling.logit_bias = {{id(), 3.0f}, {id(), -5.0f}};
    if (chance(0.3)) sampling.bad_words = {{id()}, {id(), id()}};
    return request;
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  int32_t uniform(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }

 private:
  int32_t id() { return uniform(0, vocab_size_ - 1); }
  std::mt19937_64 random_;
  const int32_t vocab_size_;
};

struct Load {
  const char* checkpoint;
  DType kv = DType::f16;
  bool exact = false;
  bool fake_device = false;  // the crowded engine's: steps in flight, padded, recorded and replayed
};
class Reproducible : public ::testing::TestWithParam<Load> {};
INSTANTIATE_TEST_SUITE_P(Checkpoints, Reproducible,
                         ::testing::Values(Load{"tiny_decoders/llama3_rope"}, Load{"tiny_decoders/gemma3", DType::i8},
                                           Load{"tiny_llama.gguf", DType::bf16}, Load{"tiny_decoders/qwen2_window", DType::f16, true},
                                           Load{"tiny_decoders/llama3_rope", DType::bf16, true, true},
                                           Load{"tiny_decoders/gemma3", DType::i8, true, true}),
                         [](const auto& row) { return fmt::format("load{}", row.index); });

TEST_P(Reproducible, ARequestsBitsDependOnNothingThatRunsBesideIt) {
  constexpr size_t kRequests = 260;
  TinyEngineOptions options{.checkpoint = GetParam().checkpoint, .eos_ids = {2}};
  if (GetParam().exact) options.policy = DtypePolicy::exact();
  options.policy.kv = GetParam().kv;
  if (GetParam().fake_device) options.isa = Isa::generic;
  const int replayed = testing::fake_device_counts().replayed;
  const std::unique_ptr<Engine> alone = testing::open_tiny_engine(options);
  options.threads = 2;
  options.kv_tokens = 22 * kKvBlockTokens;
  options.config.max_seqs = 12;
  options.config.max_batched_tokens = 40;
  options.fake_device = GetParam().fake_device;
  const std::unique_ptr<Engine> crowded = testing::open_tiny_engine(options);

  RandomRequests random(static_cast<uint64_t>(GetParam().kv) + 1, alone->limits().vocab_size);
  struct Sent {
    Request request;
    std::shared_ptr<CollectingSink> sink;
    bool aborted;
  };
  std::vector<Sent> sent;
  while (sent.size() < kRequests) {
    const Request request = random.next();
    const auto sink = std::make_shared<CollectingSink>(request.n);
    const auto id = crowded->submit(request, sink);
    if (!id) {  // beams that the whole pool could not hold
      ASSERT_EQ(id.error().code(), Code::resource_exhausted) << id.error().message();
      continue;
    }
    sent.push_back({request, sink, random.chance(0.1)});
    if (random.chance(0.3)) std::this_thread::sleep_for(std::chrono::microseconds(random.uniform(0, 3000)));
    if (sent.back().aborted) crowded->abort(*id);
  }
  int aborted = 0;
  for (const Sent& one : sent) {
    ASSERT_TRUE(one.sink->wait());
    EXPECT_EQ(one.sink->complaint(), "");
    alone->clear_prefix_cache();
    const Answer got = testing::answer_of(*one.sink, one.request.n), wanted = testing::ask(*alone, one.request);
    const bool whole = std::ranges::find(got.choices, FinishReason::abort, &Answer::Choice::finish) == got.choices.end();
    ASSERT_TRUE(whole || one.aborted);
    aborted += whole ? 0 : 1;
    ASSERT_EQ(testing::difference(got, wanted, whole), "");
  }
  const EngineStats stats = crowded->stats();
  EXPECT_GT(stats.preemptions, 0u);
  EXPECT_GT(stats.prefix_hit_tokens, 500u);
  EXPECT_GT(aborted, 0);
  EXPECT_EQ(stats.kv_blocks_used, stats.kv_blocks_cached);
  EXPECT_EQ(alone->stats().preemptions, 0u);
  EXPECT_EQ(testing::fake_device_counts().replayed > replayed, GetParam().fake_device);
}

}  // namespace
}  // namespace headrace::engine
