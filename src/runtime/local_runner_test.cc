// The runner with its real kernels. Golden values: transformers in float64 on tiny checkpoints of every family
// (tools/golden/tiny_decoders.py).
#include "runtime/local_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "models/host_stepper.h"
#include "testing/golden.h"
#include "testing/tiny_decoders.h"

namespace headrace::runtime {
namespace {

constexpr int kContext = 64;

using testing::forced_logits;
using Golden = testing::DecoderGolden;

std::string folder(const std::string& name) { return testing::golden_path("tiny_decoders/" + name); }
Golden read_golden(const std::string& name) { return testing::read_decoder_golden(name); }

DtypePolicy with_kv(DtypePolicy policy, DType kv) {
  policy.kv = kv;
  return policy;
}

std::unique_ptr<LocalRunner> open_runner(const std::string& path, DtypePolicy policy, Isa isa, int threads,
                                         std::vector<std::string> skip = {}) {
  const auto source = io::ModelSource::open(path);
  EXPECT_TRUE(source) << source.error().to_string();
  RunnerOptions options;
  options.model_name = "tiny";
  options.policy = policy;
  options.isa = isa;
  options.skip_passes = std::move(skip);
  options.max_context = kContext;
  options.max_seqs = 4;
  options.max_tokens = options.max_logit_rows = kContext;
  options.kv_tokens = 4 * kContext;
  auto runner = LocalRunner::open(**source, std::make_shared<DeviceQueue>(threads, 0), options);
  EXPECT_TRUE(runner) << runner.error().to_string();
  return runner ? std::move(*runner) : nullptr;
}

std::vector<Isa> isas() {
  std::vector<Isa> all{Isa::generic};
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa <= detect_isa()) all.push_back(isa);
  }
  return all;
}

TEST(LocalRunner, ExactLogitsEqualTransformersForEveryInstructionSetAndWithEveryPassSkipped) {
  for (const char* name : {"tied", "untied_biases", "llama3_rope", "mistral_window", "qwen2_window", "qwen3", "gemma3",
                           "gemma3_softcaps", "rope_dynamic", "rope_longrope"}) {
    const Golden golden = read_golden(name);
    ASSERT_FALSE(golden.ids.empty());
    for (const Isa isa : isas()) {
      for (const auto& skip : {std::vector<std::string>{}, std::vector<std::string>{"all"}}) {
        const auto runner = open_runner(folder(name), DtypePolicy::exact(), isa, 2, skip);
        ASSERT_NE(runner, nullptr);
        const std::vector<float> logits = forced_logits(*runner, golden.ids, 7);
        ASSERT_EQ(logits.size(), golden.logits.size());
        for (size_t i = 0; i < logits.size(); ++i) {
          ASSERT_NEAR(logits[i], golden.logits[i], 1e-4) << name << " " << isa_name(isa) << " at " << i;
        }
      }
    }
  }
}

// Golden: the same graph by the ops' float64 references, which round keys and values as the pool does. float32 may round a few
// of them the other way (2e-3); what the dtype itself changes is 0.016 to 0.2 (bf16) and 0.05 to 0.8 (i8).
TEST(LocalRunner, LogitsWithARoundedCacheEqualTheReferenceWithTheSameCache) {
  for (const char* name : {"tied", "mistral_window", "gemma3_softcaps"}) {
    const Golden golden = read_golden(name);
    const models::testing::GoldenCheckpoint checkpoint(std::string("tiny_decoders/") + name);
    for (const DType kv : {DType::bf16, DType::i8}) {
      const DtypePolicy policy = with_kv(DtypePolicy::exact(), kv);
      models::testing::Built built = models::testing::build(checkpoint, policy, {});
      models::testing::HostStepper stepper(std::move(built.graph), built.info, checkpoint.host_weights());
      const auto outputs = stepper.step({{0, {golden.ids.begin(), golden.ids.end()}}});
      const std::vector<double>& want = outputs.at("logits").values;
      for (const Isa isa : isas()) {
        const auto runner = open_runner(folder(name), policy, isa, 2);
        ASSERT_NE(runner, nullptr);
        const std::vector<float> logits = forced_logits(*runner, golden.ids, 7);
        ASSERT_EQ(logits.size(), want.size());
        double worst = 0;
        for (size_t i = 0; i < logits.size(); ++i) worst = std::max(worst, std::fabs(double{logits[i]} - want[i]));
        EXPECT_LT(worst, 5e-3) << name << " " << isa_name(isa) << " " << dtype_name(kv);
      }
    }
  }
}

