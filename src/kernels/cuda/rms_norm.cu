// rms_norm and add_rms_norm. One block a row, or a head of it (blockIdx.y); bound by memory: 2 reads and 1 write of the row (3 and 2 for the fused form)
// plus the weight, which stays in L2. The sum of squares is reduced in a fixed tree of kThreads leaves, so a row's bits do
// not depend on the batch.
#include "kernels/cuda/rms_norm.h"

#include "ops/rms_norm.h"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ float block_sum(float value) {
  __shared__ float partial[kWarps];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += partial[warp];
  return total;
}

// kFused: `sum` gets x + residual, and the norm is taken of that.
template <bool kFused>
__global__ void rms_norm_kernel(RowsOf<const float> x, RowsOf<const float> residual, const float* weight, int columns, float eps, float offset, float* sum,
                                int64_t sum_stride, float* y, int64_t y_stride) {
  const int64_t row = blockIdx.x;
  const int64_t head = int64_t(blockIdx.y) * columns;
  const float* in = x.data + row * x.stride + head;
  float squares = 0;
  for (int c = threadIdx.x; c < columns; c += kThreads) {
    float value = in[c];
    if constexpr (kFused) {
      value += residual.data[row * residual.stride + c];
      sum[row * sum_stride + c] = value;
    }
    squares = fmaf(value, value, squares);
  }
  const float scale = 1.0f / sqrtf(block_sum(squares) / float(columns) + eps);
  const float* normed = kFused ? sum + row * sum_stride : in;
  for (int c = threadIdx.x; c < columns; c += kThreads) {  // each thread reads what it wrote itself
    y[row * y_stride + head + c] = normed[c] * scale * (weight[c] + offset);
  }
}

void run_rms_norm(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  if (x.dims[0] == 0) return;
  const auto& attrs = args.attrs.as<ops::RmsNormAttrs>();
  const dim3 blocks(unsigned(x.dims[0]), unsigned(attrs.heads));
  rms_norm_kernel<false><<<blocks, kThreads, 0, stream_of(step)>>>(
      rows_of<const float>(x), RowsOf<const float>{}, reinterpret_cast<const float*>(args.inputs[1].weight.data), int(x.dims[1] / attrs.heads), attrs.eps,
      attrs.offset, nullptr, 0, y.as<float>(), y.strides[0]);
}

void run_add_rms_norm(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& sum = args.outputs[0].tensor;
  const TensorView& y = args.outputs[1].tensor;
  if (x.dims[0] == 0) return;
  const auto& attrs = args.attrs.as<ops::RmsNormAttrs>();
  rms_norm_kernel<true><<<unsigned(x.dims[0]), kThreads, 0, stream_of(step)>>>(
      rows_of<const float>(x), rows_of<const float>(args.inputs[1].tensor), reinterpret_cast<const float*>(args.inputs[2].weight.data),
      int(x.dims[1]), attrs.eps, attrs.offset, sum.as<float>(), sum.strides[0], y.as<float>(), y.strides[0]);
}

const PluginKernel kRows[] = {
    {"rms_norm", {.name = "cuda_block", .device = DeviceKind::cuda, .run = run_rms_norm}},
    {"add_rms_norm", {.name = "cuda_block", .device = DeviceKind::cuda, .run = run_add_rms_norm}},
};

}  // namespace

KernelRows rms_norm_rows() { return {kRows, 2}; }

}  // namespace headrace::cuda
