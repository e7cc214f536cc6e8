// rotary: a token's heads turn by one row of the tables, which stays in the first-level cache; bound by memory (8 bytes an element).
#include "ops/rotary.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

HR_INLINE void turn_halves(const float* x, const float* cos, const float* sin, int64_t half, float* y) {
  over_row(half, [&](int64_t i, int n) {
    const Lanes a = load_some(x + i, n), b = load_some(x + half + i, n);
    const Lanes c = load_some(cos + i, n), s = load_some(sin + i, n);
    store_some(y + i, a * c - b * s, n);
    store_some(y + half + i, mul_add(b, c, a * s), n);
  });
}

HR_INLINE void turn_pairs(const float* x, const float* cos, const float* sin, int64_t half, float* y) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * cos[i] - b * sin[i];
    y[2 * i + 1] = mul_add(b, cos[i], a * sin[i]);
  }
}

void run_rotary(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::RotaryAttrs>();
  const TensorView& cos = args.inputs[1].tensor;
  const Rows x = rows_of(args.inputs[0].tensor), y = rows_of(args.outputs[0].tensor);
  const int64_t half = attrs.rotary_dim / 2, tokens = args.inputs[0].tensor.dims[1];
  const Team::Range rows = team.share(x.count);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t table = (cos.dims[0] == 1 ? row % tokens : row) * half;
    const float* c = cos.as<float>() + table;
    const float* s = args.inputs[2].tensor.as<float>() + table;
    for (int64_t at = 0; at < x.width; at += attrs.head_dim) {
      const float* in = x[row] + at;
      float* out = y[row] + at;
      if (attrs.interleaved) {
        turn_pairs(in, c, s, half, out);
      } else {
        turn_halves(in, c, s, half, out);
      }
      for (int64_t i = attrs.rotary_dim; in != out && i < attrs.head_dim; ++i) out[i] = in[i];
    }
  }
}

constexpr Kernel kRotary{.op = &ops::rotary, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_rotary};

}  // namespace

const KernelList kernels_rotary = {&kRotary, 1};
HR_END_KERNELS
