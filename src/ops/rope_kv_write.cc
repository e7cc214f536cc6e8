#include "ops/rope_kv_write.h"

#include <cmath>

#include "ops/attention.h"
#include "ops/input_check.h"

namespace headrace::ops {

std::string RopeKvWriteAttrs::describe() const { return fmt::format("{} kv_heads={}", rope.describe(), kv_heads); }

namespace {

// What rope and kv_write see of the inputs.
RopeAttrs key_rope(const RopeKvWriteAttrs& a) {
  RopeAttrs attrs = a.rope;
  attrs.heads = a.kv_heads;
  return attrs;
}
KvWriteAttrs write_attrs(const RopeKvWriteAttrs& a) { return {a.kv_heads, a.rope.head_dim}; }

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& a = attrs.as<RopeKvWriteAttrs>();
  InputCheck check("rope_kv_write", inputs, {"q", "k", "v", "positions", "inv_freq", "kv_slot", "kv"});
  check.activations(0, 2).activations(1, 2).same_dim(1, 0, 0, 0);
  check.require(!check.ok() || inputs[0].dtype == inputs[1].dtype, "q and k must have one dtype");
  if (!check.ok()) return check.outputs({});
  if (auto part = rope.infer(std::vector{inputs[0], inputs[3], inputs[4]}, a.rope); !part) return part;
  if (auto part = rope.infer(std::vector{inputs[1], inputs[3], inputs[4]}, key_rope(a)); !part) return part;
  if (auto part = kv_write.infer(std::vector{inputs[1], inputs[2], inputs[5], inputs[6]}, write_attrs(a)); !part) return part;
  return std::vector{inputs[0]};
}

Cost cost(const NodeSizes& sizes) {
  const auto& a = sizes.attrs.as<RopeKvWriteAttrs>();
  const double tokens = static_cast<double>(sizes.inputs[0].shape[0].eval(sizes.bindings));
  const double pairs = a.rope.rotary_dim / 2;
  return {.flops = tokens * pairs * (6.0 * (a.rope.heads + a.kv_heads) + 40.0),
          .bytes = all_bytes(sizes) + tokens * static_cast<double>(sizes.inputs[6].kv.token_bytes())};
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& a = attrs.as<RopeKvWriteAttrs>();
  rope.reference(a.rope, std::vector{inputs[0], inputs[3], inputs[4]}, outputs);
  HostValue key = inputs[1];
  rope.reference(key_rope(a), std::vector{inputs[1], inputs[3], inputs[4]}, {&key.tensor, 1});
  kv_write.reference(write_attrs(a), std::vector{key, inputs[2], inputs[5], inputs[6]}, {});
}

Tolerance tolerance(std::span<const ValueType> inputs, const Attrs&) {
  // What the pool holds is compared like the output: rotated in float32, it may fall to the other side of a rounding.
  const DType pool = inputs[6].kv.dtype;
  Tolerance tolerance = rounded_to(inputs[0].dtype, {.absolute = 2e-6, .relative = 1e-6});
  if (pool == DType::f16) tolerance.relative = std::max(tolerance.relative, 0x1p-10);
  if (pool == DType::bf16) tolerance.relative = std::max(tolerance.relative, 0x1p-7);
  if (pool == DType::i8) tolerance.absolute = 0.05;  // a code, of peaks of some 5
  return tolerance;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const auto add = [&](std::string name, RopeKvWriteAttrs attrs, DType activation, DType pool, std::vector<double> positions,
                       std::vector<double> slots) {
    const auto tokens = static_cast<int64_t>(slots.size());
    const int64_t dim = attrs.rope.head_dim;
    CaseInput table{.dims = {attrs.rope.rotary_dim / 2}};
    for (int i = 0; i < attrs.rope.rotary_dim; i += 2) table.values.push_back(std::pow(10000.0, -double(i) / attrs.rope.rotary_dim));
    all.push_back({.name = std::move(name),
                   .attrs = attrs,
                   .inputs = {{.dtype = activation, .dims = {tokens, attrs.rope.heads * dim}, .strided = true},
                              {.dtype = activation, .dims = {tokens, attrs.kv_heads * dim}, .strided = true},
                              {.dtype = activation, .dims = {tokens, attrs.kv_heads * dim}, .strided = true},
                              {.dtype = DType::i32, .dims = {tokens}, .values = std::move(positions)},
                              std::move(table),
                              {.dtype = DType::i32, .dims = {tokens}, .values = std::move(slots)},
                              {.kind = ValueType::Kind::kv,
                               .dims = {5},
                               .kv = {.heads = attrs.kv_heads, .head_dim = attrs.rope.head_dim, .dtype = pool}}}});
  };
  const auto shape = [](int32_t heads, int32_t kv_heads, int32_t head_dim) {
    return RopeKvWriteAttrs{{.heads = heads, .head_dim = head_dim, .rotary_dim = head_dim}, kv_heads};
  };
  const std::vector<double> positions = {0, 7, 300, 8191, 5}, slots = {17, 70, 33, 16, 79};
  for (const DType activation : {DType::f32, DType::bf16}) {
    for (const DType pool : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
      add(fmt::format("{}_to_{}", dtype_name(activation), dtype_name(pool)), shape(8, 2, 64), activation, pool, positions, slots);
    }
    add(fmt::format("{}_wide", dtype_name(activation)), shape(32, 8, 128), activation, DType::bf16, positions, slots);
  }
  RopeKvWriteAttrs partial = shape(3, 1, 80);
  partial.rope.rotary_dim = 32;
  add("partial", partial, DType::f32, DType::f16, positions, slots);
  partial.rope.interleaved = true;
  partial.rope.attention_factor = 1.1386f;
  add("interleaved_partial", partial, DType::bf16, DType::bf16, positions, slots);
  add("outside_the_pool", shape(2, 1, 16), DType::f32, DType::f16, {1, 2, 3}, {-1, 1 << 20, 18});
  add("none", shape(2, 1, 16), DType::f32, DType::f16, {}, {});
  return all;
}

std::vector<HostValue> row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  return slice_rows(inputs, {0, 1, 2, 3, 5}, row);
}

}  // namespace

const Op rope_kv_write{
    .name = "rope_kv_write",
    .effects = {.writes_state = true},
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .in_place = {{0, 0}},
    .tolerance = tolerance,
    .cases = cases,
    .row_alone = row_alone,
};

}  // namespace headrace::ops
