// add, mul, unary, gated_activation and round_bf16 over [T, C] with strided rows, f32 or bf16. Bound by memory: each operand once, a pack
// a thread.
#include "kernels/cuda/elementwise.h"

#include "kernels/cuda/packs.cuh"
#include "ops/elementwise.h"
#include "ops/unary.h"

namespace headrace::cuda {
namespace {

using ops::UnaryAttrs;
using ops::UnaryKind;

constexpr int kThreads = 128;

// The short forms of exp and of the quotient, for results that are rounded to bf16: wrong by some 2 + |x| units in the last place of f32.
template <bool kShort>
__device__ float silu(float x) {
  if constexpr (kShort) return __fdividef(x, 1.0f + __expf(-x));
  return x / (1.0f + expf(-x));
}

template <bool kShort>
__device__ float apply(const UnaryAttrs& attrs, float x) {
  switch (attrs.kind) {
    case UnaryKind::silu: return silu<kShort>(x);
    case UnaryKind::gelu_erf: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case UnaryKind::gelu_tanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * fmaf(0.044715f * x * x, x, x)));
    case UnaryKind::relu: return x < 0.0f ? 0.0f : x;  // NaN stays
    case UnaryKind::softcap: return attrs.alpha * tanhf(x / attrs.alpha);
    default: return 0.0f;  // supports() keeps others away
  }
}

enum class Kind : uint8_t { add, mul, unary, gated, copy };

template <Kind kKind, bool kShort>
__device__ float combine(const UnaryAttrs& function, float left, float right) {
  if constexpr (kKind == Kind::add) return left + right;
  if constexpr (kKind == Kind::mul) return left * right;
  if constexpr (kKind == Kind::unary) return apply<kShort>(function, left);
  if constexpr (kKind == Kind::gated) return apply<kShort>(function, left) * right;
  return left;
}

// Blocks: (row, packs of a row / kThreads). X is the operands' type.
template <Kind kKind, class X, class Y, bool kAligned>
__global__ void __launch_bounds__(kThreads) elementwise_kernel(RowsOf<const X> a, RowsOf<const X> b, int columns, UnaryAttrs function,
                                                               RowsOf<Y> y) {
  begin_step_kernel();
  const int column = (int(blockIdx.y) * kThreads + int(threadIdx.x)) * kPack;
  const int left = columns - column;
  if (left <= 0) return;
  float first[kPack], second[kPack] = {};
  load_pack<kAligned>(a[blockIdx.x] + column, left, first);
  if constexpr (kKind != Kind::unary && kKind != Kind::copy) load_pack<kAligned>(b[blockIdx.x] + column, left, second);
#pragma unroll
  for (int i = 0; i < kPack; ++i) first[i] = combine<kKind, sizeof(Y) == 2>(function, first[i], second[i]);
  store_pack<kAligned>(first, y[blockIdx.x] + column, left);
}

template <Kind kKind, class X, class Y>
void launch_elementwise(const StepContext& step, const NodeArgs& args) {
  constexpr bool kBinary = kKind != Kind::unary && kKind != Kind::copy;
  const TensorView& a = args.inputs[0].tensor;
  const TensorView& b = args.inputs[kBinary ? 1 : 0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  const int64_t columns = y.dims[1];
  UnaryAttrs function;
  if constexpr (kKind == Kind::unary || kKind == Kind::gated) function = args.attrs.as<UnaryAttrs>();
  const dim3 blocks(unsigned(y.dims[0]), unsigned((columns + kThreads * kPack - 1) / (kThreads * kPack)));
  const bool aligned = packs_aligned(a, columns) && packs_aligned(b, columns) && packs_aligned(y, columns);
  dispatch_bool(aligned, [&]<bool kAligned>() {
    launch(elementwise_kernel<kKind, X, Y, kAligned>, blocks, kThreads, 0, stream_of(step), rows_of<const X>(a), rows_of<const X>(b),
           int(columns), function, rows_of<Y>(y));
  });
}

template <Kind kKind>
void run(const StepContext& step, const NodeArgs& args, Team&) {
  if (args.outputs[0].tensor.elements() == 0) return;
  if constexpr (kKind == Kind::copy) {
    launch_elementwise<kKind, float, __nv_bfloat16>(step, args);
  } else {
    dispatch_float(args.outputs[0].tensor.dtype, [&]<class T>() { launch_elementwise<kKind, T, T>(step, args); });
  }
}

// The index arithmetic is that of matrices, of one type.
bool matrices(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  for (const ValueType& input : inputs) {
    if (input.dtype != outputs[0].dtype) return false;
  }
  return outputs[0].shape.rank() == 2 && f32_or_bf16(outputs[0]);
}
// And the functions are those of language models.
bool known_functions(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  switch (attrs.as<UnaryAttrs>().kind) {
    case UnaryKind::silu:
    case UnaryKind::gelu_erf:
    case UnaryKind::gelu_tanh:
    case UnaryKind::relu:
    case UnaryKind::softcap: return matrices(inputs, outputs, attrs);
    default: return false;
  }
}

template <Kind kKind>
constexpr Kernel row() {
  constexpr bool kHasFunction = kKind == Kind::unary || kKind == Kind::gated;
  return {.name = "cuda_packs",
          .device = DeviceKind::cuda,
          .supports = kHasFunction ? known_functions : kKind == Kind::copy ? nullptr : matrices,
          .run = run<kKind>};
}

const PluginKernel kRows[] = {
    {"add", row<Kind::add>()},
    {"mul", row<Kind::mul>()},
    {"unary", row<Kind::unary>()},
    {"gated_activation", row<Kind::gated>()},
    {"round_bf16", row<Kind::copy>()},
};

}  // namespace

KernelRows elementwise_rows() { return {kRows, 5}; }

}  // namespace headrace::cuda
