// add, mul, unary and gated_activation over [T, C] with strided rows. Bound by memory: each operand once.
#include "kernels/cuda/elementwise.h"

#include "ops/elementwise.h"
#include "ops/unary.h"

namespace headrace::cuda {
namespace {

using ops::UnaryAttrs;
using ops::UnaryKind;

constexpr int kThreads = 256;

__device__ float apply(const UnaryAttrs& attrs, float x) {
  switch (attrs.kind) {
    case UnaryKind::silu: return x / (1.0f + expf(-x));
    case UnaryKind::gelu_erf: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case UnaryKind::gelu_tanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * fmaf(0.044715f * x * x, x, x)));
    case UnaryKind::relu: return x > 0.0f ? x : 0.0f;
    case UnaryKind::softcap: return attrs.alpha * tanhf(x / attrs.alpha);
    default: return 0.0f;  // supports() keeps others away
  }
  return 0.0f;
}

enum class Kind : uint8_t { add, mul, unary, gated };

template <Kind kKind>
__global__ void elementwise_kernel(RowsOf<const float> a, RowsOf<const float> b, int64_t count, int columns, UnaryAttrs function, float* y,
                                   int64_t y_stride) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / columns, column = i % columns;
  const float left = a.data[row * a.stride + column];
  float value;
  if constexpr (kKind == Kind::unary) {
    value = apply(function, left);
  } else {
    const float right = b.data[row * b.stride + column];
    if constexpr (kKind == Kind::add) value = left + right;
    if constexpr (kKind == Kind::mul) value = left * right;
    if constexpr (kKind == Kind::gated) value = apply(function, left) * right;
  }
  y[row * y_stride + column] = value;
}

template <Kind kKind>
void run_elementwise(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& a = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  constexpr bool kBinary = kKind != Kind::unary;
  const int64_t count = y.elements();
  if (count == 0) return;
  UnaryAttrs function;
  if constexpr (kKind == Kind::unary || kKind == Kind::gated) {
    function = args.attrs.as<UnaryAttrs>();
  }
  const RowsOf<const float> b = kBinary ? rows_of<const float>(args.inputs[1].tensor) : RowsOf<const float>{};
  elementwise_kernel<kKind><<<unsigned((count + kThreads - 1) / kThreads), kThreads, 0, stream_of(step)>>>(
      rows_of<const float>(a), b, count, int(y.dims[1]), function, y.as<float>(), y.strides[0]);
}

// The index arithmetic is that of matrices.
bool matrices(std::span<const ValueType>, std::span<const ValueType> outputs, const Attrs&) {
  return outputs[0].shape.rank() == 2 && outputs[0].dtype == DType::f32;
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
  return {.name = "cuda_flat",
          .device = DeviceKind::cuda,
          .supports = kHasFunction ? known_functions : matrices,
          .run = run_elementwise<kKind>};
}

const PluginKernel kRows[] = {
    {"add", row<Kind::add>()},
    {"mul", row<Kind::mul>()},
    {"unary", row<Kind::unary>()},
    {"gated_activation", row<Kind::gated>()},
};

}  // namespace

KernelRows elementwise_rows() { return {kRows, 4}; }

}  // namespace headrace::cuda
