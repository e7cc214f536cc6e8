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
  const TensorView& x = args.inputs[0].tensor;
  const auto* weight = reinterpret_cast<const float*>(args.inputs[1].weight.data);
  const TensorView& y = args.outputs[0].tensor;
  const int64_t width = x.dims[1] / attrs.heads;
  const Team::Range rows = team.share(x.dims[0]);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t at = 0; at < x.dims[1]; at += width) {
      scale_row(attrs, x.row<float>(row) + at, weight, width, y.row<float>(row) + at);
    }
  }
}

void run_add_rms_norm(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::RmsNormAttrs>();
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& residual = args.inputs[1].tensor;
  const auto* weight = reinterpret_cast<const float*>(args.inputs[2].weight.data);
  const TensorView& total = args.outputs[0].tensor;
  const TensorView& y = args.outputs[1].tensor;
  const Team::Range rows = team.share(x.dims[0]);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* a = x.row<float>(row);
    const float* b = residual.row<float>(row);
    float* out = total.row<float>(row);
    over_row(x.dims[1],
             [&](int64_t i, int n) { store_some(out + i, load_some(a + i, n) + load_some(b + i, n), n); });
    scale_row(attrs, out, weight, x.dims[1], y.row<float>(row));
  }
}

constexpr Kernel kRmsNorm{.op = &ops::rms_norm,
                          .name = kIsaName,
                          .isa = kIsa,
                          .priority = kIsaPriority,
                          .by_rows = true,
                          .layout = WeightLayout::dense_f32,
                          .run = run_rms_norm};
constexpr Kernel kAddRmsNorm{.op = &ops::add_rms_norm,
                             .name = kIsaName,
                             .isa = kIsa,
                             .priority = kIsaPriority,
                             .by_rows = true,
                             .layout = WeightLayout::dense_f32,
                             .run = run_add_rms_norm};

}  // namespace

const KernelList kernels_rms_norm = {&kRmsNorm, 1};
const KernelList kernels_add_rms_norm = {&kAddRmsNorm, 1};
HR_END_KERNELS
