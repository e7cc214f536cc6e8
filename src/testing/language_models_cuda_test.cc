// Whole steps on a CUDA device. Golden values: transformers in float64 on tiny checkpoints of every family (tools/golden/tiny_decoders.py).
// Skipped, with the reason, where there is no device. Engines under load: the rest of what runs on the CPU runs here, with the same answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "io/requantized_source.h"
#include "runtime/local_runner.h"
#include "testing/golden.h"
#include "testing/random_requests.h"
#include "testing/tiny_decoders.h"
#include "testing/tiny_engine.h"

namespace headrace::testing {
namespace {

using namespace runtime;  // NOLINT: the test is about it

constexpr int kContext = 64;
constexpr const char* kFamilies[] = {"tied", "untied_biases", "llama3_rope", "mistral_window", "qwen2_window", "qwen3", "gemma3",
                                     "gemma3_softcaps", "rope_dynamic", "rope_longrope"};

class CudaRunner : public ::testing::Test {
 protected:
  void SetUp() override {
    auto queue = DeviceQueue::cuda(0, 2, 0);
    if (!queue) GTEST_SKIP() << queue.error().message();
    queue_ = *std::move(queue);
  }

  std::unique_ptr<LocalRunner> open(const std::string& name, const DtypePolicy& policy, bool row_invariant = false) {
    auto source = io::ModelSource::open(golden_path("tiny_decoders/" + name));
    EXPECT_TRUE(source) << source.error().to_string();
    if (policy.activation == DtypePolicy::Activation::bf16) source = io::requantize(*std::move(source), Format::bf16);
    RunnerOptions options{.model_name = "tiny", .policy = policy, .row_invariant = row_invariant, .max_context = kContext, .max_seqs = 4,
                          .max_tokens = kContext, .max_logit_rows = kContext, .kv_tokens = 4 * kContext};
    auto runner = LocalRunner::open(**source, queue_, options);
    EXPECT_TRUE(runner) << name << ": " << runner.error().to_string();
    return runner ? *std::move(runner) : nullptr;
  }

  std::shared_ptr<DeviceQueue> queue_;
};

TEST_F(CudaRunner, ExactLogitsEqualTransformers) {
  for (const char* const name : kFamilies) {
    SCOPED_TRACE(name);
    const DecoderGolden golden = read_decoder_golden(name);
    const auto runner = open(name, DtypePolicy::exact());
    ASSERT_NE(runner, nullptr);
    for (const int chunk : {7, 1}) {  // 1: recorded steps
      const std::vector<float> logits = forced_logits(*runner, golden.ids, chunk);
      ASSERT_EQ(logits.size(), golden.logits.size());
      for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], golden.logits[i], 2e-4) << "at " << i;
    }
  }
}

// The distance of all logits together, as a share of their length: bf16 has 8 bits, and errors of many roundings add up by chance.
TEST_F(CudaRunner, Bf16LogitsAreNearTransformers) {
  for (const char* const name : kFamilies) {
    SCOPED_TRACE(name);
    const DecoderGolden golden = read_decoder_golden(name);
    for (const bool row_invariant : {false, true}) {
      const auto runner = open(name, DtypePolicy::bf16(), row_invariant);
      ASSERT_NE(runner, nullptr);
      for (const int chunk : {64, 7, 1}) {
        const std::vector<float> logits = forced_logits(*runner, golden.ids, chunk);
        ASSERT_EQ(logits.size(), golden.logits.size());
        double error = 0, length = 0;
        for (size_t i = 0; i < logits.size(); ++i) {
          error += std::pow(double(logits[i]) - double(golden.logits[i]), 2);
          length += std::pow(double(golden.logits[i]), 2);
        }
        EXPECT_LT(std::sqrt(error / length), 0.03) << "chunks of " << chunk << (row_invariant ? ", row-invariant" : "");
      }
    }
  }
}

TEST_F(CudaRunner, RowInvariantLogitsAreBitwiseEqualForAnyChunk) {
  for (const char* name : {"llama3_rope", "qwen3", "gemma3"}) {
    SCOPED_TRACE(name);
    const DecoderGolden golden = read_decoder_golden(name);
    const auto runner = open(name, DtypePolicy::bf16(), true);
    ASSERT_NE(runner, nullptr);
    const std::vector<float> whole = forced_logits(*runner, golden.ids, kContext);
    for (const int chunk : {1, 3, 16}) EXPECT_EQ(forced_logits(*runner, golden.ids, chunk), whole) << "chunks of " << chunk;
  }
}

// A thousand ragged requests in small chunks and a small pool against each alone: with row-invariant kernels the same bits. With the default
// ones greedy requests may part where two tokens are nearly as likely; up to there they agree.
TEST_F(CudaRunner, RequestsUnderLoadGiveWhatTheyGiveAlone) {
  for (const bool row_invariant : {true, false}) {
    SCOPED_TRACE(row_invariant ? "row-invariant" : "default");
    TinyEngineOptions options{.checkpoint = "tiny_decoders/llama3_rope", .eos_ids = {2}};
    options.policy = DtypePolicy::bf16();
    options.queue = queue_;
    options.row_invariant = row_invariant;
    const auto alone = open_tiny_engine(options);
    options.kv_tokens = 22 * kKvBlockTokens;
    options.config.max_seqs = 12;
    options.config.max_batched_tokens = 40;
    const auto crowded = open_tiny_engine(options);
    RandomRequests random(5, alone->limits().vocab_size);
    struct Sent {
      engine::Request request;
      std::shared_ptr<CollectingSink> sink;
    };
    std::vector<Sent> sent;
    while (sent.size() < 500) {
      const engine::Request request = random.next();
      const auto sink = std::make_shared<CollectingSink>(request.n);
      if (!crowded->submit(request, sink)) continue;  // beams that the whole pool could not hold
      sent.push_back({request, sink});
    }
    int64_t same = 0, parted = 0;
    for (const Sent& one : sent) {
      ASSERT_TRUE(one.sink->wait());
      alone->clear_prefix_cache();
      const auto got = answer_of(*one.sink, one.request.n), wanted = ask(*alone, one.request);
      if (row_invariant) {
        ASSERT_EQ(difference(got, wanted), "");
        continue;
      }
      if (one.request.sampling.temperature > 0 || one.request.beam.width > 0) continue;
      const auto& a = got.choices[0].tokens;
      const auto& b = wanted.choices[0].tokens;
      const auto first = std::ranges::mismatch(a, b).in1 - a.begin();
      same += first;
      parted += a == b ? 0 : 1;
    }
    std::printf("%s: %ld tokens alike, parted %ld times\n", row_invariant ? "row-invariant" : "default", long(same), long(parted));
    if (!row_invariant) EXPECT_GE(double(same), 0.99 * double(same + parted));
  }
}

}  // namespace
}  // namespace headrace::testing
