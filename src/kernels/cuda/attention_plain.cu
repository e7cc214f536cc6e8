// attention for every head size, cache dtype and query dtype, in float32: what --exact runs on, and shapes that the fast kernels do not know.
// A block takes one query of one head and walks its keys in chunks at absolute multiples of kAttentionChunk, which are merged in rising
// order, so that a row's bits depend on that row alone. Bound by latency: no key is shared between queries.
#include "kernels/cuda/attention_plain.h"

#include "kernels/cuda/kv.cuh"
#include "ops/attention.h"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;  // one key of a chunk each
constexpr int kMaxSinkHeads = 256;
static_assert(kThreads == ops::kAttentionChunk);

template <class T>
struct Problem {
  RowsOf<const T> q;
  RowsOf<T> out;
  Pool pool;
  const int32_t *query_start, *context_len, *block_table;
  int32_t seqs;
  int64_t table_stride;
  int32_t heads_per_kv, head_dim, window;
  float scale, softcap;
  bool has_sinks;
  float sinks[kMaxSinkHeads];
};

// The sequence that owns query row `row`; `seqs` when none does: padding.
__device__ int sequence_of(const int32_t* query_start, int seqs, int row) {
  int low = 0, high = seqs;  // the first s with query_start[s + 1] > row
  while (low < high) {
    const int middle = (low + high) / 2;
    if (query_start[middle + 1] > row) high = middle;
    else low = middle + 1;
  }
  return low;
}

struct Reduction {
  float partial[kThreads / 32];
  __device__ float max(float value) {
    value = warp_max(value);
    return join(value, [](float a, float b) { return fmaxf(a, b); });
  }
  __device__ float sum(float value) {
    value = warp_sum(value);
    return join(value, [](float a, float b) { return a + b; });
  }
  template <class Join>
  __device__ float join(float value, Join join_two) {
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    float all = partial[0];
    for (int warp = 1; warp < kThreads / 32; ++warp) all = join_two(all, partial[warp]);
    return all;
  }
};

template <class T, class Kv>
__global__ void __launch_bounds__(kThreads) attention_kernel(const __grid_constant__ Problem<T> p) {
  extern __shared__ float shared[];
  int64_t* const rows = reinterpret_cast<int64_t*>(shared);  // [kThreads]: where the side of each value of the chunk begins
  float* const weights = shared + 2 * kThreads;              // [kThreads]
  float* const query = weights + kThreads;                   // [head_dim]
  __shared__ Reduction reduction;
  const int row = int(blockIdx.x), head = int(blockIdx.y), kv_head = head / p.heads_per_kv, me = int(threadIdx.x);
  begin_step_kernel();
  const int s = sequence_of(p.query_start, p.seqs, row);
  if (s == p.seqs) return;
  const int position = p.context_len[s] - (p.query_start[s + 1] - row);
  const int first = p.window > 0 ? max(0, position - p.window + 1) : 0;
  for (int d = me; d < p.head_dim; d += kThreads) query[d] = to_float(p.q[row][int64_t(head) * p.head_dim + d]);
  constexpr int kMaxOwn = 4;  // numbers of the output that a thread keeps
  float mixed[kMaxOwn] = {};
  float peak = p.has_sinks ? p.sinks[head] : -INFINITY, total = p.has_sinks ? 1.0f : 0.0f;
  __syncthreads();
  for (int chunk = first / kThreads * kThreads; chunk <= position; chunk += kThreads) {
    const int key = chunk + me;
    const bool seen = key >= first && key <= position;
    float score = -INFINITY;
    if (seen) {
      const int64_t block = p.block_table[s * p.table_stride + key / kKvBlockTokens];
      const int place = key % kKvBlockTokens;
      char* const side = p.pool.side(block, 2 * kv_head);
      const Kv* k = Pool::vector<Kv>(side, place, p.head_dim);
      float dot = 0;
      for (int d = 0; d < p.head_dim; ++d) dot = fmaf(query[d], to_float(k[d]), dot);
      if constexpr (sizeof(Kv) == 1) dot *= p.pool.scales(side)[place];
      score = dot * p.scale;
      if (p.softcap > 0) score = p.softcap * tanhf(score / p.softcap);
      rows[me] = reinterpret_cast<const char*>(p.pool.side(block, 2 * kv_head + 1)) - p.pool.data;
    }
    const float chunk_peak = reduction.max(score);
    const float weight = seen ? expf(score - chunk_peak) : 0.0f;
    const float chunk_total = reduction.sum(weight);
    weights[me] = weight;
    __syncthreads();
    const float new_peak = fmaxf(peak, chunk_peak);
    const float keep = expf(peak - new_peak), take = expf(chunk_peak - new_peak);  // 0 where the peak was -infinity
    const int begin = max(first - chunk, 0), end = min(position - chunk + 1, kThreads);
#pragma unroll
    for (int i = 0; i < kMaxOwn; ++i) {
      const int d = me + i * kThreads;
      if (d >= p.head_dim) continue;
      float sum = 0;
      for (int j = begin; j < end; ++j) {
        char* const side = p.pool.data + rows[j];
        const int place = (chunk + j) % kKvBlockTokens;
        float value = to_float(Pool::vector<Kv>(side, place, p.head_dim)[d]);
        if constexpr (sizeof(Kv) == 1) value *= p.pool.scales(side)[place];
        sum = fmaf(weights[j], value, sum);
      }
      mixed[i] = mixed[i] * keep + sum * take;
    }
    total = total * keep + chunk_total * take;
    peak = new_peak;
    __syncthreads();  // weights and rows are read to the end
  }
#pragma unroll
  for (int i = 0; i < kMaxOwn; ++i) {
    const int d = me + i * kThreads;
    if (d < p.head_dim) p.out[row][int64_t(head) * p.head_dim + d] = from_float<T>(mixed[i] / total);
  }
}

