// The device's roof: how fast memory is read and copied, bf16 products by cuBLASLt, and how fast empty kernels start. Data are random,
// since zeros take less power and run at higher clocks. A figure is the median of samples of about 10 ms each, behind one more to warm up.
#include "kernels/cuda/roof.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/cublaslt.h"

#define HR_RETURN_IF_CUDA_ERROR(call)                       \
  if (const cudaError_t hr_code = call; hr_code != cudaSuccess) return hr_code

namespace headrace::cuda {
namespace {

constexpr size_t kSetBytes = size_t{4} << 30;  // read and copied; seventy times the L2 of an H200
constexpr int kSamples = 11;
constexpr double kSampleSeconds = 0.01;
constexpr int kEmptyKernels = 200;  // of a graph: about a step's

// What must not be left behind by an early return.
struct Buffer {
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
  std::byte* data = nullptr;
};
struct Stream {
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (handle != nullptr) cudaStreamDestroy(handle);
  }
  cudaStream_t handle = nullptr;
};
struct Events {
  Events() = default;
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    for (const cudaEvent_t event : {begin, end}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  cudaEvent_t begin = nullptr, end = nullptr;
};
struct GraphExec {
  GraphExec() = default;
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;
  ~GraphExec() {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

// Uniform in (-1, 1), as pairs of bf16: SplitMix64's finalizer over the index.
__global__ void fill_random(uint2* out, size_t count) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
    uint64_t bits = (i + 1) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    bits ^= bits >> 31;
    uint32_t halves[4];
    for (int k = 0; k < 4; ++k) {
      const float value = static_cast<float>(static_cast<int16_t>(bits >> (16 * k))) * (1.0f / 32768);
      halves[k] = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    }
    out[i] = make_uint2(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16);
  }
}

// Every thread has 5 loads of 16 bytes under way (what fits 32 registers, so that 2048 threads fit a multiprocessor): 160 KiB each, where
// bandwidth times latency asks for about 30.
constexpr int kReadThreads = 512, kLoads = 8;
__global__ void __launch_bounds__(kReadThreads) read_all(const uint4* data, size_t count, uint32_t* never) {
  const size_t piece = size_t(kReadThreads) * kLoads;
  uint32_t seen = 0;
  for (size_t base = blockIdx.x * piece + threadIdx.x; base < count; base += gridDim.x * piece) {
    uint4 values[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) values[i] = __ldcs(data + base + i * kReadThreads);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) seen ^= values[i].x ^ values[i].y ^ values[i].z ^ values[i].w;
  }
  if (seen == 0x9E3779B9u) *never = seen;  // keeps the loads
}
static_assert(kSetBytes % (size_t(kReadThreads) * kLoads * sizeof(uint4)) == 0);

__global__ void empty_kernel() { begin_step_kernel(); }

// Enqueues one run of what is measured.
using Work = std::function<cudaError_t(cudaStream_t)>;

class Meter {
 public:
  explicit Meter(cudaStream_t stream) : stream_(stream) {}

  cudaError_t median_seconds(const Work& work, double& seconds) {
    HR_RETURN_IF_CUDA_ERROR(time(work, 1, seconds));  // loads the kernel
    HR_RETURN_IF_CUDA_ERROR(time(work, 1, seconds));
    const int calls = static_cast<int>(std::clamp(kSampleSeconds / std::max(seconds, 1e-6), 1.0, 1000.0));
    std::vector<double> samples(kSamples);
    HR_RETURN_IF_CUDA_ERROR(time(work, calls, seconds));
    for (double& sample : samples) HR_RETURN_IF_CUDA_ERROR(time(work, calls, sample));
    std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
    seconds = samples[kSamples / 2];
    return cudaSuccess;
  }

 private:
  // Seconds a call, on the device's clock.
  cudaError_t time(const Work& work, int calls, double& seconds) {
    Events events;
    HR_RETURN_IF_CUDA_ERROR(cudaEventCreate(&events.begin));
    HR_RETURN_IF_CUDA_ERROR(cudaEventCreate(&events.end));
    HR_RETURN_IF_CUDA_ERROR(cudaEventRecord(events.begin, stream_));
    for (int i = 0; i < calls; ++i) HR_RETURN_IF_CUDA_ERROR(work(stream_));
    HR_RETURN_IF_CUDA_ERROR(cudaEventRecord(events.end, stream_));
    HR_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(events.end));
    float ms = 0;
    HR_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&ms, events.begin, events.end));
    seconds = ms * 1e-3 / calls;
    return cudaSuccess;
  }

  cudaStream_t stream_;
};

cudaError_t measure_memory(Meter& meter, int processors, std::byte* set, uint32_t* spare, DeviceRoof& out) {
  double seconds = 0;
  const auto* words = reinterpret_cast<const uint4*>(set);
  const int blocks = processors * 4;  // all threads that fit
  HR_RETURN_IF_CUDA_ERROR(meter.median_seconds(
      [&](cudaStream_t stream) {
        read_all<<<blocks, kReadThreads, 0, stream>>>(words, kSetBytes / sizeof(uint4), spare);
        return cudaPeekAtLastError();
      },
      seconds));
  out.read_bytes_per_s = static_cast<double>(kSetBytes) / seconds;
  HR_RETURN_IF_CUDA_ERROR(meter.median_seconds(
      [&](cudaStream_t stream) {
        return cudaMemcpyAsync(set + kSetBytes / 2, set, kSetBytes / 2, cudaMemcpyDeviceToDevice, stream);
      },
      seconds));
  out.copy_bytes_per_s = static_cast<double>(kSetBytes) / seconds;
  return cudaSuccess;
}

