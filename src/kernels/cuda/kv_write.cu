// kv_write. A warp takes one head's vector of one side of a token; bound by memory: each number is read
// once and written once.
#include "kernels/cuda/kv_write.h"

#include "kernels/cuda/kv_store.cuh"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kVecElements = 4;

template <class X, class T, int kVec>
__global__ void __launch_bounds__(kThreads)
    kv_write_kernel(RowsOf<const X> k, RowsOf<const X> v, const int32_t* slots, int64_t vectors, KvPool pool) {
  begin_step_kernel();
  const int64_t vector = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (vector >= vectors) return;
  const bool is_value = vector % 2 != 0;
  const int head = int(vector / 2 % pool.heads);
  const int64_t token = vector / 2 / pool.heads;
  const KvPlace to = place_of(pool, slots[token]);
  if (!to.inside) return;
  const X* from = (is_value ? v : k)[token] + head * pool.head_dim;
  store_vector<T, kVec>(pool, to.block, head, is_value, to.place, [&](int d, float(&values)[kVec]) {
    const Pack<X, kVec> pack = load_pack<kVec>(from + d);
    for (int i = 0; i < kVec; ++i) values[i] = to_float(pack.values[i]);
  });
}

template <class X, class T>
void launch_kv_write(const StepContext& step, const NodeArgs& args) {
  const TensorView& k = args.inputs[0].tensor;
  const TensorView& v = args.inputs[1].tensor;
  const KvPool pool = pool_of(args.inputs[3].kv);
  const int64_t vectors = 2 * k.dims[0] * pool.heads;
  const bool packs = packs_of(kVecElements, k, pool.head_dim) && packs_of(kVecElements, v, pool.head_dim);
  launch(packs ? kv_write_kernel<X, T, kVecElements> : kv_write_kernel<X, T, 1>, unsigned((vectors + kWarps - 1) / kWarps), kThreads, 0,
         stream_of(step), rows_of<const X>(k), rows_of<const X>(v), args.inputs[2].tensor.as<int32_t>(), vectors, pool);
}

void run_kv_write(const StepContext& step, const NodeArgs& args, Team&) {
  if (args.inputs[0].tensor.dims[0] == 0) return;
  dispatch_float(args.inputs[0].tensor.dtype, [&]<class X>() {
    dispatch_pool(args.inputs[3].kv.spec.dtype, [&]<class T>() { launch_kv_write<X, T>(step, args); });
  });
}

bool floats_of_one_type(std::span<const ValueType> inputs, std::span<const ValueType>, const Attrs&) {
  return is_activation(inputs[0].dtype) && inputs[1].dtype == inputs[0].dtype;
}

const PluginKernel kRows[] = {
    {"kv_write", {.name = "cuda_warp", .device = DeviceKind::cuda, .supports = floats_of_one_type, .run = run_kv_write}},
};

}  // namespace

KernelRows kv_write_rows() { return {kRows, 1}; }

}  // namespace headrace::cuda
