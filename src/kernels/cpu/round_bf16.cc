// round_bf16: sixteen elements at a time, bound by memory (6 bytes an element).
#include "kernels/cpu/row.h"
#include "ops/matmul.h"

HR_BEGIN_KERNELS
namespace {

void run_round_bf16(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& out = args.outputs[0].tensor;
  const Team::Range rows = team.share(x.dims[0]);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* from = x.row<float>(row);
    bf16* to = out.row<bf16>(row);
    over_row(x.dims[1], [&](int64_t i, int n) {
      if (n == kLanes) {
        store(to + i, load(from + i));
      } else {
        for (int k = 0; k < n; ++k) to[i + k] = narrow<bf16>(from[i + k]);
      }
    });
  }
}

constexpr Kernel kRoundBf16{.op = &ops::round_bf16,
                            .name = kIsaName,
                            .isa = kIsa,
                            .priority = kIsaPriority,
                            .by_rows = true,
                            .run = run_round_bf16};

}  // namespace
const KernelList kernels_round_bf16 = {&kRoundBf16, 1};
HR_END_KERNELS
