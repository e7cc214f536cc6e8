// rms_norm and add_rms_norm: one pass to sum squares (row.h), one to scale. A row of 576 floats
// is 2.3 KB, so the second pass reads the first-level cache; the bound is memory when rows do not fit it.
#include "ops/rms_norm.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

HR_INLINE void scale_row(const ops::RmsNormAttrs& attrs, const float* x, const float* weight, int64_t width,
                         float* y) {
  const float mean = sum_of_squares(x, width) / static_cast<float>(width);
  const Lanes inverse = broadcast(1.0f / __builtin_sqrtf(mean + attrs.eps));
  const Lanes offset = broadcast(attrs.offset);
  over_row(width, [&](int64_t i, int n) {
    store_some(y + i, load_some(x + i, n) * inverse * (load_some(weight + i, n) + offset), n);
  });
}

void run_rms_norm(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::RmsNormAttrs>();
  const Rows x = rows_of(args.inputs[0].tensor), y = rows_of(args.outputs[0].tensor);
  const float* weight = vector_of(args.inputs[1]);
  const int64_t width = x.width / attrs.heads;
  const Team::Range rows = team.share(x.count);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t at = 0; at < x.width; at += width) scale_row(attrs, x[row] + at, weight, width, y[row] + at);
  }
}

void run_add_rms_norm(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::RmsNormAttrs>();
  const Rows x = rows_of(args.inputs[0].tensor), residual = rows_of(args.inputs[1].tensor);
  const Rows total = rows_of(args.outputs[0].tensor), y = rows_of(args.outputs[1].tensor);
  const float* weight = vector_of(args.inputs[2]);
  const Team::Range rows = team.share(x.count);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float *a = x[row], *b = residual[row];
    float* out = total[row];
    over_row(x.width, [&](int64_t i, int n) { store_some(out + i, load_some(a + i, n) + load_some(b + i, n), n); });
    scale_row(attrs, out, weight, x.width, y[row]);
  }
}

constexpr Kernel kRmsNorm[] = {of_matrices(ops::rms_norm, run_rms_norm), of_more_axes(ops::rms_norm, run_rms_norm)};
constexpr Kernel kAddRmsNorm[] = {of_matrices(ops::add_rms_norm, run_add_rms_norm),
                                  of_more_axes(ops::add_rms_norm, run_add_rms_norm)};

}  // namespace

const KernelList kernels_rms_norm = {kRmsNorm, 2};
const KernelList kernels_add_rms_norm = {kAddRmsNorm, 2};
HR_END_KERNELS
