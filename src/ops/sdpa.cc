#include "ops/sdpa.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/input_check.h"

namespace headrace::ops {
namespace {

Result<std::vector<ValueType>> infer_sdpa(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& a = attrs.as<SdpaAttrs>();
  std::vector<std::string_view> names = {"q", "k", "v"};
  if (a.mask) names.push_back("mask");
  InputCheck check("sdpa", inputs, names);
  check.tensor(0, DType::f32, 3).tensor(1, DType::f32, 3).tensor(2, DType::f32, 3);
  if (a.mask) check.tensor(3, DType::f32, 4);
  check.constant_dims();
  check.require(a.heads >= 1 && a.kv_heads >= 1 && a.heads % a.kv_heads == 0, "heads must be above 0 and a multiple of kv_heads");
  if (!check.ok()) return check.outputs({});
  const Shape& q = inputs[0].shape;
  const Shape& k = inputs[1].shape;
  const Shape& v = inputs[2].shape;
  check.same_dim(1, 0, 0, 0).same_dim(2, 0, 0, 0).same_dim(2, 1, 1, 1);
  check.require(q[2].constant() % a.heads == 0, "q: the last axis must be whole heads");
  check.require(v[2].constant() % a.kv_heads == 0, "v: the last axis must be whole heads");
  if (!check.ok()) return check.outputs({});
  check.dim(1, 2, Dim(q[2].constant() / a.heads * a.kv_heads));
  if (a.mask) {
    const Dim wanted[] = {q[0], Dim(a.heads), q[1], k[1]};
    for (int axis = 0; axis < 4; ++axis) {
      if (!(inputs[3].shape[axis] == Dim(1))) check.dim(3, axis, wanted[axis]);
    }
  }
  return check.outputs({ValueType::tensor(DType::f32, {q[0], q[1], Dim(v[2].constant() / a.kv_heads * a.heads)})});
}

// Two products over all keys, and some 20 operations a score for its exponential.
Cost cost_sdpa(const NodeSizes& sizes) {
  const auto& a = sizes.attrs.as<SdpaAttrs>();
  const double queries = static_cast<double>(sizes.inputs[0].shape[0].constant() * sizes.inputs[0].shape[1].constant());
  const double keys = static_cast<double>(sizes.inputs[1].shape[1].constant());
  const double width = static_cast<double>(sizes.inputs[0].shape[2].constant() + sizes.outputs[0].shape[2].constant());
  return {.flops = queries * keys * (2 * width + 20.0 * a.heads), .bytes = all_bytes(sizes)};
}

void reference_sdpa(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& a = attrs.as<SdpaAttrs>();
  const HostTensor& q = inputs[0].tensor;
  const HostTensor& k = inputs[1].tensor;
  const HostTensor& v = inputs[2].tensor;
  HostTensor& out = outputs[0];
  const int64_t queries = q.dims[1], keys = k.dims[1], dim = q.dims[2] / a.heads, value_dim = v.dims[2] / a.kv_heads;
  std::vector<double> weight(keys);
  for (int64_t row = 0; row < q.dims[0] * queries * a.heads; ++row) {
    const int64_t h = row % a.heads, s = row / a.heads % queries, b = row / a.heads / queries;
    const int64_t kv_head = h * a.kv_heads / a.heads;
    double peak = -std::numeric_limits<double>::infinity();
    for (int64_t t = 0; t < keys; ++t) {
      double dot = 0;
      for (int64_t d = 0; d < dim; ++d) {
        dot += q.values[(b * queries + s) * q.dims[2] + h * dim + d] * k.values[(b * keys + t) * k.dims[2] + kv_head * dim + d];
      }
      weight[t] = static_cast<double>(a.scale) * dot;
      if (a.mask) {
        const HostTensor& mask = inputs[3].tensor;
        const auto at = [&](int axis, int64_t index) { return mask.dims[axis] == 1 ? 0 : index; };
        weight[t] += mask.values[((at(0, b) * mask.dims[1] + at(1, h)) * mask.dims[2] + at(2, s)) * mask.dims[3] + at(3, t)];
      }
      if (a.causal && t > s + (keys - queries)) weight[t] = -std::numeric_limits<double>::infinity();
      peak = std::max(peak, weight[t]);
    }
    double total = 0;
    for (double& w : weight) total += w = std::exp(w - peak);
    for (int64_t d = 0; d < value_dim; ++d) {
      double sum = 0;
      for (int64_t t = 0; t < keys; ++t) sum += weight[t] * v.values[(b * keys + t) * v.dims[2] + kv_head * value_dim + d];
      out.values[(b * queries + s) * out.dims[2] + h * value_dim + d] = keys == 0 ? 0.0 : sum / total;
    }
  }
}

// A score's error grows as sqrt(head_dim); a weight's is its score's.
Tolerance tolerance_sdpa(std::span<const ValueType> inputs, const Attrs& attrs) {
  const double dim = static_cast<double>(inputs[0].shape[2].constant() / attrs.as<SdpaAttrs>().heads);
  return {2e-6 * std::sqrt(dim) + 2e-6, 1e-5};
}

struct Size {
  std::string name;
  int64_t batch, queries, keys, dim, value_dim;
  SdpaAttrs attrs;
  std::vector<int64_t> mask = {};
  bool strided = false;
  bool bench = false;
};

// Masks hide about a third of the keys with -inf, never all; -1e30 and small numbers are in them too.
std::vector<double> mask_values(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = i % dims[3];
    const int64_t kind = (i * 7 + i / dims[3]) % 6;
    const double hidden = kind == 2 ? -1e30 : -std::numeric_limits<double>::infinity();
    values[i] = t == 0 ? 0.25 : kind <= 2 ? hidden : 0.125 * static_cast<double>(kind);
  }
  return values;
}

OpCase make_case(const Size& size) {
  SdpaAttrs attrs = size.attrs;
  attrs.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size.dim)));
  attrs.mask = !size.mask.empty();
  OpCase one{.name = size.name,
             .attrs = attrs,
             .inputs = {{.dims = {size.batch, size.queries, attrs.heads * size.dim}, .strided = size.strided},
                        {.dims = {size.batch, size.keys, attrs.kv_heads * size.dim}, .strided = size.strided},
                        {.dims = {size.batch, size.keys, attrs.kv_heads * size.value_dim}, .strided = size.strided}},
             .bench = size.bench};
  if (attrs.mask) one.inputs.push_back({.dims = size.mask, .values = mask_values(size.mask)});
  return one;
}

