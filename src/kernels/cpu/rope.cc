// rope: sines and cosines of a token are computed once, for all its heads; the angle and its reduction are
// float64, so that positions past a million keep their precision. Then six operations a pair.
#include "ops/rope.h"

#include "kernels/cpu/f32_only.h"
#include "kernels/cpu/turn.h"

HR_BEGIN_KERNELS
namespace {

// pi/2 in three parts: the first two have 33 significant bits, so that a quadrant number below 2^20 times
// them is exact.
constexpr double kHalfPi1 = 0x1.921fb544p+0;
constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;
constexpr double kRoundMagic = 0x1.8p52;

constexpr int kMaxPairs = 512;

// cos and sin of position * inv_freq[i], times `factor`. Elementwise, so the compiler's vectors change no
// bits.
void turn_table(double position, const float* inv_freq, int pairs, float factor, float* cosines,
                float* sines) {
  for (int i = 0; i < pairs; ++i) {
    const double angle = position * static_cast<double>(inv_freq[i]);
    const double shifted = angle * 0.63661977236758134308 + kRoundMagic;
    const double n = shifted - kRoundMagic;
    const double reduced = ((angle - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
    uint64_t quadrant;
    std::memcpy(&quadrant, &shifted, sizeof quadrant);
    const auto r = static_cast<float>(reduced);
    const float u = r * r;
    const float s =
        r + r * u * (-1.666666664e-1f + u * (8.333329362e-3f + u * (-1.983932713e-4f + u * 2.718237192e-6f)));
    const float c =
        1.0f - 0.5f * u + u * u * (4.166664675e-2f + u * (-1.388736143e-3f + u * 2.443772818e-5f));
    const bool swap = (quadrant & 1) != 0;
    const float sine = swap ? c : s;
    const float cosine = swap ? s : c;
    sines[i] = ((quadrant & 2) != 0 ? -sine : sine) * factor;
    cosines[i] = (((quadrant + 1) & 2) != 0 ? -cosine : cosine) * factor;
  }
}

void run_rope(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& rope = args.attrs.as<ops::RopeAttrs>();
  const TensorView& x = args.inputs[0].tensor;
  const int32_t* positions = args.inputs[1].tensor.as<int32_t>();
  const float* inv_freq = args.inputs[2].tensor.as<float>();
  const TensorView& out = args.outputs[0].tensor;
  const int half = rope.rotary_dim / 2;
  const size_t rest = static_cast<size_t>(rope.head_dim - rope.rotary_dim) * sizeof(float);
  float cosines[kMaxPairs];
  float sines[kMaxPairs];
  const Team::Range rows = team.share(x.dims[0]);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    turn_table(positions[t], inv_freq, half, rope.attention_factor, cosines, sines);
    for (int h = 0; h < rope.heads; ++h) {
      const float* from = x.row<float>(t) + int64_t{h} * rope.head_dim;
      float* to = out.row<float>(t) + int64_t{h} * rope.head_dim;
      if (rope.interleaved) {
        turn_neighbours(from, cosines, sines, half, to);
      } else {
        turn_halves(from, cosines, sines, half, to);
      }
      if (rest != 0 && from != to) std::memcpy(to + rope.rotary_dim, from + rope.rotary_dim, rest);
    }
  }
}

bool supports_rope(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  return f32_only(inputs, outputs, attrs) && attrs.as<ops::RopeAttrs>().rotary_dim <= 2 * kMaxPairs;
}

constexpr Kernel kRope{.op = &ops::rope,
                       .name = kIsaName,
                       .isa = kIsa,
                       .priority = kIsaPriority,
                       .by_rows = true,
                       .supports = supports_rope,
                       .run = run_rope};

}  // namespace

const KernelList kernels_rope = {&kRope, 1};
// Fused for devices that pay for every launch; here kernels by rows follow each other without a barrier.
const KernelList kernels_rope_kv_write = {};
HR_END_KERNELS
