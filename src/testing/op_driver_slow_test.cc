// The cases whose float64 reference takes seconds: real shapes of prefill and of whole vocabularies.
#include <gtest/gtest.h>

#include <tuple>

#include "ops/library_plugin.h"
#include "testing/op_case_runner.h"

namespace headrace::testing {
namespace {

TEST(LargeCases, HoldWithEachKernelOfThisMachine) {
  std::ignore = load_onednn_plugin();  // where it is there, its kernels too
  for (const Op* op : all_ops()) {
    for (const OpCase& one : op->cases()) {
      const double work = reference_work(*op, one);
      if (work <= 1e8 || work > 4e9) continue;
      SCOPED_TRACE(fmt::format("{} {}", op->name, one.name));
      const Result<OpCheck> check = OpCheck::make(*op, one);
      ASSERT_TRUE(check.has_value()) << check.error().to_string();
      for (const Kernel* kernel : kernels_of(*op)) {
        if (kernel->device != DeviceKind::cpu || kernel->isa > detect_isa()) continue;
        SCOPED_TRACE(fmt::format("{} {}", isa_name(kernel->isa), kernel->name));
        for (const std::string& failure :
             check->check(*kernel, {.team_sizes = {1, 2}, .max_rows_alone = 3}).failures) {
          ADD_FAILURE() << failure;
        }
      }
    }
  }
}

}  // namespace
}  // namespace headrace::testing
