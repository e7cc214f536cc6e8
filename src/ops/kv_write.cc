#include <algorithm>
#include <cmath>
#include <limits>

#include "core/half.h"
#include "ops/attention.h"
#include "ops/input_check.h"

namespace headrace::ops {

std::string KvWriteAttrs::describe() const {
  return fmt::format("kv_heads={} head_dim={}", kv_heads, head_dim);
}

namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& write = attrs.as<KvWriteAttrs>();
  const int64_t width = int64_t{write.kv_heads} * write.head_dim;
  InputCheck check("kv_write", inputs, {"k", "v", "kv_slot", "kv"});
  check.require(write.kv_heads > 0 && write.head_dim > 0, "kv_heads and head_dim must be positive");
  check.activations(0, 2).dim(0, 1, width);
  check.activations(1, 2).dim(1, 1, width).same_dim(1, 0, 0, 0);
  check.tensor(2, DType::i32, 1).same_dim(2, 0, 0, 0).kv(3);
  check.require(inputs.size() < 2 || inputs[0].dtype == inputs[1].dtype, "k and v must have one dtype");
  if (!check.ok()) return check.outputs({});
  const KvSpec& spec = inputs[3].kv;
  check.require(is_kv_dtype(spec.dtype), "the pool must hold f32, f16, bf16 or i8");
  check.require(spec.heads == write.kv_heads && spec.head_dim == write.head_dim,
                fmt::format("the pool has {} heads of {}, want {} of {}", spec.heads, spec.head_dim,
                            write.kv_heads, write.head_dim));
  return check.outputs({});
}

Cost cost(const NodeSizes& sizes) {
  const double tokens = static_cast<double>(sizes.inputs[0].shape[0].eval(sizes.bindings));
  return {.flops = 0, .bytes = all_bytes(sizes) + tokens * static_cast<double>(sizes.inputs[3].kv.token_bytes())};
}

double rounded(DType dtype, double value) {
  if (dtype == DType::f16) return to_float(to_f16(static_cast<float>(value)));
  if (dtype == DType::bf16) return to_float(to_bf16(static_cast<float>(value)));
  return value;
}

// What a pool gives back of one head's vector.
void store_and_load(DType dtype, const double* x, int64_t count, double* out) {
  if (dtype != DType::i8) {
    for (int64_t i = 0; i < count; ++i) out[i] = rounded(dtype, x[i]);
    return;
  }
  float peak = 0;
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(x[i]);
    peak = std::max(peak, std::fabs(static_cast<float>(x[i])));
  }
  const bool zero = peak < kKvFloor;
  const float inverse = zero ? 0.0f : 127.0f / peak;
  const float scale = zero ? 0.0f : peak / 127.0f;
  for (int64_t i = 0; i < count; ++i) {
    const double code = std::nearbyint(static_cast<float>(x[i]) * inverse);
    out[i] = finite ? code * scale : std::numeric_limits<double>::quiet_NaN();
  }
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor>) {
  const auto& write = attrs.as<KvWriteAttrs>();
  HostKv& kv = *inputs[3].kv;
  for (int64_t t = 0; t < inputs[0].tensor.dims[0]; ++t) {
    const auto slot = static_cast<int64_t>(inputs[2].tensor.values[t]);
    if (slot < 0 || slot >= kv.num_blocks * kKvBlockTokens) continue;
    for (int64_t h = 0; h < write.kv_heads; ++h) {
      const int64_t from = (t * write.kv_heads + h) * write.head_dim;
      const int64_t to =
          ((slot / kKvBlockTokens * write.kv_heads + h) * kKvBlockTokens + slot % kKvBlockTokens) *
          write.head_dim;
      store_and_load(kv.spec.dtype, &inputs[0].tensor.values[from], write.head_dim, &kv.keys[to]);
      store_and_load(kv.spec.dtype, &inputs[1].tensor.values[from], write.head_dim, &kv.values[to]);
    }
  }
}

// Rounding to the pool's dtype is what this op does, so that results are compared exactly.
Tolerance tolerance(std::span<const ValueType>, const Attrs&) {
  return {0, 0};
}

