// The accelerator's runner on a fake device whose kernels are the CPU's: it must give the CPU runner's bits, whatever it pads, sends ahead and
// records. (Whole engines under load run on it in engine/reproducible_slow_test.cc.)
#include <gtest/gtest.h>

#include "runtime/local_runner.h"
#include "testing/fake_accelerator.h"
#include "testing/golden.h"

namespace headrace::runtime {
namespace {

using headrace::testing::fake_device_counts;

std::unique_ptr<LocalRunner> open_runner(std::shared_ptr<DeviceQueue> queue) {
  const auto source = io::ModelSource::open(headrace::testing::golden_path("tiny_decoders/llama3_rope"));
  EXPECT_TRUE(source) << source.error().to_string();
  RunnerOptions options{.model_name = "tiny", .policy = DtypePolicy::exact(), .isa = Isa::generic, .max_context = 128, .max_seqs = 6,
                        .max_tokens = 100, .kv_tokens = 1024};
  options.skip_passes = headrace::testing::kFakeDeviceSkips;
  auto runner = LocalRunner::open(**source, std::move(queue), options);
  EXPECT_TRUE(runner) << runner.error().to_string();
  return runner ? std::move(*runner) : nullptr;
}

// One token of each of `seqs` sequences at `position`, each in 4 blocks of its own, with logits and log-probabilities.
void fill_decode(StepPlan& plan, uint64_t step, int seqs, int position, int tokens_each = 1) {
  const int tokens = seqs * tokens_each, blocks = kv_blocks_for(position + tokens_each);
  plan.reset(step, {.tokens = tokens, .seqs = seqs, .logit_rows = seqs, .blocks = blocks, .history = 2 * seqs}, kWantLogits | kWantLogprobs);
  for (int s = 0; s < seqs; ++s) {
    for (int i = 0; i < tokens_each; ++i) {
      const int t = s * tokens_each + i;
      plan.ints(StepField::token_src)[t] = (7 * s + 13 * (position + i)) % 50;
      plan.ints(StepField::positions)[t] = position + i;
      plan.kv_slots(0)[t] = (1 + 4 * s + (position + i) / kKvBlockTokens) * kKvBlockTokens + (position + i) % kKvBlockTokens;
    }
    plan.ints(StepField::query_start)[s + 1] = (s + 1) * tokens_each;
    plan.ints(StepField::context_len)[s] = position + tokens_each;
    plan.ints(StepField::logit_rows)[s] = (s + 1) * tokens_each - 1;
    plan.ints(StepField::num_logprobs)[s] = s % 3;
    plan.ints(StepField::sample_slot)[s] = s;
    plan.floats(StepField::temperature)[s] = s % 2 == 0 ? 0.0f : 1.0f;
    plan.floats(StepField::repetition_penalty)[s] = 1.5f;
    for (int i = 0; i < 2; ++i) plan.ints(StepField::history)[2 * s + i] = 5 * s + i;
    plan.ints(StepField::history_start)[s + 1] = 2 * (s + 1);
    plan.ints(StepField::output_start)[s] = 2 * s + 1;
    for (int b = 0; b < blocks; ++b) plan.block_row(0, s)[b] = 1 + 4 * s + b;
  }
}

void expect_equal(const StepResult& got, const StepResult& want) {
  EXPECT_EQ(got.step, want.step);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.logits, want.logits);
  EXPECT_EQ(got.logprobs, want.logprobs);
  EXPECT_EQ(got.top_logprobs, want.top_logprobs);
}

TEST(AcceleratorRunner, GivesTheCpusBitsForPaddedRecordedAndDirectSteps) {
  const auto device = open_runner(headrace::testing::fake_device_queue(1));
  const auto cpu = open_runner(std::make_shared<DeviceQueue>(1, 0));
  ASSERT_TRUE(device && cpu);
  EXPECT_EQ(device->limits().pipeline_depth, 1);
  const int recorded = fake_device_counts().recorded, replayed = fake_device_counts().replayed;
  StepPlan plan;
  uint64_t step = 0;
  const auto both = [&](int seqs, int position, int tokens_each) {
    fill_decode(plan, ++step, seqs, position, tokens_each);
    const auto ours = device->submit(plan), theirs = cpu->submit(plan);
    ASSERT_TRUE(ours && theirs);
    expect_equal(*device->wait(*ours), *cpu->wait(*theirs));
  };
  both(6, 0, 14);  // prompts
  for (int position = 14; position < 40; ++position) both(1 + position % 6, position, 1);
  // One graph for each of the buckets 1, 2, 4 and 6 (all that there are), made at its second step.
  EXPECT_EQ(fake_device_counts().recorded - recorded, 4);
  EXPECT_EQ(fake_device_counts().replayed - replayed, 26 - 4);
}

TEST(AcceleratorRunner, TakesAStepWhileOneIsUnderWay) {
  const auto device = open_runner(headrace::testing::fake_device_queue(1));
  const auto cpu = open_runner(std::make_shared<DeviceQueue>(1, 0));
  ASSERT_TRUE(device && cpu);
  StepPlan plan;
  std::vector<Ticket> tickets;
  std::vector<StepResult> want;
  for (int position = 0; position < 8; ++position) {
    fill_decode(plan, uint64_t(position) + 1, 3, position);
    const auto theirs = cpu->submit(plan);
    ASSERT_TRUE(theirs);
    want.push_back(*cpu->wait(*theirs));
    const auto ours = device->submit(plan);
    ASSERT_TRUE(ours);
    tickets.push_back(*ours);
    if (position > 0) expect_equal(*device->wait(tickets[position - 1]), want[position - 1]);
  }
  expect_equal(*device->wait(tickets.back()), want.back());
}

TEST(AcceleratorRunner, GivesItsMemoryBack) {
  const int64_t before = fake_device_counts().allocated;
  const auto queue = headrace::testing::fake_device_queue(2);
  {
    const auto device = open_runner(queue);
    ASSERT_NE(device, nullptr);
    EXPECT_GT(queue->ledger().total(), 0u);
    StepPlan plan;
    fill_decode(plan, 1, 3, 0);
    const auto ticket = device->submit(plan);
    ASSERT_TRUE(ticket && device->wait(*ticket));
  }
  EXPECT_EQ(queue->ledger().total(), 0u);
  EXPECT_EQ(fake_device_counts().allocated, before);
}

TEST(AcceleratorRunner, ALostDeviceIsAnErrorOfTheStep) {
  const auto device = open_runner(headrace::testing::fake_device_queue(1));
  ASSERT_NE(device, nullptr);
  StepPlan plan;
  fill_decode(plan, 1, 3, 0);
  const auto ticket = device->submit(plan);
  ASSERT_TRUE(ticket);
  headrace::testing::fail_fake_device_after(1);
  const auto result = device->wait(*ticket);
  headrace::testing::fail_fake_device_after(0);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::internal);
  EXPECT_NE(result.error().message().find("the fake device is lost"), std::string::npos);
}

