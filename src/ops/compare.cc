#include "ops/compare.h"

#include <algorithm>
#include <limits>

#include "ops/input_check.h"
#include "ops/shapes.h"

namespace headrace::ops {

std::string_view compare_name(CompareKind kind) {
  switch (kind) {
    case CompareKind::equal: return "equal";
    case CompareKind::not_equal: return "not_equal";
    case CompareKind::less: return "less";
    case CompareKind::less_or_equal: return "less_or_equal";
    case CompareKind::both: return "both";
    case CompareKind::either: return "either";
  }
  return "?";
}

namespace {

constexpr DType kNumbers[] = {DType::f32, DType::f64, DType::i8, DType::u8, DType::i32, DType::i64};

bool takes(CompareKind kind, DType dtype) {
  const bool is_number = std::ranges::find(kNumbers, dtype) != std::end(kNumbers);
  switch (kind) {
    case CompareKind::both:
    case CompareKind::either: return dtype == DType::boolean;
    case CompareKind::less:
    case CompareKind::less_or_equal: return is_number;
    default: return is_number || dtype == DType::boolean;
  }
}

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const CompareKind kind = attrs.as<CompareAttrs>().kind;
  InputCheck check("compare", inputs, {"a", "b"});
  check.any_tensor(0).any_tensor(1);
  if (!check.ok()) return check.outputs({});
  check.require(inputs[0].dtype == inputs[1].dtype,
                fmt::format("a and b must be of one dtype, got {} and {}", describe(inputs[0]), describe(inputs[1])));
  check.require(takes(kind, inputs[0].dtype), fmt::format("{} does not take {}", compare_name(kind), dtype_name(inputs[0].dtype)));
  const std::optional<Shape> shape = broadcast(inputs[0].shape, inputs[1].shape);
  check.require(shape.has_value(), fmt::format("shapes {} of a and {} of b do not broadcast", shape_text(inputs[0].shape),
                                               shape_text(inputs[1].shape)));
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(DType::boolean, *shape)});
}

Cost cost(const NodeSizes& sizes) {
  return {.flops = static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

bool apply(CompareKind kind, double a, double b) {
  switch (kind) {
    case CompareKind::equal: return a == b;
    case CompareKind::not_equal: return a != b;
    case CompareKind::less: return a < b;
    case CompareKind::less_or_equal: return a <= b;
    case CompareKind::both: return a != 0 && b != 0;
    case CompareKind::either: return a != 0 || b != 0;
  }
  return false;
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor &a = inputs[0].tensor, &b = inputs[1].tensor;
  HostTensor& y = outputs[0];
  for (size_t i = 0; i < y.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    y.values[i] = apply(attrs.as<CompareAttrs>().kind, a.values[broadcast_index(a.dims, y.dims, at)],
                        b.values[broadcast_index(b.dims, y.dims, at)]);
  }
}

CaseInput filled(std::vector<int64_t> dims, DType dtype = DType::f32, bool strided = false) {
  return {.dtype = dtype, .dims = std::move(dims), .strided = strided};
}

// Each of these with itself and with all others.
CaseInput edges(std::vector<int64_t> dims) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {.dims = std::move(dims), .values = {0.0, -0.0, 1.0, -1.5, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const auto add = [&](CompareKind kind, std::string_view name, CaseInput a, CaseInput b, bool bench = false) {
    all.push_back({.name = fmt::format("{}_{}", compare_name(kind), name), .attrs = CompareAttrs{kind}, .inputs = {std::move(a), std::move(b)},
                   .bench = bench});
  };
  for (const CompareKind kind : {CompareKind::equal, CompareKind::not_equal, CompareKind::less, CompareKind::less_or_equal}) {
    add(kind, "edges", edges({7, 1}), edges({7}));
    add(kind, "integers", {.dtype = DType::i64, .dims = {4}, .values = {-3, 0, 16000, 1e12}},
        {.dtype = DType::i64, .dims = {4, 1}, .values = {1e12, 16000, 0, -3}});
    add(kind, "bytes", filled({3, 40}, DType::u8), filled({40}, DType::u8));
  }
  for (const CompareKind kind : {CompareKind::equal, CompareKind::not_equal, CompareKind::both, CompareKind::either}) {
    add(kind, "booleans", {.dtype = DType::boolean, .dims = {2, 1}, .values = {0, 1}}, {.dtype = DType::boolean, .dims = {2}, .values = {0, 1}});
  }
  add(CompareKind::less, "scalar", filled({6, 50}), filled({}));
  add(CompareKind::less, "scalar_first", filled({}), filled({6, 50}));
  add(CompareKind::equal, "scalars", filled({}, DType::i64), filled({}, DType::i64));
  add(CompareKind::less, "strided", filled({3, 50}, DType::f32, true), filled({3, 50}, DType::f32, true));
  add(CompareKind::less, "doubles", filled({5, 9}, DType::f64), filled({5, 9}, DType::f64));
  add(CompareKind::less, "signed_bytes", filled({5, 9}, DType::i8), filled({5, 1}, DType::i8));
  add(CompareKind::less_or_equal, "i32", filled({5, 9}, DType::i32), filled({1, 9}, DType::i32));
  add(CompareKind::less, "empty", filled({0, 8}), filled({8}));
  add(CompareKind::less, "mask", filled({8, 512, 512}), filled({512, 1}), true);
  return all;
}

std::vector<HostValue> row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) { return broadcast_row_alone(inputs, row); }

}  // namespace

const Op compare{
    .name = "compare",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = [](std::span<const ValueType>, const Attrs&) { return Tolerance{0, 0}; },
    .cases = cases,
    .row_alone = row_alone,
};

}  // namespace headrace::ops
