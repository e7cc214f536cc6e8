// Movements that move nothing or follow each other go, and arithmetic with neutral or special constants becomes what it is: x + 0 is x,
// pow(x, 2) is x * x, a gather of one constant index is a slice.
#include "graph/passes/simplify_shapes.h"

#include <algorithm>
#include <cmath>

#include "graph/fold_constants.h"
#include "graph/match.h"
#include "graph/movements.h"
#include "graph/passes.h"
#include "ops/movement.h"
#include "ops/reduce.h"

namespace headrace::passes {
namespace {

using ops::BinaryKind;
using ops::UnaryKind;

ValueId simplified_reshape(Rewriter& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  const std::vector<int64_t> dims = graph.dims(node.outputs[0]);
  if (match::of(graph, x, ops::reshape) == nullptr && graph.dims(x) != dims) return kNone;
  return movements::reshape(graph, x, dims, node.name);
}

ValueId simplified_transpose(Rewriter& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  const auto& perm = node.attrs.as<ops::TransposeAttrs>().perm;
  if (match::of(graph, x, ops::transpose) == nullptr && !movements::moves_nothing(graph.dims(x), perm)) return kNone;
  return movements::transpose(graph, x, perm, node.name);
}

// slice(reshape(x)) as reshape(slice(x)) where each axis that is cut is the outermost of those that an axis of x became: the parts of one
// projection are then windows of its columns.
ValueId slice_above_reshape(Rewriter& graph, const Node& node) {
  const Node* reshape = match::of(graph, node.inputs[0], ops::reshape);
  if (reshape == nullptr) return kNone;
  const auto& slice = node.attrs.as<ops::SliceAttrs>();
  const std::vector<int64_t> source = graph.dims(reshape->inputs[0]), dims = graph.dims(node.inputs[0]);
  const std::vector<movements::Group> groups = movements::groups_of(source, dims);
  if (groups.empty()) return kNone;
  ops::SliceAttrs above{std::vector<int64_t>(source.size(), 0), std::vector<int64_t>(source.size(), 1), source};
  for (const movements::Group& group : groups) {
    int64_t inner = 1;
    for (size_t axis = group.to_end; axis-- > group.to_begin; inner *= dims[axis]) {
      if (slice.begin[axis] == 0 && slice.size[axis] == dims[axis] && (slice.step[axis] == 1 || dims[axis] == 1)) continue;
      // All that stands before it is 1, and it comes from one axis.
      int64_t before = 1, joined = 1;
      for (size_t at = group.to_begin; at < axis; ++at) before *= dims[at];
      size_t from = group.begin;
      for (size_t at = group.begin; at < group.end; ++at) {
        joined += source[at] != 1 ? 1 : 0;
        if (source[at] != 1) from = at;
      }
      if (slice.step[axis] != 1 || before != 1 || joined != 2) return kNone;
      above.begin[from] = slice.begin[axis] * inner;
      above.size[from] = slice.size[axis] * inner;
    }
  }
  const ValueId part = graph.add(ops::slice, above, {reshape->inputs[0]}, node.name);
  return movements::reshape(graph, part, slice.size, node.name);
}

ValueId simplified_slice(Rewriter& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  ops::SliceAttrs slice = node.attrs.as<ops::SliceAttrs>();
  // A step over one element or none may be any.
  const auto whole = [&](size_t axis) { return slice.begin[axis] == 0 && (slice.step[axis] == 1 || slice.size[axis] <= 1); };
  bool all = graph.dims(x) == slice.size;
  for (size_t axis = 0; axis < slice.size.size(); ++axis) all = all && whole(axis);
  if (all) return x;
  const Node* inner = match::of(graph, x, ops::slice);
  if (inner == nullptr) return slice_above_reshape(graph, node);
  const auto& first = inner->attrs.as<ops::SliceAttrs>();
  for (size_t axis = 0; axis < slice.size.size(); ++axis) {
    // Where the second slice is empty its begin may be the end, and mean no element.
    slice.begin[axis] = slice.size[axis] == 0 ? 0 : first.begin[axis] + first.step[axis] * slice.begin[axis];
    slice.step[axis] *= first.step[axis];
    if (slice.size[axis] <= 1) slice.step[axis] = 1;
  }
  return graph.add(ops::slice, slice, {inner->inputs[0]}, node.name);
}

ValueId simplified_pad(Rewriter& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  ops::PadAttrs pad = node.attrs.as<ops::PadAttrs>();
  const auto is_zero = [](int64_t count) { return count == 0; };
  if (std::all_of(pad.before.begin(), pad.before.end(), is_zero) && std::all_of(pad.after.begin(), pad.after.end(), is_zero)) return x;
  const Node* inner = match::of(graph, x, ops::pad);
  if (inner == nullptr) return kNone;
  const auto& first = inner->attrs.as<ops::PadAttrs>();
  const bool constant = pad.mode == ops::PadAttrs::Mode::constant && first.mode == pad.mode && first.value == pad.value;
  if (!constant && !(pad.mode == ops::PadAttrs::Mode::edge && first.mode == pad.mode)) return kNone;
  for (size_t axis = 0; axis < pad.before.size(); ++axis) {
    pad.before[axis] += first.before[axis];
    pad.after[axis] += first.after[axis];
  }
  return graph.add(ops::pad, pad, {inner->inputs[0]}, node.name);
}

ValueId simplified_expand(Rewriter& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  const std::vector<int64_t> dims = graph.dims(node.outputs[0]);
  // No element is repeated: at most axes of 1 are new.
  if (movements::count(graph.dims(x)) == movements::count(dims)) return movements::reshape(graph, x, dims, node.name);
  if (const Node* inner = match::of(graph, x, ops::expand)) {
    return graph.add(ops::expand, ops::ExpandAttrs{dims}, {inner->inputs[0]}, node.name);
  }
  return kNone;
}

// Whether each value of `from` is one of `to`.
bool holds(DType to, DType from) {
  const auto among = [&](std::initializer_list<DType> list) { return std::find(list.begin(), list.end(), from) != list.end(); };
  if (to == from || from == DType::boolean) return true;
  switch (to) {
    case DType::f32: return among({DType::f16, DType::bf16, DType::i8, DType::u8});
    case DType::f64: return among({DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32});
    case DType::i32: return among({DType::i8, DType::u8});
    case DType::i64: return among({DType::i8, DType::u8, DType::i32});
    default: return false;
  }
}

ValueId simplified_cast(Rewriter& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  const DType to = graph.type(node.outputs[0]).dtype;
  if (graph.type(x).dtype == to) return x;
  const Node* inner = match::of(graph, x, ops::cast);
  if (inner == nullptr || !holds(graph.type(x).dtype, graph.type(inner->inputs[0]).dtype)) return kNone;
  const ValueId source = inner->inputs[0];
  return graph.type(source).dtype == to ? source : graph.add(ops::cast, node.attrs, {source}, node.name);
}

// A bound, so that a long chain of concats is not copied once for each of its links.
constexpr size_t kMaxParts = 256;

ValueId simplified_concat(Rewriter& graph, const Node& node) {
  const int32_t axis = node.attrs.as<ops::ConcatAttrs>().axis;
  std::vector<ValueId> parts;
  bool changed = false;
  for (const ValueId input : node.inputs) {
    const Node* inner = match::single(graph, input, ops::concat);
    if (graph.type(input).shape[axis].constant() == 0 && node.inputs.size() > 1) {
      changed = true;
    } else if (inner != nullptr && inner->attrs == node.attrs && parts.size() + inner->inputs.size() <= kMaxParts) {
      parts.insert(parts.end(), inner->inputs.begin(), inner->inputs.end());
      changed = true;
    } else {
      parts.push_back(input);
    }
  }
  if (parts.size() == 1) return parts[0];
  return changed && !parts.empty() ? graph.add(ops::concat, node.attrs, parts, node.name) : kNone;
}

// One constant index: the slice there, under gather's dims.
ValueId simplified_gather(Rewriter& graph, const Node& node) {
  const ValueId x = node.inputs[0], index = node.inputs[1];
  if (!graph.is_constant(index) || movements::count(graph.dims(index)) != 1) return kNone;
  const int32_t axis = node.attrs.as<ops::GatherAttrs>().axis;
  const std::vector<int64_t> dims = graph.dims(x);
  auto at = static_cast<int64_t>(constant_values(graph.value(index))[0]);
  if (at < 0) at += dims[axis];
  if (at < 0 || at >= dims[axis]) return kNone;  // reported when it runs
  ops::SliceAttrs slice{std::vector<int64_t>(dims.size(), 0), std::vector<int64_t>(dims.size(), 1), dims};
  slice.begin[axis] = at;
  slice.size[axis] = 1;
  const ValueId one = slice.size == dims ? x : graph.add(ops::slice, slice, {x}, node.name);
  return movements::reshape(graph, one, graph.dims(node.outputs[0]), node.name);
}

// Over axes of 1 there is nothing to reduce.
ValueId simplified_reduce(Rewriter& graph, const Node& node) {
  using Kind = ops::ReduceAttrs::Kind;
  const auto& reduce = node.attrs.as<ops::ReduceAttrs>();
  if (reduce.kind != Kind::sum && reduce.kind != Kind::mean && reduce.kind != Kind::max && reduce.kind != Kind::min &&
      reduce.kind != Kind::prod) {
    return kNone;
  }
  const std::vector<int64_t> dims = graph.dims(node.inputs[0]);
  if (!std::all_of(reduce.axes.begin(), reduce.axes.end(), [&](int32_t axis) { return dims[axis] == 1; })) return kNone;
  return movements::reshape(graph, node.inputs[0], graph.dims(node.outputs[0]), node.name);
}

bool is_power_of_two(double x) {
  int exponent = 0;
  // Its inverse is a normal float32, too.
  return std::abs(std::frexp(x, &exponent)) == 0.5 && std::abs(exponent) < 120;
}

// x `kind` number.
ValueId simplified_with_number(Rewriter& graph, const Node& node, BinaryKind kind, double number) {
  const ValueId x = node.inputs[0];
  const auto times = [&](double factor) {
    const ValueId constant = graph.constant(node.name, DType::f32, {}, {factor});
    return graph.add(ops::binary, ops::BinaryAttrs{BinaryKind::mul}, {x, constant}, node.name);
  };
  if (kind == BinaryKind::sub && number == 0) return x;
  if (kind == BinaryKind::div && number == 1) return x;
  if (kind == BinaryKind::div && is_power_of_two(number)) return times(1 / number);
  if (kind != BinaryKind::pow) return kNone;
  if (number == 1) return x;
  if (number == 2) return graph.add(ops::binary, ops::BinaryAttrs{BinaryKind::mul}, {x, x}, node.name);
  if (number == 0.5) return graph.add(ops::unary, ops::UnaryAttrs{UnaryKind::sqrt}, {x}, node.name);
  if (number == -1) return graph.add(ops::unary, ops::UnaryAttrs{UnaryKind::reciprocal}, {x}, node.name);
  return kNone;
}

// The dims by numpy's rule; empty where they do not fit.
std::vector<int64_t> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> dims(std::max(a.size(), b.size()), 1);
  for (size_t back = 1; back <= dims.size(); ++back) {
    const int64_t left = back <= a.size() ? a[a.size() - back] : 1, right = back <= b.size() ? b[b.size() - back] : 1;
    if (left != right && left != 1 && right != 1) return {};
    dims[dims.size() - back] = left == 1 ? right : left;
  }
  return dims;
}

ValueId simplified_binary(Rewriter& graph, const Node& node) {
  const BinaryKind kind = node.attrs.as<ops::BinaryAttrs>().kind;
  const std::optional<match::WithNumber> number = match::with_number(graph, &node, kind);
  if (number && kind == BinaryKind::add && number->number == 0) return number->x;
  if (number && kind == BinaryKind::mul && number->number == 1) return number->x;
  if (number && node.inputs[0] == number->x) {
    const ValueId simpler = simplified_with_number(graph, node, kind, number->number);
    if (simpler != kNone) return simpler;
  }
  if (kind == BinaryKind::sub && graph.is_constant(node.inputs[1]) && !graph.is_constant(node.inputs[0]) &&
      movements::count(graph.dims(node.inputs[1])) <= movements::count(graph.dims(node.inputs[0]))) {
    std::vector<double> negative = constant_values(graph.value(node.inputs[1]));
    for (double& x : negative) x = -x;
    const ValueId constant = graph.constant(graph.value(node.inputs[1]).name, DType::f32, graph.dims(node.inputs[1]), negative);
    return graph.add(ops::binary, ops::BinaryAttrs{BinaryKind::add}, {node.inputs[0], constant}, node.name);
  }
  // The operator broadcasts by itself.
  for (int side = 0; side < 2; ++side) {
    const Node* expand = match::of(graph, node.inputs[side], ops::expand);
    if (expand == nullptr) continue;
    std::vector<ValueId> inputs = node.inputs;
    inputs[side] = expand->inputs[0];
    if (broadcast(graph.dims(inputs[0]), graph.dims(inputs[1])) != graph.dims(node.outputs[0])) continue;
    return graph.add(ops::binary, node.attrs, inputs, node.name);
  }
  return kNone;
}

}  // namespace

