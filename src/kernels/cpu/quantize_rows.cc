// quantize_rows: each member takes a contiguous part of the rows; a block is two vectors, read once. Bound by memory
// for long prompts (4 bytes read, 1.25 written an element, 2.25 with two terms); the two divisions of a block overlap with
// its neighbours.
#include "kernels/cpu/simd.h"
#include "ops/matmul.h"

HR_BEGIN_KERNELS
namespace {

// The second term of sixteen values: what the first left over, in steps of scale / 256.
HR_INLINE I32x16 second_term(const F32x16& x, const I32x16& codes, const F32x16& scale, const F32x16& steps) {
  const F32x16 rest = (x - scale * to_f32(codes)) * steps;
  return round_to_i32(max(broadcast(-127.0f), min(broadcast(127.0f), rest)));
}

template <int kTerms>
void quantize_part(const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& q = args.outputs[0].tensor;
  const TensorView& scale_out = args.outputs[1].tensor;
  const TensorView& sum = args.outputs[2].tensor;
  const int64_t blocks = x.dim(1) / ops::kActivationBlock;
  const Team::Range part = team.share(x.dim(0));
  for (int64_t t = part.begin; t < part.end; ++t) {
    const float* from = x.row<float>(t);
    int8_t* codes = q.row<int8_t>(t);
    float* scales = scale_out.row<float>(t);
    int32_t* sums = sum.row<int32_t>(t);
    for (int64_t b = 0; b < blocks; ++b, from += 32, codes += 32 * kTerms) {
      const F32x16 low = load(from);
      const F32x16 high = load(from + 16);
      const float peak = reduce_max(max(abs(low), abs(high)));
      const bool zero = peak < ops::kActivationFloor;
      const float inverse = zero ? 0.0f : 127.0f / peak;
      const float scale = zero ? 0.0f : peak / 127.0f;
      const I32x16 low_codes = round_to_i32(low * broadcast(inverse));
      const I32x16 high_codes = round_to_i32(high * broadcast(inverse));
      store_i8(codes, low_codes);
      store_i8(codes + 16, high_codes);
      if constexpr (kTerms == 1) {
        scales[b] = scale;
        sums[b] = reduce_add(low_codes + high_codes);
      } else {
        const F32x16 steps = broadcast(256.0f * inverse);
        const I32x16 low_rest = second_term(low, low_codes, broadcast(scale), steps);
        const I32x16 high_rest = second_term(high, high_codes, broadcast(scale), steps);
        store_i8(codes + 32, low_rest);
        store_i8(codes + 48, high_rest);
        scales[b] = scale / 256.0f;
        sums[b] = reduce_add(shift_left<8>(low_codes + high_codes) + low_rest + high_rest);
      }
    }
  }
}

void run_quantize_rows(const StepContext&, const NodeArgs& args, Team& team) {
  args.attrs.as<ops::Q8Attrs>().terms == 1 ? quantize_part<1>(args, team) : quantize_part<2>(args, team);
}

constexpr Kernel kQuantizeRows[] = {{.op = &ops::quantize_rows,
                                     .name = "blocks32",
                                     .isa = kIsa,
                                     .priority = 10 * static_cast<int>(kIsa),
                                     .by_rows = true,
                                     .run = run_quantize_rows}};

}  // namespace
const KernelList kernels_quantize_rows = {kQuantizeRows, 1};
HR_END_KERNELS
