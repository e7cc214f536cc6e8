// The CUDA kernels through the same driver as the CPU's. Skipped, with the reason, where there is no device or no plug-in.
#include <gtest/gtest.h>

#include "ops/device_plugin.h"
#include "testing/op_case_runner.h"

namespace headrace::testing {
namespace {

TEST(CudaKernels, HoldOnEachCaseOfTheirOp) {
  const auto plugin = load_cuda_plugin();
  if (!plugin) GTEST_SKIP() << plugin.error().message();
  int checked = 0;
  for (const Op* op : all_ops()) {
    for (const Kernel* kernel : kernels_of(*op)) {
      if (kernel->device != DeviceKind::cuda) continue;
      for (const OpCase& one : op->cases()) {
        SCOPED_TRACE(fmt::format("{} {} {}", op->name, kernel->name, one.name));
        const Result<OpCheck> check = OpCheck::make(*op, one);
        ASSERT_TRUE(check.has_value()) << check.error().to_string();
        const CaseReport report = check->check(*kernel, {.team_sizes = {1, 1}});
        checked += report.skipped ? 0 : 1;
        for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
      }
    }
  }
  EXPECT_GE(checked, (*plugin)->num_kernels);
  std::printf("%s: %d cases held\n", (*plugin)->name, checked);
}

}  // namespace
}  // namespace headrace::testing
