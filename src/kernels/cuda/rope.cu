// rope. One block a token: the sines and cosines once for all its heads, then kVec pairs a thread; bound by memory, each element
// read and written once.
#include "kernels/cuda/rope.h"

#include "kernels/cuda/turn.cuh"
#include "kernels/cuda/vectors.cuh"
#include "ops/rope.h"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;

struct HeadShape {
  int heads, head_dim, half;
};

// Pairs i .. i + kVec - 1 of a head. Both packs are read before one is written: y may be x.
template <class X, int kVec, bool kInterleaved>
__device__ void turn_pairs(const X* x, X* y, int i, int half, const Turns& turns) {
  const int first_at = kInterleaved ? 2 * i : i, second_at = kInterleaved ? 2 * i + kVec : i + half;
  const Pack<X, kVec> first = load_pack<kVec>(x + first_at), second = load_pack<kVec>(x + second_at);
  Pack<X, kVec> low, high;
#pragma unroll
  for (int p = 0; p < kVec; ++p) {
    const int a_at = kInterleaved ? 2 * p : p, b_at = kInterleaved ? 2 * p + 1 : p + kVec;  // of both packs in a row
    const float a = to_float(a_at < kVec ? first.values[a_at] : second.values[a_at - kVec]);
    const float b = to_float(b_at < kVec ? first.values[b_at] : second.values[b_at - kVec]);
    const float c = turns.cosine[i + p], s = turns.sine[i + p];
    const X turned_a = from_float<X>(a * c - b * s), turned_b = from_float<X>(b * c + a * s);
    (a_at < kVec ? low.values[a_at] : high.values[a_at - kVec]) = turned_a;
    (b_at < kVec ? low.values[b_at] : high.values[b_at - kVec]) = turned_b;
  }
  store_pack<kVec>(y + first_at, low);
  store_pack<kVec>(y + second_at, high);
}

template <class X, int kVec, bool kInterleaved>
__global__ void __launch_bounds__(kThreads) rope_kernel(RowsOf<const X> x, const int32_t* positions, const float* inv_freq, HeadShape shape,
                                                        float factor, RowsOf<X> y) {
  __shared__ Turns turns;
  begin_step_kernel();
  const int64_t token = blockIdx.x;
  turns.fill(positions[token], inv_freq, shape.half, factor);
  const X* from = x[token];
  X* to = y[token];
  const int packs = shape.half / kVec;
  for (int i = int(threadIdx.x); i < shape.heads * packs; i += kThreads) {
    const int head = i / packs * shape.head_dim;
    turn_pairs<X, kVec, kInterleaved>(from + head, to + head, i % packs * kVec, shape.half, turns);
  }
  const int rest = shape.head_dim - 2 * shape.half;
  if (rest == 0 || from == to) return;
  for (int i = int(threadIdx.x); i < shape.heads * rest; i += kThreads) {
    const int at = i / rest * shape.head_dim + 2 * shape.half + i % rest;
    to[at] = from[at];
  }
}

template <class X>
void launch_rope(const StepContext& step, const NodeArgs& args) {
  const auto& attrs = args.attrs.as<ops::RopeAttrs>();
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  constexpr int kVec = 16 / sizeof(X);
  const HeadShape shape{attrs.heads, attrs.head_dim, attrs.rotary_dim / 2};
  const bool packs = shape.half % kVec == 0 && packs_of(kVec, x, attrs.head_dim) && packs_of(kVec, y, attrs.head_dim);
  auto* kernel = attrs.interleaved ? (packs ? rope_kernel<X, kVec, true> : rope_kernel<X, 1, true>)
                                   : (packs ? rope_kernel<X, kVec, false> : rope_kernel<X, 1, false>);
  launch(kernel, unsigned(x.dims[0]), kThreads, 0, stream_of(step), rows_of<const X>(x), args.inputs[1].tensor.as<int32_t>(),
         args.inputs[2].tensor.as<float>(), shape, attrs.attention_factor, rows_of<X>(y));
}

void run_rope(const StepContext& step, const NodeArgs& args, Team&) {
  if (args.inputs[0].tensor.dims[0] == 0) return;
  dispatch_float(args.inputs[0].tensor.dtype, [&]<class X>() { launch_rope<X>(step, args); });
}

bool supports_rope(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  return is_activation(inputs[0].dtype) && outputs[0].dtype == inputs[0].dtype && attrs.as<ops::RopeAttrs>().rotary_dim <= 2 * kMaxPairs;
}

const PluginKernel kRows[] = {
    {"rope", {.name = "cuda_block", .device = DeviceKind::cuda, .supports = supports_rope, .run = run_rope}},
};

}  // namespace

KernelRows rope_rows() { return {kRows, 1}; }

}  // namespace headrace::cuda
