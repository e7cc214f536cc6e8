// `headrace tune` on the fake device, which takes 2 us for everything and says that the library's first guess takes 3.
#include "cli/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "testing/fake_accelerator.h"
#include "testing/golden.h"

namespace headrace::cli {
namespace {

using headrace::testing::fake_matmul_plan;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TuneOptions some_options() {
  TuneOptions options{.max_tokens = 40, .out = (std::filesystem::path(::testing::TempDir()) / "tune_test.plan").string()};
  options.model.path = headrace::testing::golden_path("tiny_decoders/untied_biases");
  options.model.serving.device = {DeviceKind::cuda, 0};
  options.model.serving.exact = true;  // the fake device has float32 kernels
  options.model.serving.skip_passes = headrace::testing::kFakeDeviceSkips;
  return options;
}

// The model's linears: 192 x 64, 64 x 96 and the head, 100 x 64, each at 16, 32 and 48 tokens.
TEST(Tune, TunesEachProductAtEachNumberOfTokensAndWritesThePlan) {
  const auto queue = headrace::testing::fake_device_queue(1);
  const TuneOptions options = some_options();
  fake_matmul_plan() = {};
  const Result<std::string> table = tune_model(*queue->accelerator(), options);
  ASSERT_TRUE(table) << table.error().to_string();
  std::vector<std::array<int64_t, 3>> sizes;
  for (const DeviceMatmul& tuned : fake_matmul_plan().tuned) sizes.push_back({tuned.n, tuned.k, tuned.tokens});
  using Size = std::array<int64_t, 3>;
  EXPECT_THAT(sizes, ElementsAre(Size{192, 64, 16}, Size{192, 64, 32}, Size{192, 64, 48}, Size{64, 96, 16}, Size{64, 96, 32},
                                 Size{64, 96, 48}, Size{100, 64, 16}, Size{100, 64, 32}, Size{100, 64, 48}));
  EXPECT_TRUE(std::filesystem::exists(options.out));
  std::filesystem::remove(options.out);
  // 2 * 192 * 64 * 48 operations and 4 * (192 * 64 + 64 * 48 + 192 * 48) bytes in 2 us.
  EXPECT_THAT(*table, HasSubstr("   f32->f32 bias     192      64     48        2.0      0.6   0.05  +50.0%\n"));
}

TEST(Tune, SaysThatThePlanCannotBeWritten) {
  const auto queue = headrace::testing::fake_device_queue(1);
  TuneOptions options = some_options();
  options.out = "/dev/null/x.plan";
  const Result<std::string> table = tune_model(*queue->accelerator(), options);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code(), Code::unavailable);
  EXPECT_THAT(table.error().message(), HasSubstr("/dev/null"));
}

}  // namespace
}  // namespace headrace::cli
