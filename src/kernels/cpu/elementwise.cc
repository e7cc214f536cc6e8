// add, mul, activation, gated_activation: sixteen elements at a time, bound by memory (8 or 12 bytes an
// element) when the operands do not fit the caches, else by the exponential (about 20 operations an element).
#include "ops/elementwise.h"

#include "kernels/cpu/lanes.h"

HR_BEGIN_KERNELS
namespace {

using ops::ActivationKind;

template <ActivationKind kind>
HR_INLINE Lanes activate(Lanes x, Lanes cap) {
  const Lanes one = broadcast(1.0f);
  const Lanes half = broadcast(0.5f);
  if constexpr (kind == ActivationKind::silu) {
    return x / (one + exp(zero() - x));
  } else if constexpr (kind == ActivationKind::gelu_erf) {
    // x * normal CDF(x), from erfc on the side where it is small, so that far negative x keep their digits.
    const Lanes tail = half * erfc_of_positive(absolute(x) * broadcast(0.70710678f));
    return x * if_less(x, zero(), tail, one - tail);
  } else if constexpr (kind == ActivationKind::gelu_tanh) {
    const Lanes cubic = mul_add(x * x * x, broadcast(0.044715f), x);
    return half * x * (one + tanh(cubic * broadcast(0.79788456f)));
  } else if constexpr (kind == ActivationKind::softcap) {
    return cap * tanh(x / cap);
  } else {
    return max(zero(), x);
  }
}

// Rows are dealt in pieces of 256 elements, so that a single one (logits) uses the team; with kByRows whole.
constexpr int64_t kPiece = 256;

// compute(lanes of each input) -> lanes, over every element of rows that may be strided.
template <int inputs, bool kByRows = false, class Compute>
HR_INLINE void over_elements(const NodeArgs& args, Team& team, Compute compute) {
  const TensorView& out = args.outputs[0].tensor;
  const int64_t width = out.dims[1];
  const int64_t length = kByRows ? width : kPiece;
  const int64_t pieces = width == 0 ? 0 : (width + length - 1) / length;
  const Team::Range share = team.share(out.dims[0] * pieces);
  for (int64_t piece = share.begin; piece < share.end; ++piece) {
    const int64_t row = piece / pieces;
    const int64_t begin = piece % pieces * length;
    const int64_t end = begin + length < width ? begin + length : width;
    const float* a = args.inputs[0].tensor.row<float>(row);
    const float* b = args.inputs[inputs - 1].tensor.row<float>(row);
    float* y = out.row<float>(row);
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) store(y + i, compute(load(a + i), load(b + i)));
    if (i < end) {
      const int n = static_cast<int>(end - i);
      store_part(y + i, compute(load_part(a + i, n), load_part(b + i, n)), n);
    }
  }
}

void run_add(const StepContext&, const NodeArgs& args, Team& team) {
  over_elements<2>(args, team, [](Lanes a, Lanes b) { return a + b; });
}
void run_mul(const StepContext&, const NodeArgs& args, Team& team) {
  over_elements<2>(args, team, [](Lanes a, Lanes b) { return a * b; });
}

template <ActivationKind kind, bool gated>
void run_kind(const NodeArgs& args, Team& team) {
  const Lanes cap = broadcast(args.attrs.as<ops::ActivationAttrs>().cap);
  if constexpr (gated) {
    over_elements<2, true>(args, team, [cap](Lanes gate, Lanes up) { return activate<kind>(gate, cap) * up; });
  } else {
    over_elements<1>(args, team, [cap](Lanes x, Lanes) { return activate<kind>(x, cap); });
  }
}

template <bool gated>
void run_activation(const StepContext&, const NodeArgs& args, Team& team) {
  switch (args.attrs.as<ops::ActivationAttrs>().kind) {
    case ActivationKind::silu:
      return run_kind<ActivationKind::silu, gated>(args, team);
    case ActivationKind::gelu_erf:
      return run_kind<ActivationKind::gelu_erf, gated>(args, team);
    case ActivationKind::gelu_tanh:
      return run_kind<ActivationKind::gelu_tanh, gated>(args, team);
    case ActivationKind::relu:
      return run_kind<ActivationKind::relu, gated>(args, team);
    case ActivationKind::softcap:
      return run_kind<ActivationKind::softcap, gated>(args, team);
  }
}

constexpr Kernel row_of(const Op& op, void (*run)(const StepContext&, const NodeArgs&, Team&), bool by_rows = false) {
  return {.op = &op, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .by_rows = by_rows, .run = run};
}
constexpr Kernel kAdd = row_of(ops::add, run_add);
constexpr Kernel kMul = row_of(ops::mul, run_mul);
constexpr Kernel kActivation = row_of(ops::activation, run_activation<false>);
constexpr Kernel kGated = row_of(ops::gated_activation, run_activation<true>, true);

}  // namespace

const KernelList kernels_add = {&kAdd, 1};
const KernelList kernels_mul = {&kMul, 1};
const KernelList kernels_activation = {&kActivation, 1};
const KernelList kernels_gated_activation = {&kGated, 1};
HR_END_KERNELS