cudaError_t measure_launches(Meter& meter, int blocks, DeviceRoof& out) {
  const auto overlapped = [&](cudaStream_t stream) {
    for (int i = 0; i < kEmptyKernels; ++i) launch(empty_kernel, blocks, 256, 0, stream);
    return cudaPeekAtLastError();
  };
  const auto in_turn = [&](cudaStream_t stream) {
    for (int i = 0; i < kEmptyKernels; ++i) empty_kernel<<<blocks, 256, 0, stream>>>();
    return cudaPeekAtLastError();
  };
  const auto captured = [&](const Work& kernels, double& seconds) {
    Stream stream;
    GraphExec graph;
    HR_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking));
    HR_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
    const cudaError_t launched = kernels(stream.handle);
    HR_RETURN_IF_CUDA_ERROR(cudaStreamEndCapture(stream.handle, &graph.graph));
    HR_RETURN_IF_CUDA_ERROR(launched);
    HR_RETURN_IF_CUDA_ERROR(cudaGraphInstantiate(&graph.exec, graph.graph, 0));
    HR_RETURN_IF_CUDA_ERROR(meter.median_seconds([&](cudaStream_t to) { return cudaGraphLaunch(graph.exec, to); }, seconds));
    seconds /= kEmptyKernels;
    return cudaSuccess;
  };
  HR_RETURN_IF_CUDA_ERROR(captured(overlapped, out.graph_overlapped_s));
  HR_RETURN_IF_CUDA_ERROR(captured(in_turn, out.graph_kernel_s));
  HR_RETURN_IF_CUDA_ERROR(meter.median_seconds(in_turn, out.launch_s));
  out.launch_s /= kEmptyKernels;
  return cudaSuccess;
}

// Operands lie in the quarters of the set: 1 GiB for each of x and w, 2 for y.
constexpr DeviceMatmulRate kShapes[] = {
    {8192, 8192, 8192, 0},    // the usual figure
    {8192, 28672, 4096, 0},   // gate and up projections of Llama-3-8B, a prompt of 8192 tokens
    {256, 28672, 4096, 0},    // the same, 256 sequences that decode
    {64, 28672, 4096, 0},     // 64: bound by reading the weights
};
static_assert(sizeof kShapes <= sizeof DeviceRoof::matmuls);

// Finds the fastest algorithm for each product, which the device's plan holds from then on, and measures it.
bool measure_products(Meter& meter, std::byte* set, DeviceRoof& out, std::string& why) {
  why = cublaslt_missing();
  if (!why.empty()) return false;
  for (DeviceMatmulRate rate : kShapes) {
    const MatmulShape shape{.n = rate.n, .k = rate.k, .tokens = rate.m};
    MatmulTuning tuning;
    if (!tune_matmul(shape, &tuning, &why)) return false;
    Buffer workspace;
    double seconds = 0;
    cudaError_t code = cudaMalloc(reinterpret_cast<void**>(&workspace.data), matmul_workspace_bytes(rate.n, rate.m));
    const MatmulOperands operands{.x = set, .x_stride = rate.k, .weight = set + kSetBytes / 4, .bias = nullptr,
                                  .y = set + kSetBytes / 2, .y_stride = rate.n, .workspace = workspace.data};
    const auto multiply = [&](cudaStream_t stream) {
      return cublaslt_matmul(shape, operands, stream) ? cudaPeekAtLastError() : cudaErrorNotSupported;
    };
    if (code == cudaSuccess) code = meter.median_seconds(multiply, seconds);
    why = take_cublaslt_failure();
    if (why.empty() && code != cudaSuccess) why = cudaGetErrorString(code);
    if (!why.empty()) return false;
    rate.flop_per_s = 2.0 * static_cast<double>(rate.m) * static_cast<double>(rate.n) * static_cast<double>(rate.k) / seconds;
    out.matmuls[out.num_matmuls++] = rate;
  }
  return true;
}

}  // namespace

cudaError_t measure_roof(int device, DeviceRoof& out) {
  out = DeviceRoof{};
  HR_RETURN_IF_CUDA_ERROR(cudaSetDevice(device));
  int processors = 0;
  HR_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  Stream stream;
  Buffer set, spare;
  HR_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking));
  HR_RETURN_IF_CUDA_ERROR(cudaMalloc(reinterpret_cast<void**>(&set.data), kSetBytes));
  HR_RETURN_IF_CUDA_ERROR(cudaMalloc(reinterpret_cast<void**>(&spare.data), sizeof(uint32_t)));
  fill_random<<<processors * 4, 512, 0, stream.handle>>>(reinterpret_cast<uint2*>(set.data), kSetBytes / sizeof(uint2));
  HR_RETURN_IF_CUDA_ERROR(cudaPeekAtLastError());
  Meter meter(stream.handle);
  HR_RETURN_IF_CUDA_ERROR(measure_memory(meter, processors, set.data, reinterpret_cast<uint32_t*>(spare.data), out));
  HR_RETURN_IF_CUDA_ERROR(measure_launches(meter, processors, out));
  std::string why;
  if (!measure_products(meter, set.data, out, why)) {
    out.num_matmuls = 0;
    std::snprintf(out.matmul_error, sizeof out.matmul_error, "%s", why.c_str());
  }
  return cudaSuccess;
}

}  // namespace headrace::cuda