// Golden: the log softmax, in float64, of transformers' logits.
TEST(LocalRunner, GivesTheLogProbabilitiesOfTargetsAndSamplesAndListsTheBest) {
  for (const char* name : {"tied", "qwen3", "gemma3_softcaps"}) {
    const Golden golden = read_golden(name);
    const auto source = io::ModelSource::open(folder(name));
    ASSERT_TRUE(source);
    RunnerOptions options;
    options.model_name = "tiny";
    options.policy = DtypePolicy::exact();
    options.max_context = options.max_tokens = options.max_logit_rows = kContext;
    options.max_seqs = 1;
    options.kv_tokens = kContext;
    const auto runner = LocalRunner::open(**source, std::make_shared<DeviceQueue>(2, 0), options);
    ASSERT_TRUE(runner) << runner.error().to_string();
    const size_t vocab = size_t((*runner)->limits().vocab_size);
    const int count = 14, rows = 5;  // of one block, the last rows scored
    const int num_logprobs[rows] = {0, 3, 20, 1, -1};
    const auto groups = int32_t((*runner)->limits().groups.size());
    StepPlan plan;
    plan.reset(1, {.tokens = count, .seqs = 1, .logit_rows = rows, .groups = groups, .blocks = 1}, kWantLogprobs);
    for (int i = 0; i < count; ++i) {
      plan.ints(StepField::token_src)[i] = golden.ids[i];
      plan.ints(StepField::positions)[i] = i;
      for (int group = 0; group < groups; ++group) plan.kv_slots(group)[i] = kKvBlockTokens + i;
    }
    for (int row = 0; row < rows; ++row) {
      plan.ints(StepField::logit_rows)[row] = count - rows + row;
      plan.ints(StepField::target)[row] = row % 2 == 0 ? golden.ids[count - rows + row + 1] : -1;
      plan.ints(StepField::num_logprobs)[row] = num_logprobs[row];
    }
    plan.ints(StepField::query_start)[1] = plan.ints(StepField::context_len)[0] = count;
    for (int group = 0; group < groups; ++group) plan.block_row(group, 0)[0] = 1;
    const auto ticket = (*runner)->submit(plan);
    ASSERT_TRUE(ticket) << ticket.error().to_string();
    const auto result = (*runner)->wait(*ticket);
    ASSERT_EQ(result->logprobs.size(), size_t{rows});
    ASSERT_EQ(result->top_ids.size(), size_t{rows} * kMaxLogprobs);
    ASSERT_EQ(result->top_logprobs.size(), size_t{rows} * kMaxLogprobs);
    EXPECT_TRUE(result->logits.empty());
    for (int row = 0; row < rows && num_logprobs[row] >= 0; ++row) {
      SCOPED_TRACE(std::string(name) + " row " + std::to_string(row));
      const float* logits = golden.logits.data() + size_t(count - rows + row) * vocab;
      double sum = 0;
      for (size_t i = 0; i < vocab; ++i) sum += std::exp(double{logits[i]});
      const auto want = [&](int32_t id) { return logits[id] - std::log(sum); };
      EXPECT_NEAR(result->logprobs[row], want(row % 2 == 0 ? golden.ids[count - rows + row + 1] : result->tokens[row]), 1e-4);
      std::vector<int32_t> order(vocab);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
      EXPECT_EQ(result->tokens[row], order[0]);
      for (int i = 0; i < kMaxLogprobs; ++i) {
        const int32_t id = result->top_ids[size_t(row) * kMaxLogprobs + i];
        if (i >= num_logprobs[row]) {
          EXPECT_EQ(id, -1);
          continue;
        }
        EXPECT_NEAR(want(id), want(order[i]), 1e-4) << "place " << i;  // neighbours may be that near
        EXPECT_NEAR(result->top_logprobs[size_t(row) * kMaxLogprobs + i], want(id), 1e-4) << "place " << i;
      }
    }
  }
}

// The golden is transformers' last row of logits; the rest is arithmetic on it.
TEST(LocalRunner, BiasesAndTheHistoryOfAnEarlierStepChangeWhatIsDrawnAndNotTheLogProbability) {
  const Golden golden = read_golden("tied");
  const auto runner = open_runner(folder("tied"), DtypePolicy::exact(), detect_isa(), 2);
  const int count = 8;
  const float* logits = golden.logits.data() + size_t(count - 1) * size_t(runner->limits().vocab_size);
  std::vector<int32_t> order(size_t(runner->limits().vocab_size));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  double sum = 0;
  for (const int32_t id : order) sum += std::exp(double{logits[id]});

  StepPlan plan;
  uint64_t step = 0;
  // The same position again and again, with another change each time.
  using Biases = std::vector<std::pair<int32_t, float>>;
  const auto draw = [&](const Biases& biases, const std::vector<int32_t>& history, float frequency) {
    plan.reset(++step,
               {.tokens = count, .seqs = 1, .logit_rows = 1, .groups = 1, .blocks = 1, .biases = int32_t(biases.size()),
                .history = int32_t(history.size())},
               kWantLogprobs);
    for (int i = 0; i < count; ++i) {
      plan.ints(StepField::token_src)[i] = golden.ids[i];
      plan.ints(StepField::positions)[i] = i;
      plan.kv_slots(0)[i] = kKvBlockTokens + i;
    }
    plan.ints(StepField::query_start)[1] = plan.ints(StepField::context_len)[0] = count;
    plan.block_row(0, 0)[0] = 1;
    plan.ints(StepField::logit_rows)[0] = count - 1;
    plan.ints(StepField::sample_slot)[0] = 2;
    plan.ints(StepField::num_logprobs)[0] = 0;
    plan.floats(StepField::frequency_penalty)[0] = frequency;
    plan.ints(StepField::bias_start)[1] = int32_t(biases.size());
    for (size_t i = 0; i < biases.size(); ++i) {
      plan.ints(StepField::bias_token)[i] = biases[i].first;
      plan.floats(StepField::bias_value)[i] = biases[i].second;
    }
    plan.ints(StepField::history_start)[1] = int32_t(history.size());
    std::copy(history.begin(), history.end(), plan.ints(StepField::history).begin());
    const auto ticket = runner->submit(plan);
    EXPECT_TRUE(ticket) << ticket.error().to_string();
    const auto result = runner->wait(*ticket);
    EXPECT_NEAR(result->logprobs[0], logits[result->tokens[0]] - std::log(sum), 1e-4);
    return result->tokens[0];
  };
  EXPECT_EQ(draw({}, {}, 0), order[0]);
  EXPECT_EQ(draw({{order[0], -INFINITY}}, {}, 0), order[1]);
  EXPECT_EQ(draw({{order[5], 100.0f}}, {}, 0), order[5]);
  EXPECT_EQ(draw({}, {}, 0), order[0]);
  // -(2 + 1): what slot 2 drew last, order[0], and then order[1].
  std::vector<int32_t> often(20, -3);
  EXPECT_EQ(draw({}, often, 2), order[1]);
  often.insert(often.end(), 20, order[0]);
  EXPECT_EQ(draw({}, often, 2), order[2]);
}

