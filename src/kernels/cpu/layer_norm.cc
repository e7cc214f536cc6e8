// layer_norm: three passes over a row, for its mean, its variance and the result. A row of 384 floats is 1.5 KB, so the
// second and third read the first-level cache; the bound is memory when rows do not fit it.
#include "ops/layer_norm.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

void run_layer_norm(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::LayerNormAttrs>();
  const TensorView& x = args.inputs[0].tensor;
  const auto* weight = reinterpret_cast<const float*>(args.inputs[1].weight.data);
  const auto* bias = reinterpret_cast<const float*>(args.inputs[2].weight.data);
  const TensorView& y = args.outputs[0].tensor;
  const int64_t width = x.dims[1];
  const Team::Range rows = team.share(x.dims[0]);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* in = x.row<float>(row);
    float* out = y.row<float>(row);
    const Lanes mean = broadcast(
        sum_of_row(in, width, [](Lanes v, int, Lanes chain) { return v + chain; }) / static_cast<float>(width));
    // The lanes behind a row's end are zeros, which would add the mean's square.
    const float squares = sum_of_row(in, width, [&](Lanes v, int count, Lanes chain) {
      const Lanes apart = count == kLanes ? v - mean : keep_range(v - mean, 0, count, 0.0f);
      return mul_add(apart, apart, chain);
    });
    const float variance = squares / static_cast<float>(width);
    const Lanes inverse = broadcast(1.0f / __builtin_sqrtf(variance + attrs.eps));
    over_row(width, [&](int64_t i, int n) {
      const Lanes scaled = (load_some(in + i, n) - mean) * inverse;
      store_some(out + i, mul_add(scaled, load_some(weight + i, n), load_some(bias + i, n)), n);
    });
  }
}

constexpr Kernel kLayerNorm{.op = &ops::layer_norm,
                            .name = kIsaName,
                            .isa = kIsa,
                            .priority = kIsaPriority,
                            .by_rows = true,
                            .layout = WeightLayout::dense_f32,
                            .run = run_layer_norm};

}  // namespace

const KernelList kernels_layer_norm = {&kLayerNorm, 1};
HR_END_KERNELS
