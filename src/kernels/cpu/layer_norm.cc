// layer_norm, add_layer_norm: three passes over a row, for its mean, its variance and the result; the sum of the fused form makes the first
// pass. A row of 384 floats is 1.5 KB, so the second and third read the first-level cache; the bound is memory when rows do not fit it.
#include "ops/layer_norm.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

HR_INLINE void normalize_row(float eps, const float* in, const float* weight, const float* bias, int64_t width, float* out) {
  const Lanes mean = broadcast(
      sum_of_row(in, width, [](Lanes v, int, Lanes chain) { return v + chain; }) / static_cast<float>(width));
  // The lanes behind a row's end are zeros, which would add the mean's square.
  const float squares = sum_of_row(in, width, [&](Lanes v, int count, Lanes chain) {
    const Lanes apart = count == kLanes ? v - mean : keep_range(v - mean, 0, count, 0.0f);
    return mul_add(apart, apart, chain);
  });
  const float variance = squares / static_cast<float>(width);
  const Lanes inverse = broadcast(1.0f / __builtin_sqrtf(variance + eps));
  over_row(width, [&](int64_t i, int n) {
    const Lanes scaled = (load_some(in + i, n) - mean) * inverse;
    store_some(out + i, mul_add(scaled, load_some(weight + i, n), load_some(bias + i, n)), n);
  });
}

void run_layer_norm(const StepContext&, const NodeArgs& args, Team& team) {
  const float eps = args.attrs.as<ops::LayerNormAttrs>().eps;
  const Rows x = rows_of(args.inputs[0].tensor), y = rows_of(args.outputs[0].tensor);
  const float *weight = vector_of(args.inputs[1]), *bias = vector_of(args.inputs[2]);
  const Team::Range rows = team.share(x.count);
  for (int64_t row = rows.begin; row < rows.end; ++row) normalize_row(eps, x[row], weight, bias, x.width, y[row]);
}

void run_add_layer_norm(const StepContext&, const NodeArgs& args, Team& team) {
  const float eps = args.attrs.as<ops::LayerNormAttrs>().eps;
  const Rows x = rows_of(args.inputs[0].tensor), residual = rows_of(args.inputs[1].tensor);
  const Rows total = rows_of(args.outputs[0].tensor), y = rows_of(args.outputs[1].tensor);
  const float *weight = vector_of(args.inputs[2]), *bias = vector_of(args.inputs[3]);
  const Team::Range rows = team.share(x.count);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float *a = x[row], *b = residual[row];
    float* out = total[row];
    over_row(x.width, [&](int64_t i, int n) { store_some(out + i, load_some(a + i, n) + load_some(b + i, n), n); });
    normalize_row(eps, out, weight, bias, x.width, y[row]);
  }
}

constexpr Kernel kLayerNorm[] = {of_matrices(ops::layer_norm, run_layer_norm), of_more_axes(ops::layer_norm, run_layer_norm)};
constexpr Kernel kAddLayerNorm[] = {of_matrices(ops::add_layer_norm, run_add_layer_norm),
                                    of_more_axes(ops::add_layer_norm, run_add_layer_norm)};

}  // namespace

const KernelList kernels_layer_norm = {kLayerNorm, 2};
const KernelList kernels_add_layer_norm = {kAddLayerNorm, 2};
HR_END_KERNELS
