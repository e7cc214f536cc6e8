// rope, kv_write and both in one launch. A block takes a token: its sines and cosines are worked out once for all heads, then a warp takes a
// head at a time. Bound by launch latency for small batches, by memory for prompts: each number is read once and written once.
#include "kernels/cuda/rope_kv_write.h"

#include "kernels/cuda/kv.cuh"
#include "ops/attention.h"
#include "ops/rope_kv_write.h"

namespace headrace::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;

// How heads turn. No rotation: rotary_dim is 0.
struct Turn {
  const int32_t* positions;
  const float* inv_freq;
  int32_t rotary_dim;
  bool interleaved;
  float factor;
};

// What a launch does: `heads` of q turn and go to `out`; `kv_heads` of k turn and go to the pool, or, where it has no data, nowhere; so
// do those of v as they are.
template <class T>
struct Work {
  RowsOf<const T> q, k, v;
  RowsOf<T> out;
  int32_t heads, kv_heads, head_dim;
  Turn turn;
  Pool pool;
  const int32_t* kv_slot;
};

// Positions reach millions: the angle is reduced in float64, where it is exact enough.
__device__ void sine_and_cosine(const Turn& turn, int position, int pair, float* sine, float* cosine) {
  const double angle = double(position) * double(turn.inv_freq[pair]);
  const double turns = rint(angle * 0.15915494309189533577);
  const float rest = float(fma(-turns, 6.283185307179586477, angle));
  *sine = sinf(rest) * turn.factor;
  *cosine = cosf(rest) * turn.factor;
}

// Number `d` of a head after the rotation.
template <class T>
__device__ float turned(const T* head, int d, const Turn& turn, const float* sines, const float* cosines) {
  if (d >= turn.rotary_dim) return to_float(head[d]);
  const int half = turn.rotary_dim / 2;
  const int pair = turn.interleaved ? d / 2 : d % half;
  const bool is_second = turn.interleaved ? d % 2 == 1 : d >= half;
  const int other = turn.interleaved ? d ^ 1 : (is_second ? d - half : d + half);
  const float x = to_float(head[d]), y = to_float(head[other]);
  return is_second ? fmaf(x, cosines[pair], y * sines[pair]) : fmaf(x, cosines[pair], -(y * sines[pair]));
}

__device__ inline void store(char* side, int place, int head_dim, DType dtype, int d, float value) {
  if (dtype == DType::f32) Pool::vector<float>(side, place, head_dim)[d] = value;
  if (dtype == DType::bf16) Pool::vector<__nv_bfloat16>(side, place, head_dim)[d] = __float2bfloat16_rn(value);
  if (dtype == DType::f16) Pool::vector<__half>(side, place, head_dim)[d] = __float2half_rn(value);
}

// A vector with its scale, as ops/attention.h defines both. By one warp.
__device__ void store_codes(const Pool& pool, char* side, int place, const float* vector) {
  const int lane = int(threadIdx.x) % 32;
  float peak = 0;
  bool finite = true;
  for (int d = lane; d < pool.head_dim; d += 32) {
    finite = finite && isfinite(vector[d]);
    peak = fmaxf(peak, fabsf(vector[d]));
  }
  peak = warp_max(peak);
  finite = __all_sync(0xFFFFFFFFu, finite);
  const bool zero = peak < ops::kKvFloor;
  const float inverse = zero ? 0.0f : 127.0f / peak;
  int8_t* codes = Pool::vector<int8_t>(side, place, pool.head_dim);
  for (int d = lane; d < pool.head_dim; d += 32) codes[d] = finite ? int8_t(__float2int_rn(vector[d] * inverse)) : int8_t(0);
  if (lane == 0) pool.scales(side)[place] = !finite ? __int_as_float(0x7FC00000) : zero ? 0.0f : peak / 127.0f;
}

template <class T>
__global__ void __launch_bounds__(kThreads) rope_kv_write_kernel(const __grid_constant__ Work<T> work) {
  extern __shared__ float shared[];
  const int half = work.turn.rotary_dim / 2, head_dim = work.head_dim;
  float* const cosines = shared;
  float* const sines = shared + half;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  float* const vector = shared + 2 * half + warp * head_dim;  // of this warp
  const int64_t token = blockIdx.x;
  begin_step_kernel();
  if (half > 0) {
    const int position = work.turn.positions[token];
    for (int pair = int(threadIdx.x); pair < half; pair += kThreads) {
      sine_and_cosine(work.turn, position, pair, &sines[pair], &cosines[pair]);
    }
    __syncthreads();
  }
  int64_t slot = -1;
  if (work.kv_slot != nullptr) slot = work.kv_slot[token];
  const bool stored = slot >= 0 && slot < work.pool.num_blocks * kKvBlockTokens;
  const int64_t block = stored ? slot / kKvBlockTokens : 0;
  const int place = stored ? int(slot % kKvBlockTokens) : 0;
  // Units are heads: q's, then k's, then v's.
  const int units = work.heads + (work.kv_slot != nullptr ? 2 * work.kv_heads : 0);
  for (int unit = warp; unit < units; unit += kWarps) {
    const int kv_unit = unit - work.heads;
    const bool is_query = kv_unit < 0, is_value = kv_unit >= work.kv_heads;
    if (!is_query && !stored) continue;
    const int head = is_query ? unit : is_value ? kv_unit - work.kv_heads : kv_unit;
    const RowsOf<const T>& from = is_query ? work.q : is_value ? work.v : work.k;
    const T* in = from[token] + int64_t(head) * head_dim;
    for (int d = lane; d < head_dim; d += 32) vector[d] = is_value ? to_float(in[d]) : turned(in, d, work.turn, sines, cosines);
    __syncwarp();  // in place: all is read before anything is written
    if (is_query) {
      for (int d = lane; d < head_dim; d += 32) work.out[token][int64_t(head) * head_dim + d] = from_float<T>(vector[d]);
    } else {
      char* const side = work.pool.side(block, 2 * head + (is_value ? 1 : 0));
      if (work.pool.dtype == DType::i8) {
        store_codes(work.pool, side, place, vector);
      } else {
        for (int d = lane; d < head_dim; d += 32) store(side, place, head_dim, work.pool.dtype, d, vector[d]);
      }
    }
    __syncwarp();
  }
}

