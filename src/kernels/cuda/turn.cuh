#pragma once
// The turn of rotary embeddings: angles and their reduction in float64, so that positions past a million keep their precision.

#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {

struct Turn {
  float cosine, sine;
};

// cos and sin of position * inv_freq, times `factor`. The polynomials are those of Cephes' sinf and cosf, for |r| <= pi/4.
__device__ inline Turn turn_of(int32_t position, float inv_freq, float factor) {
  constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54;
  const double angle = double(position) * double(inv_freq);
  const double n = rint(angle * 0.63661977236758134308);
  const float r = float(fma(-n, kHalfPiLow, fma(-n, kHalfPiHigh, angle)));
  const int quadrant = int(int64_t(n) & 3);
  const float u = r * r;
  const float s = fmaf(r * u, fmaf(u, fmaf(u, -1.9515295891e-4f, 8.3321608736e-3f), -1.6666654611e-1f), r);
  const float c = fmaf(u * u, fmaf(u, fmaf(u, 2.443315711809948e-5f, -1.388731625493765e-3f), 4.166664568298827e-2f), fmaf(-0.5f, u, 1.0f));
  const float sine = quadrant % 2 != 0 ? c : s, cosine = quadrant % 2 != 0 ? s : c;
  return {(quadrant == 1 || quadrant == 2 ? -cosine : cosine) * factor, (quadrant >= 2 ? -sine : sine) * factor};
}

constexpr int kMaxPairs = 512;

// A token's turns, shared by its heads: the block's threads fill the table, a barrier behind.
struct Turns {
  float cosine[kMaxPairs], sine[kMaxPairs];

  __device__ void fill(int32_t position, const float* inv_freq, int pairs, float factor) {
    for (int i = int(threadIdx.x); i < pairs; i += int(blockDim.x)) {
      const Turn turn = turn_of(position, inv_freq[i], factor);
      cosine[i] = turn.cosine;
      sine[i] = turn.sine;
    }
    __syncthreads();
  }
};

}  // namespace headrace::cuda
