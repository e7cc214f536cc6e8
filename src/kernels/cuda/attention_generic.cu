// attention and attention_ragged for any head_dim and any float or pool type, in float32. One block for each (query row, head): its
// warps score keys one by one, lanes over the head's dimensions, in chunks of kAttentionChunk; then each thread weighs the values of
// its dimensions. Keys and values come from L2 once for each row and head, which bounds it: this is the kernel that is right
// everywhere, for exact runs and odd shapes. A row's bits depend on its own keys alone.
#include "kernels/cuda/attention_generic.h"

#include "kernels/cuda/attention.cuh"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kChunk = ops::kAttentionChunk;
constexpr int kMaxHeadDim = 1024;
constexpr int kDimsOfThread = kMaxHeadDim / kThreads;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// The keys that a query sees, [begin, end), in tokens of its sequence.
struct KeyRange {
  int begin, end;
};

// Keys and values of a sequence in the pool.
template <class T>
struct PagedSource {
  using Element = T;
  static constexpr bool kScaled = std::is_same_v<T, int8_t>;
  KvPool pool;
  Sequences sequences;

  struct Place {
    KvPool pool;
    const int32_t* table;
    int kv_head;
    __device__ int offset(int token) const { return token % kKvBlockTokens; }
    __device__ int32_t block(int token) const { return table[token / kKvBlockTokens]; }
    __device__ const T* key(int token) const { return pool.keys<T>(block(token), kv_head) + offset(token) * pool.head_dim; }
    __device__ const T* value(int token) const { return pool.values<T>(block(token), kv_head) + offset(token) * pool.head_dim; }
    __device__ float key_scale(int token) const { return kScaled ? pool.key_scales(block(token), kv_head)[offset(token)] : 1.0f; }
    __device__ float value_scale(int token) const { return kScaled ? pool.value_scales(block(token), kv_head)[offset(token)] : 1.0f; }
  };

  // False where the row belongs to no sequence.
  __device__ bool find(const AttentionShape& shape, int64_t row, int kv_head, KeyRange& range, Place& place) const {
    if (sequences.count == 0) return false;
    const int s = sequence_at(sequences.query_start, sequences.count, row);
    const int64_t end = sequences.query_start[s + 1];
    if (row >= end) return false;
    const int position = sequences.context_len[s] - int(end - row);
    range = {first_seen(position, shape.window), position + 1};
    place = {pool, sequences.block_table + s * sequences.table_stride, kv_head};
    return true;
  }
};

// Keys and values in rows of tensors.
template <class T>
struct RowSource {
  using Element = T;
  static constexpr bool kScaled = false;
  RowsOf<const T> k, v;
  const int32_t* query_start;
  int count;

  struct Place {
    RowsOf<const T> k, v;
    int64_t first;  // the sequence's first row
    int column;
    __device__ const T* key(int token) const { return k[first + token] + column; }
    __device__ const T* value(int token) const { return v[first + token] + column; }
    __device__ float key_scale(int) const { return 1.0f; }
    __device__ float value_scale(int) const { return 1.0f; }
  };

  __device__ bool find(const AttentionShape& shape, int64_t row, int kv_head, KeyRange& range, Place& place) const {
    if (count == 0) return false;
    const int s = sequence_at(query_start, count, row);
    const int64_t first = query_start[s], end = query_start[s + 1];
    if (row >= end) return false;
    const int position = int(row - first), keys = int(end - first);
    range = {first_seen(position, shape.window), shape.causal ? position + 1 : keys};
    if (shape.window > 0) range.end = min(range.end, position + shape.window);
    place = {k, v, first, kv_head * shape.head_dim};
    return true;
  }
};

struct Scratch {
  float query[kMaxHeadDim];
  float weights[kChunk];
  float partial[2][kWarps];
};

__device__ float block_max(float value, float* partial) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float all = partial[0];
  for (int warp = 1; warp < kWarps; ++warp) all = fmaxf(all, partial[warp]);
  return all;
}

__device__ float block_sum(float value, float* partial) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float all = 0;
  for (int warp = 0; warp < kWarps; ++warp) all += partial[warp];
  return all;
}

// Scores of the chunk's keys begin .. end - 1, by warps in turn: into weights[token % kChunk].
template <class Place>
__device__ void score_keys(const AttentionShape& shape, const Place& place, int begin, int end, Scratch& scratch) {
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
#pragma unroll 2
  for (int token = begin + warp; token < end; token += kWarps) {
    const auto* key = place.key(token);
    float dot = 0;
    for (int d = lane; d < shape.head_dim; d += 32) dot = fmaf(scratch.query[d], to_float(key[d]), dot);
    for (int step = 16; step > 0; step /= 2) dot += __shfl_xor_sync(kAllLanes, dot, step);
    float score = dot * place.key_scale(token) * shape.scale;
    if (shape.softcap > 0) score = shape.softcap * tanhf(score / shape.softcap);
    if (lane == 0) scratch.weights[token % kChunk] = score;
  }
  __syncthreads();
}

