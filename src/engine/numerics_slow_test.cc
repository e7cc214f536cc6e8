// The numbers of the real model, on SmolLM2-135M-Instruct Q4_1 (HEADRACE_MODEL; skipped without it):
//   --exact against the fp32 ids of `transformers` (tests/golden/smollm2_greedy.json names versions), greedy, 64 tokens;
//   the default path against --exact, teacher-forced over 2,000 tokens of prose.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/model_source.h"
#include "runtime/local_runner.h"
#include "testing/golden.h"
#include "text/tokenizer.h"
#include "engine/serving_model.h"

namespace headrace {
namespace {

using runtime::LocalRunner;
using runtime::StepField;

constexpr int kRows = 16;  // logit rows of one step

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// One sequence, fed by hand: no scheduler stands between the test and the runner.
class Forced {
 public:
  Forced(const io::ModelSource& source, DtypePolicy policy) {
    runtime::RunnerOptions options;
    options.model_name = "test";
    options.policy = policy;
    options.max_seqs = kRows;
    options.max_context = 4096;
    options.kv_tokens = 4096;
    auto queue = std::make_shared<runtime::DeviceQueue>(usable_cpus(), 0);
    auto runner = LocalRunner::open(source, queue, options);
    EXPECT_TRUE(runner.has_value()) << runner.error().to_string();
    runner_ = std::move(*runner);
  }

  int vocab() const { return runner_->limits().vocab_size; }

  // Appends `ids` (at most kRows) and returns the logits after each: [ids][vocab].
  std::vector<float> push(std::span<const int32_t> ids) {
    const int count = int(ids.size());
    const int blocks = (length_ + count + kKvBlockTokens - 1) / kKvBlockTokens;
    plan_.reset(++step_, {.tokens = count, .seqs = 1, .logit_rows = count, .groups = 1, .blocks = blocks},
                runtime::kWantLogits);
    for (int i = 0; i < count; ++i) {
      const int position = length_ + i;
      plan_.ints(StepField::token_src)[i] = ids[i];
      plan_.ints(StepField::positions)[i] = position;
      plan_.ints(StepField::logit_rows)[i] = i;
      plan_.kv_slots(0)[i] = (1 + position / kKvBlockTokens) * kKvBlockTokens + position % kKvBlockTokens;
    }
    plan_.ints(StepField::query_start)[1] = count;
    plan_.ints(StepField::context_len)[0] = length_ + count;
    for (int b = 0; b < blocks; ++b) plan_.block_row(0, 0)[b] = 1 + b;
    auto ticket = runner_->submit(plan_);
    EXPECT_TRUE(ticket.has_value()) << ticket.error().to_string();
    auto result = runner_->wait(*ticket);
    length_ += count;
    return std::move(result->logits);
  }
  void restart() { length_ = 0; }

 private:
  std::unique_ptr<LocalRunner> runner_;
  runtime::StepPlan plan_;
  uint64_t step_ = 0;
  int length_ = 0;
};

int32_t arg_max(const float* row, int vocab) { return int32_t(std::max_element(row, row + vocab) - row); }

// log softmax in double.
std::vector<double> log_softmax(const float* row, int vocab) {
  const double top = *std::max_element(row, row + vocab);
  double sum = 0;
  for (int i = 0; i < vocab; ++i) sum += std::exp(row[i] - top);
  std::vector<double> out(vocab);
  for (int i = 0; i < vocab; ++i) out[i] = row[i] - top - std::log(sum);
  return out;
}

class Numerics : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("HEADRACE_MODEL");
    if (path == nullptr) GTEST_SKIP() << "HEADRACE_MODEL names no model file";
    auto source = io::ModelSource::open(path);
    ASSERT_TRUE(source.has_value()) << source.error().to_string();
    source_ = std::move(*source);
  }
  std::unique_ptr<io::ModelSource> source_;
};

TEST_F(Numerics, ExactGreedyIdsEqualTransformersFp32) {
  const auto golden =
      nlohmann::json::parse(read_file(testing::golden_path("smollm2_greedy.json")));
  Forced model(*source_, DtypePolicy::exact());
  for (const auto& item : golden["items"]) {
    model.restart();
    std::vector<int32_t> prompt = item["prompt_ids"];
    const std::vector<int32_t> want = item["hf_fp32_ids"];
    std::vector<float> logits;
    for (size_t at = 0; at < prompt.size(); at += kRows) {
      logits = model.push(std::span(prompt).subspan(at, std::min<size_t>(kRows, prompt.size() - at)));
    }
    std::vector<int32_t> got;
    int32_t next = arg_max(&logits[logits.size() - model.vocab()], model.vocab());
    while (true) {
      got.push_back(next);
      if (got.size() == want.size()) break;
      logits = model.push(std::span(&next, 1));
      next = arg_max(logits.data(), model.vocab());
    }
    EXPECT_EQ(got, want) << item["prompt"];
  }
}

TEST_F(Numerics, TheDefaultPathStaysCloseToExactOver2000Tokens) {
  auto spec = engine::tokenizer_of(*source_);
  ASSERT_TRUE(spec.has_value()) << spec.error().to_string();
  const auto encoding = (*spec)->encode(read_file(testing::golden_path("prose.txt")));
  ASSERT_TRUE(encoding.has_value());
  std::vector<int32_t> ids = encoding->ids;
  ASSERT_GE(ids.size(), 2000u);
  ids.resize(2000);
  Forced exact(*source_, DtypePolicy::exact());
  Forced fast(*source_, DtypePolicy());
  const int vocab = exact.vocab();
  double divergence = 0;
  int agree = 0;
  for (size_t at = 0; at < ids.size(); at += kRows) {
    const auto chunk = std::span<const int32_t>(ids).subspan(at, kRows);
    const std::vector<float> p = exact.push(chunk), q = fast.push(chunk);
    for (size_t i = 0; i < chunk.size(); ++i) {
      const auto log_p = log_softmax(&p[i * vocab], vocab), log_q = log_softmax(&q[i * vocab], vocab);
      for (int v = 0; v < vocab; ++v) divergence += std::exp(log_p[v]) * (log_p[v] - log_q[v]);
      agree += arg_max(&p[i * vocab], vocab) == arg_max(&q[i * vocab], vocab);
    }
  }
  const double mean_kl = divergence / double(ids.size()), top1 = double(agree) / double(ids.size());
  RecordProperty("mean_kl", std::to_string(mean_kl));
  RecordProperty("top1_agreement", std::to_string(top1));
  std::printf("mean KL %.6f nats, top-1 agreement %.2f%%\n", mean_kl, top1 * 100);
  EXPECT_LT(mean_kl, 0.01);
  EXPECT_GE(top1, 0.97);
}

}  // namespace
}  // namespace headrace