template <class T>
void launch_work(const StepContext& step, int64_t tokens, const Work<T>& work) {
  if (tokens == 0) return;
  const size_t shared = size_t(work.turn.rotary_dim + kWarps * work.head_dim) * sizeof(float);
  launch(rope_kv_write_kernel<T>, dim3(unsigned(tokens)), dim3(kThreads), shared, stream_of(step), work);
}

Turn turn_of(const ops::RopeAttrs& attrs, const TensorView& positions, const TensorView& inv_freq) {
  return {positions.as<int32_t>(), inv_freq.as<float>(), attrs.rotary_dim, attrs.interleaved, attrs.attention_factor};
}

template <class T>
void run_rope_as(const StepContext& step, const NodeArgs& args) {
  const auto& attrs = args.attrs.as<ops::RopeAttrs>();
  Work<T> work{};
  work.q = rows_of<const T>(args.inputs[0].tensor);
  work.out = rows_of<T>(args.outputs[0].tensor);
  work.heads = attrs.heads;
  work.head_dim = attrs.head_dim;
  work.turn = turn_of(attrs, args.inputs[1].tensor, args.inputs[2].tensor);
  launch_work(step, args.inputs[0].tensor.dims[0], work);
}

template <class T>
void run_kv_write_as(const StepContext& step, const NodeArgs& args) {
  const auto& attrs = args.attrs.as<ops::KvWriteAttrs>();
  Work<T> work{};
  work.k = rows_of<const T>(args.inputs[0].tensor);
  work.v = rows_of<const T>(args.inputs[1].tensor);
  work.kv_heads = attrs.kv_heads;
  work.head_dim = attrs.head_dim;
  work.kv_slot = args.inputs[2].tensor.as<int32_t>();
  work.pool = pool_of(args.inputs[3].kv);
  launch_work(step, args.inputs[0].tensor.dims[0], work);
}

template <class T>
void run_both_as(const StepContext& step, const NodeArgs& args) {
  const auto& attrs = args.attrs.as<ops::RopeKvWriteAttrs>();
  Work<T> work{};
  work.q = rows_of<const T>(args.inputs[0].tensor);
  work.k = rows_of<const T>(args.inputs[1].tensor);
  work.v = rows_of<const T>(args.inputs[2].tensor);
  work.out = rows_of<T>(args.outputs[0].tensor);
  work.heads = attrs.rope.heads;
  work.kv_heads = attrs.kv_heads;
  work.head_dim = attrs.rope.head_dim;
  work.turn = turn_of(attrs.rope, args.inputs[3].tensor, args.inputs[4].tensor);
  work.kv_slot = args.inputs[5].tensor.as<int32_t>();
  work.pool = pool_of(args.inputs[6].kv);
  launch_work(step, args.inputs[0].tensor.dims[0], work);
}

void run_rope(const StepContext& step, const NodeArgs& args, Team&) {
  args.inputs[0].tensor.dtype == DType::bf16 ? run_rope_as<__nv_bfloat16>(step, args) : run_rope_as<float>(step, args);
}
void run_kv_write(const StepContext& step, const NodeArgs& args, Team&) {
  args.inputs[0].tensor.dtype == DType::bf16 ? run_kv_write_as<__nv_bfloat16>(step, args) : run_kv_write_as<float>(step, args);
}
void run_both(const StepContext& step, const NodeArgs& args, Team&) {
  args.inputs[0].tensor.dtype == DType::bf16 ? run_both_as<__nv_bfloat16>(step, args) : run_both_as<float>(step, args);
}

constexpr Kernel row(void (*run)(const StepContext&, const NodeArgs&, Team&)) {
  return {.name = "cuda_token", .device = DeviceKind::cuda, .run = run};
}
const PluginKernel kRows[] = {{"rope", row(run_rope)}, {"kv_write", row(run_kv_write)}, {"rope_kv_write", row(run_both)}};

}  // namespace

KernelRows rope_kv_write_rows() { return {kRows, 3}; }

}  // namespace headrace::cuda