// A block's running softmax: each thread holds every kThreads'th dimension of the weighted values.
struct Running {
  float maximum = -INFINITY;
  float sum = 0;
  float values[kDimsOfThread] = {};
};

// One chunk: maximum, sum and weighted values of its keys alone, then joined to what came before.
template <class Source, class Place>
__device__ void take_chunk(const AttentionShape& shape, const Place& place, int begin, int end, Scratch& scratch, Running& running) {
  score_keys(shape, place, begin, end, scratch);
  float peak = -INFINITY;
  for (int token = begin + int(threadIdx.x); token < end; token += kThreads) peak = fmaxf(peak, scratch.weights[token % kChunk]);
  peak = block_max(peak, scratch.partial[0]);
  float sum = 0;
  for (int token = begin + int(threadIdx.x); token < end; token += kThreads) {
    const float weight = expf(scratch.weights[token % kChunk] - peak);
    sum += weight;
    scratch.weights[token % kChunk] = Source::kScaled ? weight * place.value_scale(token) : weight;
  }
  sum = block_sum(sum, scratch.partial[1]);  // its barrier also shows the weights
  const float maximum = fmaxf(running.maximum, peak), anchor = anchor_of(maximum);
  const float before = expf(running.maximum - anchor), now = expf(peak - anchor);
  running.maximum = maximum;
  running.sum = running.sum * before + sum * now;
#pragma unroll
  for (int i = 0; i < kDimsOfThread; ++i) {
    const int d = i * kThreads + int(threadIdx.x);
    if (d >= shape.head_dim) break;
    float weighed = 0;
#pragma unroll 4
    for (int token = begin; token < end; ++token) weighed = fmaf(scratch.weights[token % kChunk], to_float(place.value(token)[d]), weighed);
    running.values[i] = running.values[i] * before + weighed * now;
  }
  __syncthreads();  // the next chunk writes the weights
}

template <class X, class Source>
__global__ void __launch_bounds__(kThreads) generic_kernel(const __grid_constant__ AttentionShape shape, RowsOf<const X> q, Source source,
                                                           RowsOf<X> out) {
  __shared__ Scratch scratch;
  begin_step_kernel();
  const int64_t row = blockIdx.x;
  const int head = int(blockIdx.y), column = head * shape.head_dim;
  KeyRange range{0, 0};
  typename Source::Place place;
  const bool owned = source.find(shape, row, head / shape.group, range, place);
  for (int d = int(threadIdx.x); d < shape.head_dim; d += kThreads) scratch.query[d] = to_float(q[row][column + d]);
  __syncthreads();
  Running running;
  for (int begin = range.begin; owned && begin < range.end;) {
    const int end = min(range.end, (begin / kChunk + 1) * kChunk);
    take_chunk<Source>(shape, place, begin, end, scratch, running);
    begin = end;
  }
  float of_values = owned ? 1.0f : 0.0f;
  if (shape.has_sinks && owned) {
    const float sink = shape.sinks[head], maximum = fmaxf(running.maximum, sink);
    of_values = expf(running.maximum - maximum);
    running.sum = running.sum * of_values + expf(sink - maximum);
  }
#pragma unroll
  for (int i = 0; i < kDimsOfThread; ++i) {
    const int d = i * kThreads + int(threadIdx.x);
    if (d >= shape.head_dim) break;
    out[row][column + d] = from_float<X>(owned ? running.values[i] * of_values / running.sum : 0.0f);
  }
}

template <class X, class Source>
void launch_generic(const StepContext& step, const NodeArgs& args, const Source& source) {
  const TensorView& q = args.inputs[0].tensor;
  const AttentionShape shape = shape_of(args.attrs.as<ops::AttentionAttrs>());
  launch(generic_kernel<X, Source>, dim3(unsigned(q.dims[0]), unsigned(shape.heads)), kThreads, 0, stream_of(step), shape,
         rows_of<const X>(q), source, rows_of<X>(args.outputs[0].tensor));
}

}  // namespace

void run_attention_generic(const StepContext& step, const NodeArgs& args, Team&) {
  if (args.inputs[0].tensor.dims[0] == 0) return;
  const KvView& kv = args.inputs[1].kv;
  dispatch_float(args.inputs[0].tensor.dtype, [&]<class X>() {
    dispatch_pool(kv.spec.dtype, [&]<class T>() {
      launch_generic<X>(step, args, PagedSource<T>{pool_of(kv), sequences_of(args)});
    });
  });
}

void run_attention_ragged(const StepContext& step, const NodeArgs& args, Team&) {
  if (args.inputs[0].tensor.dims[0] == 0) return;
  const TensorView& starts = args.inputs[3].tensor;
  dispatch_float(args.inputs[0].tensor.dtype, [&]<class X>() {
    launch_generic<X>(step, args,
                      RowSource<X>{rows_of<const X>(args.inputs[1].tensor), rows_of<const X>(args.inputs[2].tensor), starts.as<int32_t>(),
                                   int(starts.dims[0]) - 1});
  });
}

}  // namespace headrace::cuda