TEST(AcceleratorRunner, CopiesBlocksInAllLayersBeforeTheStep) {
  const auto device = open_runner(headrace::testing::fake_device_queue(1));
  const auto cpu = open_runner(std::make_shared<DeviceQueue>(1, 0));
  ASSERT_TRUE(device && cpu);
  StepPlan plan;
  for (LocalRunner* runner : {device.get(), cpu.get()}) {
    fill_decode(plan, 1, 1, 0, 16);
    const auto ticket = runner->submit(plan);
    ASSERT_TRUE(ticket && runner->wait(*ticket));
  }
  // The first sequence goes on from a copy of its block.
  StepPlan copied;
  fill_decode(plan, 2, 1, 16);
  StepCounts counts = plan.header().counts;
  counts.copies = 1;
  copied.reset(2, counts, plan.header().flags);
  for (int i = 0; i < kNumStepFields; ++i) {
    const auto field = static_cast<StepField>(i);
    if (plan.field_elements(field) > 0) std::ranges::copy(plan.ints(field), copied.ints(field).begin());
  }
  copied.ints(StepField::copy_src)[0] = 1;
  copied.ints(StepField::copy_dst)[0] = 9;
  copied.block_row(0, 0)[0] = 9;
  const auto ours = device->submit(copied), theirs = cpu->submit(plan);
  ASSERT_TRUE(ours && theirs);
  expect_equal(*device->wait(*ours), *cpu->wait(*theirs));
  copied.ints(StepField::copy_dst)[0] = 1 << 20;
  const auto refused = device->submit(copied);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace headrace::runtime