template <class T>
void run_as(const StepContext& step, const NodeArgs& args) {
  const auto& attrs = args.attrs.as<ops::AttentionAttrs>();
  const TensorView& q = args.inputs[0].tensor;
  const TensorView& table = args.inputs[4].tensor;
  if (q.dims[0] == 0) return;
  Problem<T> p{};
  p.q = rows_of<const T>(q);
  p.out = rows_of<T>(args.outputs[0].tensor);
  p.pool = pool_of(args.inputs[1].kv);
  p.query_start = args.inputs[2].tensor.as<int32_t>();
  p.context_len = args.inputs[3].tensor.as<int32_t>();
  p.block_table = table.as<int32_t>();
  p.table_stride = table.strides[0];
  p.seqs = int32_t(table.dims[0]);
  p.heads_per_kv = attrs.heads / attrs.kv_heads;
  p.head_dim = attrs.head_dim;
  p.window = attrs.window;
  p.scale = attrs.scale;
  p.softcap = attrs.softcap;
  p.has_sinks = !attrs.sinks.empty();
  for (size_t i = 0; i < attrs.sinks.size(); ++i) p.sinks[i] = attrs.sinks[i];
  const dim3 grid{unsigned(q.dims[0]), unsigned(attrs.heads)};
  const size_t shared = size_t(attrs.head_dim + kThreads) * sizeof(float) + kThreads * sizeof(int64_t);
  const auto run = [&](auto kernel) { launch(kernel, grid, dim3(kThreads), shared, stream_of(step), p); };
  switch (p.pool.dtype) {
    case DType::f32: return run(attention_kernel<T, float>);
    case DType::f16: return run(attention_kernel<T, __half>);
    case DType::bf16: return run(attention_kernel<T, __nv_bfloat16>);
    default: return run(attention_kernel<T, int8_t>);
  }
}

void run_attention(const StepContext& step, const NodeArgs& args, Team&) {
  args.inputs[0].tensor.dtype == DType::bf16 ? run_as<__nv_bfloat16>(step, args) : run_as<float>(step, args);
}

bool has_room(std::span<const ValueType>, std::span<const ValueType>, const Attrs& attrs) {
  const auto& a = attrs.as<ops::AttentionAttrs>();
  return a.head_dim <= 4 * kThreads && a.sinks.size() <= kMaxSinkHeads;
}

const PluginKernel kRows[] = {
    {"attention", {.name = "cuda_plain", .device = DeviceKind::cuda, .priority = -1, .supports = has_room, .run = run_attention}},
};

}  // namespace

KernelRows attention_plain_rows() { return {kRows, 1}; }

}  // namespace headrace::cuda
