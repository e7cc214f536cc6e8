// Golden values: transformers' model of each family in float64 (tools/golden/tiny_decoders.py): windows shorter than the prompts,
// every kind of rotary embedding, norms of heads, soft caps.
#include <gtest/gtest.h>

#include "models/host_stepper.h"

namespace headrace::models {
namespace {

using testing::build;
using testing::Built;
using testing::GoldenCheckpoint;
using testing::HostStepper;
using testing::ints;

std::vector<int> slice(const std::vector<int>& all, size_t begin, size_t end) {
  return {all.begin() + begin, all.begin() + end};
}

// Rows [got_begin, +count) of `got` against rows [want_begin, +count) of `want`.
void expect_rows(const HostTensor& got, int64_t got_begin, const HostTensor& want, int64_t want_begin, int64_t count,
                 double tolerance) {
  const int64_t width = want.dims[1];
  ASSERT_EQ(got.dims[1], width);
  for (int64_t i = 0; i < count * width; ++i) {
    ASSERT_NEAR(got.values[got_begin * width + i], want.values[want_begin * width + i], tolerance)
        << "row " << i / width << " column " << i % width;
  }
}

class Decoders : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Checkpoints, Decoders,
                         ::testing::Values("tied", "untied_biases", "llama3_rope", "mistral_window", "qwen2", "qwen2_window",
                                           "qwen3", "gemma3", "gemma3_softcaps", "rope_linear", "rope_dynamic", "rope_yarn",
                                           "rope_longrope"),
                         [](const auto& row) { return std::string(row.param); });

// Two sequences share each step; the first is prefilled in two chunks whose border lies inside a KV block; then both
// decode from the tokens that were sampled on the device.
TEST_P(Decoders, LogitsHiddenStatesAndGreedyIdsEqualTheReference) {
  const GoldenCheckpoint checkpoint(std::string("tiny_decoders/") + GetParam());
  const auto& golden = checkpoint.golden;
  using Names = std::set<std::string, std::less<>>;
  for (const Names& skipped : {Names{}, Names{"all"}}) {
    SCOPED_TRACE(skipped.empty() ? "all passes" : "no pass");
    Built built = build(checkpoint, DtypePolicy::exact(), skipped);
    HostStepper stepper(built.graph, built.info, checkpoint.host_weights());
    const std::vector<int> first = ints(golden.at("ids.0")), second = ints(golden.at("ids.1"));
    const auto size = static_cast<int64_t>(first.size());
    constexpr int64_t kChunk = 21;
    // transformers computes norms and rotations in float32, whatever the model's dtype.
    constexpr double kTolerance = 5e-5;

    auto out = stepper.step({{0, slice(first, 0, kChunk)}});
    expect_rows(out["logits"], 0, golden.at("logits.0"), 0, kChunk, kTolerance);
    expect_rows(out["hidden.1"], 0, golden.at("hidden.1.0"), 0, kChunk, kTolerance);
    out = stepper.step({{1, second}, {0, slice(first, kChunk, first.size())}});
    const auto behind = static_cast<int64_t>(second.size());
    expect_rows(out["logits"], 0, golden.at("logits.1"), 0, behind, kTolerance);
    expect_rows(out["logits"], behind, golden.at("logits.0"), kChunk, size - kChunk, kTolerance);
    expect_rows(out["hidden.1"], behind, golden.at("hidden.1.0"), kChunk, size - kChunk, kTolerance);

    const std::vector<int> want0 = ints(golden.at("greedy.0")), want1 = ints(golden.at("greedy.1"));
    if (want0.empty()) continue;  // a rotation that the reference changes with every token
    std::vector<int> got0 = {static_cast<int>(out["tokens"].values.back())};
    std::vector<int> got1 = {static_cast<int>(out["tokens"].values[behind - 1])};
    while (got0.size() < want0.size()) {
      out = stepper.step({{0, {-1}}, {1, {-2}}});
      got0.push_back(static_cast<int>(out["tokens"].values[0]));
      got1.push_back(static_cast<int>(out["tokens"].values[1]));
    }
    EXPECT_EQ(got0, want0);
    EXPECT_EQ(got1, want1);
  }
}

}  // namespace
}  // namespace headrace::models
