// The CUDA kernels through the same driver as the CPU's. Skipped, with the reason, where there is no device or no plug-in.
#include <gtest/gtest.h>

#include "ops/device_plugin.h"
#include "ops/op_table.h"
#include "testing/op_case_runner.h"

namespace headrace::testing {
namespace {

// Cases above this need seconds of float64 loops on the host, while a device waits.
constexpr double kMostWork = 2e8;

// One test an op, so that GTEST_TOTAL_SHARDS divides them among processes: most of the time is the references'.
class CudaKernels : public ::testing::TestWithParam<const Op*> {};

TEST_P(CudaKernels, HoldOnEachCaseOfTheirOp) {
  const auto plugin = load_cuda_plugin();
  if (!plugin) GTEST_SKIP() << plugin.error().message();
  const Op& op = *GetParam();
  std::vector<const Kernel*> kernels;
  for (const Kernel* kernel : kernels_of(op)) {
    if (kernel->device == DeviceKind::cuda) kernels.push_back(kernel);
  }
  if (kernels.empty()) return;
  std::vector<int> held(kernels.size());
  for (const OpCase& one : op.cases()) {
    if (reference_work(op, one) > kMostWork) continue;
    SCOPED_TRACE(one.name);
    const Result<OpCheck> check = OpCheck::make(op, one);
    ASSERT_TRUE(check.has_value()) << check.error().to_string();
    for (size_t i = 0; i < kernels.size(); ++i) {
      SCOPED_TRACE(kernels[i]->name);
      const CaseReport report = check->check(*kernels[i], {.team_sizes = {1, 1}});
      held[i] += report.skipped || !report.failures.empty() ? 0 : 1;
      for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
    }
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::printf("%s %s: %d cases held\n", std::string(op.name).c_str(), std::string(kernels[i]->name).c_str(), held[i]);
    EXPECT_GT(held[i], 0) << kernels[i]->name << " took no case";
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaKernels, ::testing::ValuesIn(all_ops().begin(), all_ops().end()),
                         [](const auto& param) { return std::string(param.param->name); });

}  // namespace
}  // namespace headrace::testing
