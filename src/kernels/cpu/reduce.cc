// reduce: axes are joined to runs of reduced and kept ones. Where the last axis is kept (the mean over height and width of channels-last
// images), 64 columns at a time fold all that is reduced in registers; where it is reduced, rows fold in four chains. Bound by memory: x
// is read once (twice for log_sum_exp). An output's order of additions depends on the reduced dims alone.
// softmax: the largest, then exponentials and their sum, then the quotient; a row stays in the first-level cache.
#include "ops/reduce.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

using Kind = ops::ReduceAttrs::Kind;

// ---- what a kind folds --------------------------------------------------------------------------

// The pass of a kind: start, and how an element x joins. `shift` is what log_sum_exp subtracts: the largest.
template <Kind kind>
HR_INLINE float neutral() {
  if constexpr (kind == Kind::max || kind == Kind::log_sum_exp) return kMinusInfinity;
  if constexpr (kind == Kind::min) return __builtin_inff();
  if constexpr (kind == Kind::prod) return 1.0f;
  return 0.0f;
}
template <Kind kind>
HR_INLINE Lanes fold(Lanes total, Lanes x, Lanes shift) {
  if constexpr (kind == Kind::max) return unless_nan(x, max(x, total));
  if constexpr (kind == Kind::min) return unless_nan(x, min(x, total));
  if constexpr (kind == Kind::prod) return total * x;
  if constexpr (kind == Kind::l1) return total + absolute(x);
  if constexpr (kind == Kind::l2 || kind == Kind::sum_square) return mul_add(x, x, total);
  if constexpr (kind == Kind::log_sum_exp) return total + exp(x - shift);
  return total + x;
}
// Two totals.
template <Kind kind>
HR_INLINE Lanes join(Lanes a, Lanes b) {
  if constexpr (kind == Kind::max) return unless_nan(a, max(a, b));
  if constexpr (kind == Kind::min) return unless_nan(a, min(a, b));
  if constexpr (kind == Kind::prod) return a * b;
  return a + b;
}
// The start of a pass; an exponential's sum starts at 0, though what is left out of it is minus infinity.
template <Kind kind>
HR_INLINE Lanes start() {
  return kind == Kind::log_sum_exp ? zero() : broadcast(neutral<kind>());
}
template <Kind kind>
HR_INLINE Lanes finish(Lanes total, Lanes shift, float count) {
  if constexpr (kind == Kind::mean) return total / broadcast(count);
  if constexpr (kind == Kind::l2) return sqrt(total);
  if constexpr (kind == Kind::log_sum_exp) return if_less(absolute(shift), broadcast(__builtin_inff()), shift + log(total), shift);
  return total;
}
// All lanes of a total, in halves.
template <Kind kind>
HR_INLINE float over_lanes(Lanes total) {
  float values[2 * kLanes] = {};
  store(values, total);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    store(values, join<kind>(load(values), load(values + half)));
  }
  return values[0];
}

// ---- which elements -----------------------------------------------------------------------------

// Axes in order from the outermost.
struct Axes {
  int rank = 0;
  int64_t dims[kMaxRank], strides[kMaxRank], count = 1;
  void add(int64_t dim, int64_t stride) {
    count *= dim;
    if (dim == 1) return;
    if (rank > 0 && strides[rank - 1] == stride * dim) {
      dims[rank - 1] *= dim;
      strides[rank - 1] = stride;
      return;
    }
    dims[rank] = dim;
    strides[rank++] = stride;
  }
  HR_INLINE int64_t place(int64_t index) const {
    int64_t offset = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      offset += index % dims[axis] * strides[axis];
      index /= dims[axis];
    }
    return offset;
  }
};

struct Plan {
  Axes kept, reduced;          // without the inner axis
  int64_t inner = 1;           // elements of the last run of axes, which is packed
  bool inner_is_kept = true;
  int64_t count = 1;           // elements that an output folds

