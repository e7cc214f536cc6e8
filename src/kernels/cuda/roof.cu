// The device's roof: how fast memory is read and copied, bf16 products by cuBLASLt, and how fast empty kernels start. Data are random,
// since zeros take less power and run at higher clocks. A figure is the median of samples of about 10 ms each, behind one more to warm up.
#include "kernels/cuda/roof.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

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

// The calls of cuBLASLt that are made here. It is opened, not linked: 540 MB that only a machine with a card has.
#define HR_CUBLASLT_CALLS(X)                                                                                              \
  X(Create) X(Destroy) X(MatmulDescCreate) X(MatmulDescDestroy) X(MatmulDescSetAttribute) X(MatrixLayoutCreate)           \
  X(MatrixLayoutDestroy) X(MatmulPreferenceCreate) X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute)             \
  X(MatmulAlgoGetHeuristic) X(Matmul)
struct CublasLt {
#define HR_MEMBER(name) decltype(&cublasLt##name) name = nullptr;
  HR_CUBLASLT_CALLS(HR_MEMBER)
#undef HR_MEMBER
};

bool open_cublaslt(CublasLt& calls, char* why, size_t size) {
  void* library = nullptr;
  for (const char* path : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"}) {
    if (library == nullptr) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    std::snprintf(why, size, "%s", dlerror());
    return false;
  }
  bool all = true;
#define HR_LOAD(name) all &= (calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(library, "cublasLt" #name))) != nullptr;
  HR_CUBLASLT_CALLS(HR_LOAD)
#undef HR_LOAD
  if (!all) std::snprintf(why, size, "libcublasLt.so.13 lacks a function");
  return all;
}

constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kAlgorithms = 4;  // the first so many of the heuristic are timed, the best counts

// y[m, n] = x[m, k] · w[n, k]ᵀ in row-major bf16, which cuBLASLt sees as the column-major yᵀ = wᵀᵀ · xᵀ.
class Product {
 public:
  Product(const CublasLt& calls, cublasLtHandle_t handle, const DeviceMatmulRate& shape) : calls_(calls), handle_(handle) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    good_ = calls.MatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
            calls.MatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed) == CUBLAS_STATUS_SUCCESS &&
            calls.MatrixLayoutCreate(&w_, CUDA_R_16BF, shape.k, shape.n, shape.k) == CUBLAS_STATUS_SUCCESS &&
            calls.MatrixLayoutCreate(&x_, CUDA_R_16BF, shape.k, shape.m, shape.k) == CUBLAS_STATUS_SUCCESS &&
            calls.MatrixLayoutCreate(&y_, CUDA_R_16BF, shape.n, shape.m, shape.n) == CUBLAS_STATUS_SUCCESS && choose();
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    for (const cublasLtMatrixLayout_t layout : {w_, x_, y_}) {
      if (layout != nullptr) calls_.MatrixLayoutDestroy(layout);
    }
    if (desc_ != nullptr) calls_.MatmulDescDestroy(desc_);
  }

  int num_algorithms() const { return good_ ? found_ : 0; }

  cudaError_t run(int algorithm, std::byte* set, void* workspace, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    const std::byte *x = set, *w = set + kSetBytes / 4;
    std::byte* y = set + kSetBytes / 2;
    const cublasStatus_t status = calls_.Matmul(handle_, desc_, &one, w, w_, x, x_, &zero, y, y_, y, y_, &results_[algorithm].algo,
                                                workspace, kWorkspaceBytes, stream);
    return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
  }

 private:
  bool choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    if (calls_.MatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return false;
    const size_t bytes = kWorkspaceBytes;
    const bool asked = calls_.MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                           sizeof bytes) == CUBLAS_STATUS_SUCCESS &&
                       calls_.MatmulAlgoGetHeuristic(handle_, desc_, w_, x_, y_, y_, preference, kAlgorithms, results_, &found_) ==
                           CUBLAS_STATUS_SUCCESS;
    calls_.MatmulPreferenceDestroy(preference);
    return asked;
  }

  const CublasLt& calls_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  cublasLtMatmulHeuristicResult_t results_[kAlgorithms] = {};
  int found_ = 0;
  bool good_ = false;
};

// Operands lie in the quarters of the set: 1 GiB for each of x and w, 2 for y.
constexpr DeviceMatmulRate kShapes[] = {
    {8192, 8192, 8192, 0},    // the usual figure
    {8192, 28672, 4096, 0},   // gate and up projections of Llama-3-8B, a prompt of 8192 tokens
    {256, 28672, 4096, 0},    // the same, 256 sequences that decode
    {64, 28672, 4096, 0},     // 64: bound by reading the weights
};
static_assert(sizeof kShapes <= sizeof DeviceRoof::matmuls);

cudaError_t measure_products(Meter& meter, std::byte* set, DeviceRoof& out) {
  CublasLt calls;
  if (!open_cublaslt(calls, out.matmul_error, sizeof out.matmul_error)) return cudaSuccess;
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = calls.Create(&handle); status != CUBLAS_STATUS_SUCCESS) {
    std::snprintf(out.matmul_error, sizeof out.matmul_error, "cublasLtCreate: status %d", static_cast<int>(status));
    return cudaSuccess;
  }
  Buffer workspace;
  cudaError_t code = cudaMalloc(reinterpret_cast<void**>(&workspace.data), kWorkspaceBytes);
  for (const DeviceMatmulRate& shape : kShapes) {
    DeviceMatmulRate& rate = out.matmuls[out.num_matmuls++];
    rate = shape;
    const Product product(calls, handle, shape);
    for (int i = 0; code == cudaSuccess && i < product.num_algorithms(); ++i) {
      double seconds = 0;
      code = meter.median_seconds([&](cudaStream_t stream) { return product.run(i, set, workspace.data, stream); }, seconds);
      const double operations = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
      if (code == cudaSuccess) rate.flop_per_s = std::max(rate.flop_per_s, operations / seconds);
    }
  }
  calls.Destroy(handle);
  return code;
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
  return measure_products(meter, set.data, out);
}

}  // namespace headrace::cuda