ValueId simplified(Rewriter& graph, const Node& node) {
  if (node.op == &ops::reshape) return simplified_reshape(graph, node);
  if (node.op == &ops::transpose) return simplified_transpose(graph, node);
  if (node.op == &ops::slice) return simplified_slice(graph, node);
  if (node.op == &ops::pad) return simplified_pad(graph, node);
  if (node.op == &ops::expand) return simplified_expand(graph, node);
  if (node.op == &ops::cast) return simplified_cast(graph, node);
  if (node.op == &ops::concat) return simplified_concat(graph, node);
  if (node.op == &ops::gather) return simplified_gather(graph, node);
  if (node.op == &ops::reduce) return simplified_reduce(graph, node);
  if (node.op == &ops::binary) return simplified_binary(graph, node);
  return kNone;
}

int simplify_all(Rewriter& graph) {
  constexpr int kMaxRounds = 4;  // nodes that a rule makes are visited after those that read them
  int hits = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    const auto simpler = [&](const Node& node) {
      const std::vector<ValueId> folded = fold_constants(graph, node);
      return folded.empty() ? simplified(graph, node) : folded[0];
    };
    const int found = graph.replace_each(simpler, graph.generous_bound());
    hits += found;
    if (found == 0) break;
  }
  return hits;
}

namespace {

Result<int> run(Graph& graph, const PassOptions&) {
  if (!has_constant_shapes(graph)) return 0;
  Rewriter rewriter(graph);
  const int hits = simplify_all(rewriter);
  return rewriter.finish(hits);
}

}  // namespace

extern const Pass simplify_shapes_pass;
const Pass simplify_shapes_pass = {"simplify_shapes", "Removes movements that move nothing and arithmetic that changes nothing.", run};

}  // namespace headrace::passes
