#include "ops/pool.h"

#include <algorithm>
#include <cmath>

#include "ops/input_check.h"

namespace headrace::ops {
namespace {

constexpr PoolingKind kKinds[] = {PoolingKind::mean, PoolingKind::cls, PoolingKind::last, PoolingKind::max,
                                  PoolingKind::mean_sqrt_len};

}  // namespace

std::string_view pooling_name(PoolingKind kind) {
  switch (kind) {
    case PoolingKind::mean:
      return "mean";
    case PoolingKind::cls:
      return "cls";
    case PoolingKind::last:
      return "last";
    case PoolingKind::max:
      return "max";
    case PoolingKind::mean_sqrt_len:
      return "mean_sqrt_len";
  }
  return "?";
}

Result<PoolingKind> parse_pooling(std::string_view name) {
  std::string known;
  for (const PoolingKind kind : kKinds) {
    if (pooling_name(kind) == name) return kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", pooling_name(kind));
  }
  return error(Code::unsupported, "pooling \"{}\" is not known; want one of {}", name.substr(0, 64), known);
}

namespace {

// ---- pool_rows ----------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_pool(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("pool_rows", inputs, {"x", "query_start"});
  check.tensor(0, DType::f32, 2).tensor(1, DType::i32, 1);
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(DType::f32, {inputs[1].shape[0] + -1, inputs[0].shape[1]})});
}

Cost cost_pool(const NodeSizes& sizes) {
  return {.flops = static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

double pool_column(PoolingKind kind, const double* x, int64_t count, int64_t width) {
  if (count == 0) return 0;
  if (kind == PoolingKind::cls) return x[0];
  if (kind == PoolingKind::last) return x[(count - 1) * width];
  double sum = 0, largest = x[0];
  for (int64_t row = 0; row < count; ++row) {
    sum += x[row * width];
    largest = std::max(largest, x[row * width]);
  }
  if (kind == PoolingKind::max) return largest;
  return kind == PoolingKind::mean ? sum / static_cast<double>(count) : sum / std::sqrt(static_cast<double>(count));
}

void reference_pool(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& x = inputs[0].tensor;
  const std::vector<double>& start = inputs[1].tensor.values;
  const int64_t width = x.dims[1];
  for (int64_t s = 0; s < outputs[0].dims[0]; ++s) {
    const auto first = static_cast<int64_t>(start[s]), last = static_cast<int64_t>(start[s + 1]);
    for (int64_t i = 0; i < width; ++i) {
      outputs[0].values[s * width + i] =
          pool_column(attrs.as<PoolRowsAttrs>().kind, x.values.data() + first * width + i, last - first, width);
    }
  }
}

// Sequence `row` alone.
std::vector<HostValue> pool_row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  const HostTensor& x = inputs[0].tensor;
  const std::vector<double>& start = inputs[1].tensor.values;
  const auto first = static_cast<int64_t>(start[row]), last = static_cast<int64_t>(start[row + 1]);
  const int64_t width = x.dims[1];
  std::vector<HostValue> alone(inputs.begin(), inputs.end());
  alone[0].tensor.dims[0] = last - first;
  alone[0].tensor.values.assign(x.values.begin() + first * width, x.values.begin() + last * width);
  alone[1].tensor.dims[0] = 2;
  alone[1].tensor.values = {0, static_cast<double>(last - first)};
  return alone;
}

// Sums of some hundred float32 rows, one after the other.
Tolerance tolerance_pool(std::span<const ValueType>, const Attrs&) {
  return {.absolute = 1e-5, .relative = 3e-6};
}

OpCase pool_case(std::string name, PoolingKind kind, std::vector<double> lengths, int64_t width, bool strided = false) {
  std::vector<double> start = {0};
  for (const double length : lengths) start.push_back(start.back() + length);
  const auto tokens = static_cast<int64_t>(start.back());
  return {.name = std::move(name),
          .attrs = PoolRowsAttrs{kind},
          .inputs = {{.dims = {tokens, width}, .strided = strided},
                     {.dtype = DType::i32, .dims = {static_cast<int64_t>(start.size())}, .values = start}}};
}

std::vector<OpCase> cases_pool() {
  std::vector<OpCase> all;
  for (const PoolingKind kind : kKinds) {
    const std::string name(pooling_name(kind));
    all.push_back(pool_case(name + "_ragged", kind, {3, 1, 0, 40, 2}, 37));
    all.push_back(pool_case(name + "_strided", kind, {5, 300}, 96, true));
  }
  all.push_back(pool_case("one_column", PoolingKind::mean, {4}, 1));
  all.push_back(pool_case("no_sequences", PoolingKind::mean, {}, 8));
  all.push_back(pool_case("minilm_batch", PoolingKind::mean, std::vector<double>(16, 32), 384));
  all.back().bench = true;
  all.back().phase = "prefill";
  return all;
}

// ---- l2_normalize -------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_normalize(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("l2_normalize", inputs, {"x"});
  check.tensor(0, DType::f32, 2);
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}

Cost cost_normalize(const NodeSizes& sizes) {
  return {.flops = 3.0 * static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)),
          .bytes = all_bytes(sizes)};
}

void reference_normalize(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& x = inputs[0].tensor;
  const int64_t width = x.dims[1];
  for (int64_t row = 0; row < x.dims[0]; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += x.values[row * width + i] * x.values[row * width + i];
    const double norm = std::max(std::sqrt(squares), static_cast<double>(kNormFloor));
    for (int64_t i = 0; i < width; ++i) outputs[0].values[row * width + i] = x.values[row * width + i] / norm;
  }
}

Tolerance tolerance_normalize(std::span<const ValueType>, const Attrs&) {
  return {.absolute = 1e-7, .relative = 2e-6};
}

std::vector<OpCase> cases_normalize() {
  const L2NormalizeAttrs attrs;
  const auto x = [](int64_t count, int64_t width, double scale = 1.0, bool strided = false) {
    return std::vector<CaseInput>{{.dims = {count, width}, .scale = scale, .strided = strided}};
  };
  std::vector<CaseInput> zeros = x(2, 20);
  zeros[0].values.assign(40, 0.0);
  return {
      {.name = "one_column", .attrs = attrs, .inputs = x(3, 1)},
      {.name = "odd_width", .attrs = attrs, .inputs = x(5, 37, 1e3)},
      {.name = "zeros_stay", .attrs = attrs, .inputs = std::move(zeros)},
      {.name = "below_the_floor", .attrs = attrs, .inputs = x(2, 33, 1e-15)},
      {.name = "strided", .attrs = attrs, .inputs = x(4, 130, 1.0, true)},
      {.name = "empty", .attrs = attrs, .inputs = x(0, 96)},
      {.name = "minilm_batch", .attrs = attrs, .inputs = x(16, 384), .bench = true, .phase = "prefill"},
  };
}

}  // namespace

const Op pool_rows{
    .name = "pool_rows",
    .infer = infer_pool,
    .cost = cost_pool,
    .reference = reference_pool,
    .tolerance = tolerance_pool,
    .cases = cases_pool,
    .row_alone = pool_row_alone,
};

const Op l2_normalize{
    .name = "l2_normalize",
    .infer = infer_normalize,
    .cost = cost_normalize,
    .reference = reference_normalize,
    .in_place = {{0, 0}},
    .tolerance = tolerance_normalize,
    .cases = cases_normalize,
};

}  // namespace headrace::ops
