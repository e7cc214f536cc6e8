// rms_norm and add_rms_norm: one pass to sum squares in 4 x 16 fixed lanes, one to scale. A row of 576 floats
// is 2.3 KB, so the second pass reads the first-level cache; the bound is memory when rows do not fit it.
#include "ops/rms_norm.h"

#include "kernels/cpu/lanes.h"

HR_BEGIN_KERNELS
namespace {

constexpr int64_t kStride = 4 * kLanes;  // four chains hide the latency of a fused multiply-add

// Calls use(offset, count): whole lanes with kLanes, the tail with what is left.
template <class Use>
HR_INLINE void over_row(int64_t width, Use use) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) use(i, kLanes);
  if (i < width) use(i, static_cast<int>(width - i));
}

HR_INLINE Lanes load_some(const float* p, int n) {
  return n == kLanes ? load(p) : load_part(p, n);
}
HR_INLINE void store_some(float* p, Lanes a, int n) {
  if (n == kLanes) {
    store(p, a);
  } else {
    store_part(p, a, n);
  }
}

// Element i adds to chain (i / 16) % 4, lane i % 16.
HR_INLINE float sum_of_squares(const float* x, int64_t width) {
  Lanes chain[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + kStride <= width; i += kStride) {
    for (int j = 0; j < 4; ++j) {
      const Lanes v = load(x + i + j * kLanes);
      chain[j] = mul_add(v, v, chain[j]);
    }
  }
  for (int j = 0; j < 4; ++j) {
    const int64_t left = width - i - j * kLanes;
    if (left <= 0) break;
    const Lanes v = load_some(x + i + j * kLanes, static_cast<int>(left < kLanes ? left : kLanes));
    chain[j] = mul_add(v, v, chain[j]);
  }
  return sum((chain[0] + chain[1]) + (chain[2] + chain[3]));
}

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
                          .layout = WeightLayout::dense_f32,
                          .run = run_rms_norm};
constexpr Kernel kAddRmsNorm{.op = &ops::add_rms_norm,
                             .name = kIsaName,
                             .isa = kIsa,
                             .priority = kIsaPriority,
                             .layout = WeightLayout::dense_f32,
                             .run = run_add_rms_norm};

}  // namespace

const KernelList kernels_rms_norm = {&kRmsNorm, 1};
const KernelList kernels_add_rms_norm = {&kAddRmsNorm, 1};
HR_END_KERNELS