std::vector<OpCase> cases_sdpa() {
  const SdpaAttrs two{.heads = 2, .kv_heads = 2}, grouped{.heads = 6, .kv_heads = 2};
  const SdpaAttrs causal{.heads = 2, .kv_heads = 2, .causal = true};
  const SdpaAttrs twelve{.heads = 12, .kv_heads = 12};
  const Size sizes[] = {
      {"one_element", 1, 1, 1, 1, 1, {}},
      {"empty_batch", 0, 3, 4, 8, 8, two},
      {"no_queries", 1, 0, 4, 8, 8, two},
      {"no_keys", 1, 3, 0, 8, 8, two},
      {"odd", 2, 7, 19, 20, 20, two},
      {"odd_dim", 1, 5, 33, 13, 13, two},
      {"value_dim", 2, 9, 21, 16, 40, two},
      {"small_value_dim", 2, 9, 21, 40, 5, two},
      {"grouped", 2, 18, 40, 32, 32, grouped},
      {"long", 1, 70, 300, 64, 64, two},
      {"many_keys", 1, 3, 1100, 32, 32, two},
      {"strided", 2, 9, 40, 24, 24, two, {}, true},
      {"causal", 2, 40, 40, 16, 16, causal},
      {"causal_with_past", 1, 30, 75, 16, 16, causal},
      {"causal_sees_nothing", 1, 8, 5, 16, 16, causal},
      {"mask_of_keys", 2, 9, 40, 16, 16, two, {2, 1, 1, 40}},
      {"mask_full", 2, 9, 40, 16, 16, two, {2, 2, 9, 40}},
      {"mask_of_queries_and_keys", 2, 17, 35, 16, 16, two, {1, 1, 17, 35}},
      {"mask_of_heads", 2, 9, 40, 16, 16, two, {1, 2, 9, 40}},
      {"mask_of_queries", 2, 9, 40, 16, 16, two, {1, 1, 9, 1}},
      {"mask_causal", 1, 20, 30, 16, 16, causal, {1, 2, 20, 30}},
      {"mask_causal_of_keys", 1, 20, 20, 16, 16, causal, {1, 1, 1, 20}},
      {"bert_base_128", 1, 128, 128, 64, 64, twelve, {1, 1, 1, 128}, false, true},
      {"bert_base_128_b8", 8, 128, 128, 64, 64, twelve, {8, 1, 1, 128}, false, true},
      {"bert_base_512", 1, 512, 512, 64, 64, twelve, {}, false, true},
      {"minilm_128_b8", 8, 128, 128, 32, 32, twelve, {8, 1, 1, 128}, false, true},
  };
  std::vector<OpCase> cases;
  for (const Size& size : sizes) cases.push_back(make_case(size));
  // A row that sees nothing is NaN, its neighbours are not.
  OpCase nothing = make_case({"mask_hides_all_of_a_row", 1, 3, 20, 8, 8, two, {1, 1, 3, 20}});
  for (int t = 0; t < 20; ++t) nothing.inputs[3].values[20 + t] = -std::numeric_limits<double>::infinity();
  cases.push_back(nothing);
  return cases;
}

}  // namespace

std::string SdpaAttrs::describe() const {
  std::string text = fmt::format("heads={} scale={:g}", heads, scale);
  if (kv_heads != heads) text += fmt::format(" kv_heads={}", kv_heads);
  if (causal) text += " causal";
  if (mask) text += " mask";
  return text;
}

const Op sdpa{
    .name = "sdpa",
    .infer = infer_sdpa,
    .cost = cost_sdpa,
    .reference = reference_sdpa,
    .tolerance = tolerance_sdpa,
    .cases = cases_sdpa,
};

}  // namespace headrace::ops