  Plan(const TensorView& x, const ops::ReduceAttrs& attrs) {
    bool is_reduced[kMaxRank] = {};
    for (const int32_t axis : attrs.axes) is_reduced[axis] = true;
    for (const int32_t axis : attrs.axes) count *= x.dims[axis];
    int last = x.rank;
    int64_t stride = 1;
    while (last > 0 && (last == x.rank || is_reduced[last - 1] == is_reduced[x.rank - 1]) &&
           (x.dims[last - 1] == 1 || x.strides[last - 1] == stride)) {
      stride *= x.dims[--last];
    }
    inner = stride;
    inner_is_kept = x.rank == 0 || !is_reduced[x.rank - 1];
    for (int axis = 0; axis < last; ++axis) (is_reduced[axis] ? reduced : kept).add(x.dims[axis], x.strides[axis]);
  }
};

// Where the outputs of each kept place begin: packed, or the rows of a window.
struct Output {
  float* data;
  int64_t stride;
  Output(const TensorView& y, int64_t width)
      : data(y.as<float>()), stride(y.rank == 2 && y.dims[1] == width ? y.strides[0] : width) {}
  float* operator[](int64_t row) const { return data + row * stride; }
};

// ---- walks --------------------------------------------------------------------------------------

constexpr int64_t kColumns = 4 * kLanes;

// Columns [0, width) of every reduced place, width at most 64, into `total`.
template <Kind kind>
HR_INLINE void fold_columns(const Axes& reduced, const float* x, int64_t width, const Lanes* shift, Lanes* total) {
  for (int j = 0; j < 4; ++j) total[j] = start<kind>();
  const int64_t run = reduced.rank == 0 ? 1 : reduced.dims[reduced.rank - 1];
  const int64_t stride = reduced.rank == 0 ? 0 : reduced.strides[reduced.rank - 1];
  for (int64_t index = 0; index < reduced.count; index += run) {
    const float* at = x + reduced.place(index);
    if (width == kColumns) {
      for (int64_t r = 0; r < run; ++r, at += stride) {
        for (int j = 0; j < 4; ++j) total[j] = fold<kind>(total[j], load(at + j * kLanes), shift[j]);
      }
      continue;
    }
    for (int64_t r = 0; r < run; ++r, at += stride) {
      over_row(width, [&](int64_t i, int n) {
        const int64_t j = i / kLanes;
        total[j] = fold<kind>(total[j], load_some(at + i, n), shift[j]);
      });
    }
  }
}

// Rows of `width` at every reduced place; lane i of chain j folds elements 64 k + 16 j + i.
template <Kind kind>
HR_INLINE float fold_rows(const Axes& reduced, const float* x, int64_t width, Lanes shift) {
  Lanes chain[4];
  for (Lanes& one : chain) one = start<kind>();
  for (int64_t index = 0; index < reduced.count; ++index) {
    const float* at = x + reduced.place(index);
    int64_t i = 0;
    for (; i + kStride <= width; i += kStride) {
      for (int j = 0; j < 4; ++j) chain[j] = fold<kind>(chain[j], load(at + i + j * kLanes), shift);
    }
    for (int j = 0; i < width; i += kLanes, ++j) {
      const int n = static_cast<int>(width - i < kLanes ? width - i : kLanes);
      const Lanes v = load_some(at + i, n);
      chain[j] = fold<kind>(chain[j], n == kLanes ? v : keep_range(v, 0, n, neutral<kind>()), shift);
    }
  }
  return over_lanes<kind>(join<kind>(join<kind>(chain[0], chain[1]), join<kind>(chain[2], chain[3])));
}

template <Kind kind>
void run_columns(const Plan& plan, const float* x, const Output& y, Team& team) {
  const int64_t blocks = (plan.inner + kColumns - 1) / kColumns;
  const Team::Range share = team.share(plan.kept.count * blocks);
  for (int64_t unit = share.begin; unit < share.end; ++unit) {
    const int64_t row = unit / blocks, begin = unit % blocks * kColumns;
    const int64_t width = plan.inner - begin < kColumns ? plan.inner - begin : kColumns;
    const float* from = x + plan.kept.place(row) + begin;
    Lanes shift[4] = {zero(), zero(), zero(), zero()}, total[4];
    if constexpr (kind == Kind::log_sum_exp) fold_columns<Kind::max>(plan.reduced, from, width, shift, shift);
    fold_columns<kind>(plan.reduced, from, width, shift, total);
    over_row(width, [&](int64_t i, int n) {
      const int64_t j = i / kLanes;
      store_some(y[row] + begin + i, finish<kind>(total[j], shift[j], static_cast<float>(plan.count)), n);
    });
  }
}

