// The same bits at any load: a thousand ragged requests of every kind, with random arrivals and aborts, over a pool that makes
// them preempt each other, in small chunks, with cached prefixes and two threads. Each must give the tokens and log-probabilities that
// it gives alone, in one chunk, without a cache, on one thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "testing/fake_accelerator.h"
#include "testing/random_requests.h"
#include "testing/tiny_engine.h"

namespace headrace::engine {
namespace {

using headrace::testing::Answer;
using headrace::testing::CollectingSink;
using headrace::testing::RandomRequests;
using headrace::testing::TinyEngineOptions;

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
  if (GetParam().fake_device) {
    options.isa = Isa::generic;
    options.skip_passes = testing::kFakeDeviceSkips;
  }
  const int replayed = testing::fake_device_counts().replayed;
  const std::unique_ptr<Engine> alone = testing::open_tiny_engine(options);
  options.threads = 2;
  options.kv_tokens = 22 * kKvBlockTokens;
  options.config.max_seqs = 12;
  options.config.max_batched_tokens = 40;
  if (GetParam().fake_device) options.queue = testing::fake_device_queue(2);
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
