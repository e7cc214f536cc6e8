// compare: one loop for each kind and type, which the compiler makes into vectors. Bound by memory.
#include "ops/compare.h"

#include "kernels/cpu/broadcast.h"

HR_BEGIN_KERNELS
namespace {

using ops::CompareKind;

template <CompareKind kind, class T>
HR_INLINE uint8_t holds(T a, T b) {
  if constexpr (kind == CompareKind::equal) {
    return a == b;
  } else if constexpr (kind == CompareKind::not_equal) {
    return a != b;
  } else if constexpr (kind == CompareKind::less) {
    return a < b;
  } else if constexpr (kind == CompareKind::less_or_equal) {
    return a <= b;
  } else if constexpr (kind == CompareKind::both) {
    return a != 0 && b != 0;
  } else {
    static_assert(kind == CompareKind::either);
    return a != 0 || b != 0;
  }
}

template <CompareKind kind, class T>
void run_kind(const NodeArgs& args, Team& team) {
  const Broadcast<2> walk(args);
  over_pieces(team, walk.rows, false, [&](int64_t row, int64_t begin, int64_t end) {
    int64_t at[3];
    walk.place(row, at);
    const T* a = args.inputs[0].tensor.as<T>() + at[0] + begin * walk.inner[0];
    const T* b = args.inputs[1].tensor.as<T>() + at[1] + begin * walk.inner[1];
    uint8_t* y = args.outputs[0].tensor.as<uint8_t>() + at[2] + begin;
    const int64_t width = end - begin;
    if (walk.inner[0] == 1 && walk.inner[1] == 1) {
      for (int64_t i = 0; i < width; ++i) y[i] = holds<kind>(a[i], b[i]);
    } else if (walk.inner[0] == 1) {
      const T other = *b;
      for (int64_t i = 0; i < width; ++i) y[i] = holds<kind>(a[i], other);
    } else {
      const T one = *a;
      for (int64_t i = 0; i < width; ++i) y[i] = holds<kind>(one, b[i * walk.inner[1]]);
    }
  });
}

template <class T>
void run_type(const NodeArgs& args, Team& team) {
  switch (args.attrs.as<ops::CompareAttrs>().kind) {
    case CompareKind::equal: return run_kind<CompareKind::equal, T>(args, team);
    case CompareKind::not_equal: return run_kind<CompareKind::not_equal, T>(args, team);
    case CompareKind::less: return run_kind<CompareKind::less, T>(args, team);
    case CompareKind::less_or_equal: return run_kind<CompareKind::less_or_equal, T>(args, team);
    case CompareKind::both: return run_kind<CompareKind::both, T>(args, team);
    case CompareKind::either: return run_kind<CompareKind::either, T>(args, team);
  }
}

void run_compare(const StepContext&, const NodeArgs& args, Team& team) {
  switch (args.inputs[0].tensor.dtype) {
    case DType::f32: return run_type<float>(args, team);
    case DType::f64: return run_type<double>(args, team);
    case DType::i8: return run_type<int8_t>(args, team);
    case DType::i32: return run_type<int32_t>(args, team);
    case DType::i64: return run_type<int64_t>(args, team);
    default: return run_type<uint8_t>(args, team);  // u8, boolean
  }
}

constexpr Kernel kCompare{.op = &ops::compare, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_compare};

}  // namespace

const KernelList kernels_compare = {&kCompare, 1};
HR_END_KERNELS
