// Suite `rope_attention`: rotary tables through make_rope_table; attention through every kernel of this
// machine, over a paged cache; positions of left-padded batches as the step plan counts them.
#include <fmt/core.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/attention.h"
#include "ops/op_table.h"
#include "ops/rope.h"
#include "testing/case_suite.h"
#include "testing/op_case_data.h"

namespace headrace::testing {
namespace {

using nlohmann::json;

// ---- rope_table ---------------------------------------------------------------------------------

ops::RopeParameters rope_parameters(const json& rope) {
  ops::RopeParameters p;
  p.rope_type = rope.value("rope_type", rope.value("type", std::string("default")));
  const auto number = [&](const char* name, double& field) { field = rope.value(name, field); };
  number("rope_theta", p.rope_theta);
  number("factor", p.factor);
  number("partial_rotary_factor", p.partial_rotary_factor);
  number("low_freq_factor", p.low_freq_factor);
  number("high_freq_factor", p.high_freq_factor);
  number("beta_fast", p.beta_fast);
  number("beta_slow", p.beta_slow);
  number("attention_factor", p.attention_factor);
  number("mscale", p.mscale);
  number("mscale_all_dim", p.mscale_all_dim);
  p.original_max_position_embeddings = rope.value("original_max_position_embeddings", int64_t{0});
  p.truncate = rope.value("truncate", true);
  p.short_factor = rope.value("short_factor", std::vector<double>());
  p.long_factor = rope.value("long_factor", std::vector<double>());
  return p;
}

bool close(double got, double want, double relative) {
  return std::fabs(got - want) <= relative * std::fabs(want);
}

CaseResult check_table(const json& in, const json& expected) {
  const int64_t seq_len = in.at("seq_len").is_null() ? 0 : in.at("seq_len").get<int64_t>();
  const auto table = ops::make_rope_table(rope_parameters(in.at("rope")), in.at("head_dim"),
                                          in.at("max_position_embeddings"), seq_len);
  if (!table) return CaseResult::fail(table.error().to_string());
  const auto want = expected.at("inv_freq").get<std::vector<double>>();
  if (table->inv_freq.size() != want.size()) {
    return CaseResult::fail(fmt::format("want {} frequencies, got {}", want.size(), table->inv_freq.size()));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (!close(table->inv_freq[i], want[i], 1e-5))
      return CaseResult::fail(fmt::format("inv_freq[{}]: want {}, got {}", i, want[i], table->inv_freq[i]));
  }
  const double factor = expected.at("attention_factor");
  if (close(table->attention_factor, factor, 1e-5)) return CaseResult::pass();
  return CaseResult::fail(fmt::format("attention_factor: want {}, got {}", factor, table->attention_factor));
}

// ---- attention ----------------------------------------------------------------------------------

struct Heads {
  int64_t heads, rows, dim;
  std::vector<double> values;  // [heads][rows][dim]
};

Heads read_heads(const json& array) {
  Heads out{static_cast<int64_t>(array.size()),
            static_cast<int64_t>(array.at(0).size()),
            static_cast<int64_t>(array.at(0).at(0).size()),
            {}};
  for (const json& head : array) {
    for (const json& row : head) {
      for (const json& value : row) out.values.push_back(value);
    }
  }
  return out;
}

// A cache of float32 that holds the keys and values in blocks 1, 2, ...
std::shared_ptr<HostKv> make_cache(const Heads& k, const Heads& v) {
  auto kv = std::make_shared<HostKv>();
  kv->spec = {
      .heads = static_cast<int32_t>(k.heads), .head_dim = static_cast<int32_t>(k.dim), .dtype = DType::f32};
  kv->num_blocks = 1 + (k.rows + kKvBlockTokens - 1) / kKvBlockTokens;
  kv->keys.assign(static_cast<size_t>(kv->num_blocks * k.heads * kKvBlockTokens * k.dim), std::nan(""));
  kv->values = kv->keys;
  for (int64_t head = 0; head < k.heads; ++head) {
    for (int64_t j = 0; j < k.rows; ++j) {
      const int64_t to =
          (((1 + j / kKvBlockTokens) * k.heads + head) * kKvBlockTokens + j % kKvBlockTokens) * k.dim;
      for (int64_t d = 0; d < k.dim; ++d) {
        kv->keys[to + d] = k.values[(head * k.rows + j) * k.dim + d];
        kv->values[to + d] = v.values[(head * k.rows + j) * k.dim + d];
      }
    }
  }
  return kv;
}

CaseResult check_attention(const json& in, const json& expected) {
  const Heads q = read_heads(in.at("q"));
  const Heads k = read_heads(in.at("k"));
  const ops::AttentionAttrs attrs{.heads = static_cast<int32_t>(q.heads),
                                  .kv_heads = static_cast<int32_t>(k.heads),
                                  .head_dim = static_cast<int32_t>(q.dim),
                                  .scale = in.at("scale"),
                                  .window = in.value("window", 0),
                                  .softcap = in.value("softcap", 0.0f),
                                  .sinks = in.value("sinks", std::vector<float>())};
  std::vector<HostValue> inputs(5);
  inputs[1].kv = make_cache(k, read_heads(in.at("v")));
  const HostKv& kv = *inputs[1].kv;
  inputs[0].tensor = {DType::f32, {q.rows, q.heads * q.dim}, {}};
  for (int64_t row = 0; row < q.rows; ++row) {
    for (int64_t i = 0; i < q.heads * q.dim; ++i) {
      inputs[0].tensor.values.push_back(q.values[(i / q.dim * q.rows + row) * q.dim + i % q.dim]);
    }
  }
  inputs[2].tensor = {DType::i32, {2}, {0, static_cast<double>(q.rows)}};
  inputs[3].tensor = {DType::i32, {1}, {static_cast<double>(k.rows)}};
  inputs[4].tensor = {DType::i32, {1, kv.num_blocks - 1}, {}};
  for (int64_t block = 1; block < kv.num_blocks; ++block)
    inputs[4].tensor.values.push_back(static_cast<double>(block));

  OpCase declared{.name = "suite", .attrs = attrs};
  declared.inputs = {{.dims = inputs[0].tensor.dims},
                     {.kind = ValueType::Kind::kv, .dims = {kv.num_blocks}, .kv = kv.spec},
                     {.dtype = DType::i32, .dims = {2}},
                     {.dtype = DType::i32, .dims = {1}},
                     {.dtype = DType::i32, .dims = inputs[4].tensor.dims}};
  const Result<CaseData> data = make_case_data(ops::attention, declared);
  if (!data) return CaseResult::fail(data.error().to_string());
  const Result<std::vector<HostTensor>> outputs = output_tensors(*data, inputs);
  if (!outputs) return CaseResult::fail(outputs.error().to_string());
  const Heads want = read_heads(expected.at("out"));
  for (const Kernel* kernel : kernels_of(ops::attention)) {
    if (kernel->device != DeviceKind::cpu || kernel->isa > detect_isa()) continue;
    const KernelMemory memory(*data, *kernel, inputs, *outputs, {});
    TeamState state(1);
    Team team(state, 0);
    kernel->run({}, memory.args(), team);
    const HostTensor got = memory.output(0);
    for (int64_t i = 0; i < static_cast<int64_t>(want.values.size()); ++i) {
      const int64_t head = i / (q.rows * q.dim);
      const int64_t row = i / q.dim % q.rows;
      const double value = got.values[(row * q.heads + head) * q.dim + i % q.dim];
      if (std::fabs(value - want.values[i]) <= 1e-5) continue;
      return CaseResult::fail(fmt::format("kernel {}: out[{}][{}][{}]: want {}, got {}", kernel->name, head,
                                          row, i % q.dim, want.values[i], value));
    }
  }
  return CaseResult::pass();
}

// ---- left_pad_positions -------------------------------------------------------------------------

// Headrace's batches are ragged: padding is dropped, and a sequence's tokens stand at 0, 1, 2, ... from its
// first.
CaseResult check_positions(const json& in, const json& expected) {
  json got = json::array();
  for (const json& mask : in.at("mask")) {
    json positions = json::array();
    for (const json& bit : mask) {
      if (bit == 1) positions.push_back(positions.size());
    }
    got.push_back(positions);
  }
  if (got == expected.at("positions")) return CaseResult::pass();
  return CaseResult::fail(fmt::format("want {}, got {}", expected.at("positions").dump(), got.dump()));
}

}  // namespace

CaseResult run_rope_attention(const CaseContext& context) {
  const std::string op = context.input.at("op");
  if (op == "rope_table") return check_table(context.input, context.expected);
  if (op == "attention") return check_attention(context.input, context.expected);
  if (op == "left_pad_positions") return check_positions(context.input, context.expected);
  return CaseResult::not_covered("unknown op " + op);
}

}  // namespace headrace::testing
