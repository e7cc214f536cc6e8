// add, mul, gated_activation: sixteen elements at a time, bound by memory (12 bytes an element) when the operands do not fit the caches,
// else by the exponential (about 20 operations an element).
#include "ops/elementwise.h"

#include "kernels/cpu/elements.h"
#include "kernels/cpu/f32_only.h"
#include "kernels/cpu/unary_lanes.h"

HR_BEGIN_KERNELS
namespace {

// compute(lanes of each input) -> lanes, over every element of rows that may be strided.
template <class Compute>
HR_INLINE void over_pairs(const NodeArgs& args, Team& team, bool by_rows, Compute compute) {
  const TensorView& a = args.inputs[0].tensor;
  const TensorView& b = args.inputs[1].tensor;
  const TensorView& y = args.outputs[0].tensor;
  over_pieces(team, one_row_if(false, y), by_rows, [&](int64_t row, int64_t begin, int64_t end) {
    const float* left = row_at(a, row) + begin;
    const float* right = row_at(b, row) + begin;
    float* out = row_at(y, row) + begin;
    over_row(end - begin, [&](int64_t i, int n) {
      store_some(out + i, compute(load_some(left + i, n), load_some(right + i, n)), n);
    });
  });
}

void run_add(const StepContext&, const NodeArgs& args, Team& team) {
  over_pairs(args, team, false, [](Lanes a, Lanes b) { return a + b; });
}
void run_mul(const StepContext&, const NodeArgs& args, Team& team) {
  over_pairs(args, team, false, [](Lanes a, Lanes b) { return a * b; });
}
void run_gated(const StepContext&, const NodeArgs& args, Team& team) {
  with_unary(args.attrs.as<ops::UnaryAttrs>(), [&](auto function) {
    over_pairs(args, team, true, [function](Lanes gate, Lanes up) { return function(gate) * up; });
  });
}

constexpr Kernel row_of(const Op& op, void (*run)(const StepContext&, const NodeArgs&, Team&), bool by_rows = false) {
  return {.op = &op, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .by_rows = by_rows, .supports = f32_only, .run = run};
}
constexpr Kernel kAdd = row_of(ops::add, run_add);
constexpr Kernel kMul = row_of(ops::mul, run_mul);
constexpr Kernel kGated = row_of(ops::gated_activation, run_gated, true);

}  // namespace

const KernelList kernels_add = {&kAdd, 1};
const KernelList kernels_mul = {&kMul, 1};
const KernelList kernels_gated_activation = {&kGated, 1};
HR_END_KERNELS