OpCase make(std::string name, DType dtype, int heads, int head_dim, std::vector<double> slots, int64_t blocks,
            bool strided = false, DType input = DType::f32) {
  const auto tokens = static_cast<int64_t>(slots.size());
  const int64_t width = int64_t{heads} * head_dim;
  return {.name = std::move(name),
          .attrs = KvWriteAttrs{heads, head_dim},
          .inputs = {{.dtype = input, .dims = {tokens, width}, .strided = strided},
                     {.dtype = input, .dims = {tokens, width}, .strided = strided},
                     {.dtype = DType::i32, .dims = {tokens}, .values = std::move(slots)},
                     {.kind = ValueType::Kind::kv,
                      .dims = {blocks},
                      .kv = {.heads = heads, .head_dim = head_dim, .dtype = dtype}}}};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    const std::string name(dtype_name(dtype));
    all.push_back(make(name + "_scattered", dtype, 2, 20, {17, 70, 33, 16, 79}, 5));
    all.push_back(make(name + "_strided", dtype, 3, 64, {40, 41, 42, 43, 44, 45, 46, 47, 48, 49}, 4, true));
  }
  for (const DType dtype : {DType::bf16, DType::f16, DType::i8}) {
    all.push_back(make(fmt::format("bf16_to_{}", dtype_name(dtype)), dtype, 2, 128, {17, 70, 33, 16, 79}, 5, true, DType::bf16));
  }
  // Values that round to subnormals, to infinity and to even in half precision.
  OpCase edges = make("f16_edges", DType::f16, 1, 12, {20}, 2);
  edges.inputs[0].values = {6e-8,  3e-8,  2.9e-8, -1e-7, 6.1e-5,        6.0e-5,
                            65504, 65519, 65520,  -1e9,  1.00048828125, 1.00146484375};
  all.push_back(std::move(edges));
  // Of vectors of five: ties, zeros of both signs, below and at the floor, the largest and smallest floats, NaN, infinities.
  OpCase codes = make("i8_edges", DType::i8, 9, 5, {20}, 2);
  const double infinity = std::numeric_limits<double>::infinity();
  const double largest = std::numeric_limits<float>::max();
  codes.inputs[0].values = {127, 0.5, 1.5, -0.5, -2.5, 0, -0.0, 0, 0, -0.0, 0x1p-101, -0x1p-120, 0, 0x1p-140, 0,
                            0x1p-100, -0x1p-100, 0x1p-101, 0, 0x1p-107, largest, -largest, 1, 0, largest / 2,
                            1, std::nan(""), 2, 3, 4, 1, 2, infinity, 3, 4, -infinity, infinity, 0, std::nan(""), 0,
                            -1, 1e-3, 2e-2, -0.4999, 0.9999};
  codes.inputs[1].values = codes.inputs[0].values;
  std::reverse(codes.inputs[1].values.begin(), codes.inputs[1].values.end());
  all.push_back(std::move(codes));
  all.push_back(make("i8_outside_the_pool", DType::i8, 2, 16, {-1, 1 << 20, 18}, 3));
  all.push_back(make("outside_the_pool", DType::f16, 2, 16, {-1, 1 << 20, 18}, 3));
  all.push_back(make("none", DType::f16, 2, 16, {}, 3));
  std::vector<double> slots;
  for (int i = 0; i < 512; ++i) slots.push_back(16 + i);
  for (const DType dtype : {DType::f16, DType::i8}) {
    const std::string name = dtype == DType::f16 ? "smollm2_" : "smollm2_i8_";
    OpCase decode = make(name + "decode", dtype, 3, 64, {600}, 64);
    decode.bench = true;
    decode.phase = "decode";
    all.push_back(std::move(decode));
    OpCase prefill = make(name + "prefill", dtype, 3, 64, slots, 40);
    prefill.bench = true;
    prefill.phase = "prefill";
    all.push_back(std::move(prefill));
  }
  return all;
}

}  // namespace

const Op kv_write{
    .name = "kv_write",
    .effects = {.writes_state = true},
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = tolerance,
    .cases = cases,
};

}  // namespace headrace::ops
