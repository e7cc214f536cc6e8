// rope of queries and keys with the cache's writes, in one launch. A block takes a token: its sines and cosines are worked out once for all
// heads, then a warp takes a head at a time. Bound by the launch for small batches, by memory for prompts: each number once in, once out.
#include "kernels/cuda/rope_kv_write.h"

#include "kernels/cuda/kv_store.cuh"
#include "kernels/cuda/turn.cuh"
#include "ops/rope_kv_write.h"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// All but the pool and the strides, which the types of the launch decide.
struct Heads {
  int query, kv, head_dim, half;
  bool interleaved;
  float factor;
};

// Number `d` of a head after its rotation.
template <class X>
__device__ float turned(const X* head, int d, const Heads& heads, const Turns& turns) {
  if (d >= 2 * heads.half) return to_float(head[d]);
  const bool is_second = heads.interleaved ? d % 2 != 0 : d >= heads.half;
  const int pair = heads.interleaved ? d / 2 : is_second ? d - heads.half : d;
  const int other = heads.interleaved ? d ^ 1 : is_second ? d - heads.half : d + heads.half;
  const float x = to_float(head[d]) * turns.cosine[pair], y = to_float(head[other]) * turns.sine[pair];
  return is_second ? x + y : x - y;
}

// A query's head, in place or not: a lane has read all that it needs of the head before any lane writes.
template <class X>
__device__ void turn_query(const X* from, X* to, const Heads& heads, const Turns& turns) {
  const int lane = int(threadIdx.x) % 32;
  for (int first = 0; first < heads.half; first += 32) {  // pairs do not share numbers
    const int pair = first + lane;
    if (pair >= heads.half) break;
    const int a = heads.interleaved ? 2 * pair : pair, b = heads.interleaved ? a + 1 : pair + heads.half;
    const float turned_a = turned(from, a, heads, turns), turned_b = turned(from, b, heads, turns);
    to[a] = from_float<X>(turned_a);
    to[b] = from_float<X>(turned_b);
  }
  for (int d = 2 * heads.half + lane; d < heads.head_dim; d += 32) to[d] = from[d];
}

template <class X, class T>
__global__ void __launch_bounds__(kThreads) rope_kv_write_kernel(RowsOf<const X> q, RowsOf<const X> k, RowsOf<const X> v, RowsOf<X> out,
                                                                 const int32_t* positions, const float* inv_freq, const int32_t* slots,
                                                                 Heads heads, KvPool pool) {
  __shared__ Turns turns;
  begin_step_kernel();
  const int64_t token = blockIdx.x;
  turns.fill(positions[token], inv_freq, heads.half, heads.factor);
  const KvPlace to = place_of(pool, slots[token]);
  for (int unit = int(threadIdx.x) / 32; unit < heads.query + 2 * heads.kv; unit += kWarps) {  // queries, keys, values
    if (unit < heads.query) {
      turn_query(q[token] + unit * heads.head_dim, out[token] + unit * heads.head_dim, heads, turns);
      continue;
    }
    if (!to.inside) continue;
    const bool is_value = unit >= heads.query + heads.kv;
    const int head = unit - heads.query - (is_value ? heads.kv : 0);
    const X* from = (is_value ? v : k)[token] + head * heads.head_dim;
    store_vector<T, 1>(pool, to.block, head, is_value, to.place, [&](int d, float(&value)[1]) {
      value[0] = is_value ? to_float(from[d]) : turned(from, d, heads, turns);
    });
  }
}

void run(const StepContext& step, const NodeArgs& args, Team&) {
  const auto& attrs = args.attrs.as<ops::RopeKvWriteAttrs>();
  const TensorView& q = args.inputs[0].tensor;
  if (q.dims[0] == 0) return;
  const Heads heads{attrs.rope.heads,           attrs.kv_heads,         attrs.rope.head_dim, attrs.rope.rotary_dim / 2,
                    attrs.rope.interleaved, attrs.rope.attention_factor};
  dispatch_float(q.dtype, [&]<class X>() {
    dispatch_pool(args.inputs[6].kv.spec.dtype, [&]<class T>() {
      launch(rope_kv_write_kernel<X, T>, unsigned(q.dims[0]), kThreads, 0, stream_of(step), rows_of<const X>(q),
             rows_of<const X>(args.inputs[1].tensor), rows_of<const X>(args.inputs[2].tensor), rows_of<X>(args.outputs[0].tensor),
             args.inputs[3].tensor.as<int32_t>(), args.inputs[4].tensor.as<float>(), args.inputs[5].tensor.as<int32_t>(), heads,
             pool_of(args.inputs[6].kv));
    });
  });
}

bool has_room(std::span<const ValueType> inputs, std::span<const ValueType>, const Attrs& attrs) {
  return is_activation(inputs[0].dtype) && attrs.as<ops::RopeKvWriteAttrs>().rope.rotary_dim <= 2 * kMaxPairs;
}

const PluginKernel kRows[] = {
    {"rope_kv_write", {.name = "cuda_token", .device = DeviceKind::cuda, .supports = has_room, .run = run}},
};

}  // namespace

KernelRows rope_kv_write_rows() { return {kRows, 1}; }

}  // namespace headrace::cuda
