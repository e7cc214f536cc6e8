// quantize_rows: each member takes a contiguous part of the rows; a block is two vectors, read once. Bound by memory
// for long prompts (4 bytes read, 1.25 written an element); the two divisions of a block overlap with its neighbours.
#include "kernels/cpu/simd.h"
#include "ops/matmul.h"

HR_BEGIN_KERNELS
namespace {

void run_quantize_rows(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& q = args.outputs[0].tensor;
  const TensorView& scale = args.outputs[1].tensor;
  const TensorView& sum = args.outputs[2].tensor;
  const int64_t blocks = x.dim(1) / ops::kActivationBlock;
  const Team::Range part = team.share(x.dim(0));
  for (int64_t t = part.begin; t < part.end; ++t) {
    const float* from = x.row<float>(t);
    int8_t* codes = q.row<int8_t>(t);
    float* scales = scale.row<float>(t);
    int32_t* sums = sum.row<int32_t>(t);
    for (int64_t b = 0; b < blocks; ++b, from += 32, codes += 32) {
      const F32x16 low = load(from);
      const F32x16 high = load(from + 16);
      const float peak = reduce_max(max(abs(low), abs(high)));
      const bool zero = peak < ops::kActivationFloor;
      const F32x16 inverse = broadcast(zero ? 0.0f : 127.0f / peak);
      const I32x16 low_codes = round_to_i32(low * inverse);
      const I32x16 high_codes = round_to_i32(high * inverse);
      store_i8(codes, low_codes);
      store_i8(codes + 16, high_codes);
      scales[b] = zero ? 0.0f : peak / 127.0f;
      sums[b] = reduce_add(low_codes + high_codes);
    }
  }
}

constexpr Kernel kQuantizeRows[] = {{.op = &ops::quantize_rows,
                                     .name = "blocks32",
                                     .isa = kIsa,
                                     .priority = 10 * static_cast<int>(kIsa),
                                     .run = run_quantize_rows}};

}  // namespace
const KernelList kernels_quantize_rows = {kQuantizeRows, 1};
HR_END_KERNELS