// Contract: a row's bits are a function of that row's inputs. So a sequence's logits do not depend on how its prompt was cut,
// on the number of threads, or on which blocks it was given.
TEST(LocalRunner, LogitsAreBitwiseEqualForAnyChunkAndAnyNumberOfThreads) {
  const Golden golden = read_golden("tied");
  for (const DtypePolicy& policy : {DtypePolicy(), DtypePolicy::exact(), with_kv(DtypePolicy(), DType::i8)}) {
    for (const Isa isa : isas()) {
      const auto first = open_runner(folder("tied"), policy, isa, 1);
      const std::vector<float> want = forced_logits(*first, golden.ids, int(golden.ids.size()));
      for (const int threads : {1, 2, 3}) {
        const auto runner = open_runner(folder("tied"), policy, isa, threads);
        for (const int chunk : {1, 2, 5, 16, 17}) {
          const std::vector<float> got = forced_logits(*runner, golden.ids, chunk);
          ASSERT_EQ(got.size(), want.size());
          EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
              << isa_name(isa) << " threads " << threads << " chunk " << chunk;
        }
      }
    }
  }
}

TEST(LocalRunner, APlanBeyondTheLimitsIsRefusedAndTheNextOneRuns) {
  const auto runner = open_runner(folder("tied"), DtypePolicy(), detect_isa(), 1);
  StepPlan plan;
  plan.reset(1, {.tokens = kContext + 1, .seqs = 1, .logit_rows = 1, .groups = 1, .blocks = 1});
  EXPECT_EQ(runner->submit(plan).error().code(), Code::invalid_argument);
  plan.reset(1, {.tokens = kContext, .seqs = 1, .logit_rows = kContext + 1, .groups = 1, .blocks = 1});
  EXPECT_EQ(runner->submit(plan).error().code(), Code::invalid_argument);
  plan.reset(1, {.tokens = 1, .seqs = 1, .logit_rows = 1, .groups = 2, .blocks = 1});
  EXPECT_EQ(runner->submit(plan).error().code(), Code::invalid_argument);
  EXPECT_EQ(forced_logits(*runner, {1, 2, 3}, 3).size(), 3u * size_t(runner->limits().vocab_size));
}

TEST(LocalRunner, MemoryComesBackToTheLedger) {
  const auto source = io::ModelSource::open(folder("tied"));
  ASSERT_TRUE(source);
  const auto queue = std::make_shared<DeviceQueue>(1, 64u << 20);
  RunnerOptions options;
  options.model_name = "tiny";
  {
    const auto runner = LocalRunner::open(**source, queue, options);
    ASSERT_TRUE(runner) << runner.error().to_string();
    EXPECT_EQ(queue->ledger().held(Account::weights), (*runner)->memory().weights);
    EXPECT_GT(queue->ledger().held_by("tiny"), (*runner)->memory().weights);
    EXPECT_LE(queue->ledger().total(), queue->ledger().limit());
  }
  EXPECT_EQ(queue->ledger().total(), 0u);
}

TEST(LocalRunner, ABudgetTooSmallIsAnErrorThatSaysWhatHoldsTheMemory) {
  const auto source = io::ModelSource::open(folder("tied"));
  ASSERT_TRUE(source);
  RunnerOptions options;
  options.model_name = "tiny";
  const auto runner = LocalRunner::open(**source, std::make_shared<DeviceQueue>(1, 4096), options);
  ASSERT_FALSE(runner);
  EXPECT_EQ(runner.error().code(), Code::resource_exhausted);
}

}  // namespace
}  // namespace headrace::runtime
