// binary: sixteen elements at a time, bound by memory (12 bytes an element of equal shapes). An operand that stays along the inner axis is
// broadcast to a register once a row. pow calls libm for each element.
#include "ops/binary.h"

#include "kernels/cpu/broadcast.h"

HR_BEGIN_KERNELS
namespace {

using ops::BinaryKind;

template <BinaryKind kind>
HR_INLINE Lanes apply(Lanes a, Lanes b) {
  if constexpr (kind == BinaryKind::add) {
    return a + b;
  } else if constexpr (kind == BinaryKind::sub) {
    return a - b;
  } else if constexpr (kind == BinaryKind::mul) {
    return a * b;
  } else if constexpr (kind == BinaryKind::div) {
    return a / b;
  } else if constexpr (kind == BinaryKind::min) {
    return unless_nan(a, min(a, b));
  } else if constexpr (kind == BinaryKind::max) {
    return unless_nan(a, max(a, b));
  } else if constexpr (kind == BinaryKind::prelu) {
    return if_less(a, zero(), a * b, a);
  } else {
    float x[kLanes], y[kLanes];
    store(x, a);
    store(y, b);
    for (int i = 0; i < kLanes; ++i) x[i] = __builtin_powf(x[i], y[i]);
    return load(x);
  }
}

template <BinaryKind kind>
void run_kind(const NodeArgs& args, Team& team) {
  const Broadcast<2> walk(args);
  const float* a_data = args.inputs[0].tensor.as<float>();
  const float* b_data = args.inputs[1].tensor.as<float>();
  float* y_data = args.outputs[0].tensor.as<float>();
  over_pieces(team, walk.rows, false, [&](int64_t row, int64_t begin, int64_t end) {
    int64_t at[3];
    walk.place(row, at);
    const float* a = a_data + at[0] + begin * walk.inner[0];
    const float* b = b_data + at[1] + begin * walk.inner[1];
    float* y = y_data + at[2] + begin;
    const int64_t width = end - begin;
    if (walk.inner[0] == 1 && walk.inner[1] == 1) {
      over_row(width, [&](int64_t i, int n) { store_some(y + i, apply<kind>(load_some(a + i, n), load_some(b + i, n)), n); });
    } else if (walk.inner[0] == 1) {
      const Lanes all = broadcast(*b);
      over_row(width, [&](int64_t i, int n) { store_some(y + i, apply<kind>(load_some(a + i, n), all), n); });
    } else if (walk.inner[1] == 1) {
      const Lanes all = broadcast(*a);
      over_row(width, [&](int64_t i, int n) { store_some(y + i, apply<kind>(all, load_some(b + i, n)), n); });
    } else {
      const Lanes all = apply<kind>(broadcast(*a), broadcast(*b));
      over_row(width, [&](int64_t i, int n) { store_some(y + i, all, n); });
    }
  });
}

void run_binary(const StepContext&, const NodeArgs& args, Team& team) {
  switch (args.attrs.as<ops::BinaryAttrs>().kind) {
    case BinaryKind::add: return run_kind<BinaryKind::add>(args, team);
    case BinaryKind::sub: return run_kind<BinaryKind::sub>(args, team);
    case BinaryKind::mul: return run_kind<BinaryKind::mul>(args, team);
    case BinaryKind::div: return run_kind<BinaryKind::div>(args, team);
    case BinaryKind::min: return run_kind<BinaryKind::min>(args, team);
    case BinaryKind::max: return run_kind<BinaryKind::max>(args, team);
    case BinaryKind::pow: return run_kind<BinaryKind::pow>(args, team);
    case BinaryKind::prelu: return run_kind<BinaryKind::prelu>(args, team);
  }
}

constexpr Kernel kBinary{.op = &ops::binary, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_binary};

}  // namespace

const KernelList kernels_binary = {&kBinary, 1};
HR_END_KERNELS
