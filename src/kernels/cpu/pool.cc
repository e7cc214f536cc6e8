// pool_rows and l2_normalize: each row of x is read once, a sequence's rows are added in rising order, sixteen columns
// at a time. Work is dealt in pieces of 256 columns of one sequence, so that one long text uses the team.
#include "ops/pool.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

using ops::PoolingKind;

constexpr int64_t kPiece = 256;

// Columns [column, column + n) of the rows [first, last), which are not none.
HR_INLINE Lanes pool_lanes(PoolingKind kind, const TensorView& x, int64_t first, int64_t last, int64_t column, int n) {
  const auto row = [&](int64_t t) { return load_some(x.row<float>(t) + column, n); };
  if (kind == PoolingKind::cls) return row(first);
  if (kind == PoolingKind::last) return row(last - 1);
  Lanes all = row(first);
  if (kind == PoolingKind::max) {
    for (int64_t t = first + 1; t < last; ++t) all = max(row(t), all);
    return all;
  }
  for (int64_t t = first + 1; t < last; ++t) all = all + row(t);
  const auto count = static_cast<float>(last - first);
  return all / broadcast(kind == PoolingKind::mean ? count : __builtin_sqrtf(count));
}

void run_pool_rows(const StepContext&, const NodeArgs& args, Team& team) {
  const PoolingKind kind = args.attrs.as<ops::PoolRowsAttrs>().kind;
  const TensorView& x = args.inputs[0].tensor;
  const int32_t* start = args.inputs[1].tensor.as<int32_t>();
  const TensorView& out = args.outputs[0].tensor;
  const int64_t width = out.dims[1];
  const int64_t pieces = (width + kPiece - 1) / kPiece;
  const Team::Range share = team.share(out.dims[0] * pieces);
  for (int64_t piece = share.begin; piece < share.end; ++piece) {
    const int64_t seq = piece / pieces;
    const int64_t begin = piece % pieces * kPiece;
    float* to = out.row<float>(seq) + begin;
    over_row(begin + kPiece < width ? kPiece : width - begin, [&](int64_t i, int n) {
      const bool any = start[seq] < start[seq + 1];
      store_some(to + i, any ? pool_lanes(kind, x, start[seq], start[seq + 1], begin + i, n) : zero(), n);
    });
  }
}

void run_l2_normalize(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  const Team::Range rows = team.share(x.dims[0]);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* in = x.row<float>(row);
    float* out = y.row<float>(row);
    const float norm = __builtin_sqrtf(sum_of_squares(in, x.dims[1]));
    const Lanes divisor = broadcast(norm > ops::kNormFloor ? norm : ops::kNormFloor);
    over_row(x.dims[1], [&](int64_t i, int n) { store_some(out + i, load_some(in + i, n) / divisor, n); });
  }
}

constexpr Kernel kPool{
    .op = &ops::pool_rows, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_pool_rows};
constexpr Kernel kNormalize{
    .op = &ops::l2_normalize, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_l2_normalize};

}  // namespace

const KernelList kernels_pool_rows = {&kPool, 1};
const KernelList kernels_l2_normalize = {&kNormalize, 1};
HR_END_KERNELS