template <Kind kind>
void run_rows(const Plan& plan, const float* x, const Output& y, Team& team) {
  const Team::Range share = team.share(plan.kept.count);
  for (int64_t row = share.begin; row < share.end; ++row) {
    const float* from = x + plan.kept.place(row);
    Lanes shift = zero();
    if constexpr (kind == Kind::log_sum_exp) shift = broadcast(fold_rows<Kind::max>(plan.reduced, from, plan.inner, shift));
    const Lanes total = broadcast(fold_rows<kind>(plan.reduced, from, plan.inner, shift));
    store_part(y[row], finish<kind>(total, shift, static_cast<float>(plan.count)), 1);
  }
}

template <Kind kind>
void run_kind(const NodeArgs& args, Team& team) {
  const Plan plan(args.inputs[0].tensor, args.attrs.as<ops::ReduceAttrs>());
  const float* x = args.inputs[0].tensor.as<float>();
  const Output y(args.outputs[0].tensor, plan.inner_is_kept ? plan.inner : 1);
  if (plan.inner_is_kept) {
    run_columns<kind>(plan, x, y, team);
  } else {
    run_rows<kind>(plan, x, y, team);
  }
}

void run_reduce(const StepContext&, const NodeArgs& args, Team& team) {
  switch (args.attrs.as<ops::ReduceAttrs>().kind) {
    case Kind::sum: return run_kind<Kind::sum>(args, team);
    case Kind::mean: return run_kind<Kind::mean>(args, team);
    case Kind::max: return run_kind<Kind::max>(args, team);
    case Kind::min: return run_kind<Kind::min>(args, team);
    case Kind::prod: return run_kind<Kind::prod>(args, team);
    case Kind::l1: return run_kind<Kind::l1>(args, team);
    case Kind::l2: return run_kind<Kind::l2>(args, team);
    case Kind::sum_square: return run_kind<Kind::sum_square>(args, team);
    case Kind::log_sum_exp: return run_kind<Kind::log_sum_exp>(args, team);
  }
}

// ---- softmax ------------------------------------------------------------------------------------

// NaN anywhere makes the sum NaN and so the row.
template <bool log>
HR_INLINE void softmax_row(const float* x, int64_t width, float* y) {
  Lanes top = broadcast(kMinusInfinity);
  over_row(width, [&](int64_t i, int n) {
    const Lanes v = load_some(x + i, n);
    top = max(n == kLanes ? v : keep_range(v, 0, n, kMinusInfinity), top);
  });
  const Lanes peak = broadcast(largest(top));
  Lanes total = zero();
  over_row(width, [&](int64_t i, int n) {
    const Lanes e = exp(load_some(x + i, n) - peak);
    if constexpr (!log) store_some(y + i, e, n);
    total = total + (n == kLanes ? e : keep_range(e, 0, n, 0.0f));
  });
  const Lanes all = broadcast(sum(total));
  if constexpr (log) {
    const Lanes logarithm = headrace::HR_ISA::log(all);
    over_row(width, [&](int64_t i, int n) { store_some(y + i, (load_some(x + i, n) - peak) - logarithm, n); });
  } else {
    const Lanes inverse = broadcast(1.0f) / all;
    over_row(width, [&](int64_t i, int n) { store_some(y + i, load_some(y + i, n) * inverse, n); });
  }
}

void run_softmax(const StepContext&, const NodeArgs& args, Team& team) {
  const bool log = args.attrs.as<ops::SoftmaxAttrs>().log;
  const Rows x = rows_of(args.inputs[0].tensor), y = rows_of(args.outputs[0].tensor);
  const Team::Range rows = team.share(x.count);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    if (log) {
      softmax_row<true>(x[row], x.width, y[row]);
    } else {
      softmax_row<false>(x[row], x.width, y[row]);
    }
  }
}

constexpr Kernel kReduce{.op = &ops::reduce, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_reduce};
constexpr Kernel kSoftmax{.op = &ops::softmax, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_softmax};

}  // namespace

const KernelList kernels_reduce = {&kReduce, 1};
const KernelList kernels_softmax = {&kSoftmax, 1};
HR_END_KERNELS
