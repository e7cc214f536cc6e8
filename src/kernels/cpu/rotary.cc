// rotary: a token's heads turn by one row of the tables, which stays in the first-level cache; bound by memory (8 bytes an element).
#include "ops/rotary.h"

#include "kernels/cpu/row.h"
#include "kernels/cpu/turn.h"

HR_BEGIN_KERNELS
namespace {

void run_rotary(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::RotaryAttrs>();
  const TensorView& cos = args.inputs[1].tensor;
  const Rows x = rows_of(args.inputs[0].tensor), y = rows_of(args.outputs[0].tensor);
  const int half = attrs.rotary_dim / 2;
  const int64_t tokens = args.inputs[0].tensor.dims[1];
  const Team::Range rows = team.share(x.count);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t table = (cos.dims[0] == 1 ? row % tokens : row) * half;
    const float* c = cos.as<float>() + table;
    const float* s = args.inputs[2].tensor.as<float>() + table;
    for (int64_t at = 0; at < x.width; at += attrs.head_dim) {
      const float* in = x[row] + at;
      float* out = y[row] + at;
      if (attrs.interleaved) {
        turn_neighbours(in, c, s, half, out);
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
