// unary: sixteen elements at a time, bound by memory (8 bytes an element) when the tensor does not fit the caches, else by the exponential
// (about 20 operations an element). sin and cos call libm for each element.
#include "ops/unary.h"

#include "kernels/cpu/elements.h"
#include "kernels/cpu/unary_lanes.h"

HR_BEGIN_KERNELS
namespace {

void run_unary(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  const RowGrid rows = one_row_if(is_packed(x) && is_packed(y), y);
  with_unary(args.attrs.as<ops::UnaryAttrs>(), [&](auto function) {
    over_pieces(team, rows, false, [&](int64_t row, int64_t begin, int64_t end) {
      const float* in = row_at(x, row) + begin;
      float* out = row_at(y, row) + begin;
      over_row(end - begin, [&](int64_t i, int n) { store_some(out + i, function(load_some(in + i, n)), n); });
    });
  });
}

constexpr Kernel kUnary{.op = &ops::unary, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_unary};

}  // namespace

const KernelList kernels_unary = {&kUnary, 1};
HR_END_KERNELS
