// x * cos + rotate_half(x) * sin over [B, heads, S, D] or [B, S, heads, D], where both halves of each row of cos and sin are equal, becomes
// rotary. rotate_half(x) is concat(-x[D / 2 ..], x[.. D / 2]).
#include "ops/rotary.h"

#include <algorithm>

#include "graph/match.h"
#include "graph/movements.h"
#include "graph/passes.h"
#include "graph/passes/heads.h"
#include "ops/movement.h"

namespace headrace::passes {
namespace {

using movements::Dims;
using ops::BinaryKind;

constexpr int kMaxSteps = 8;  // nodes between a table and the concat that repeats its half

// x where `value` = columns [begin, end) of x.
ValueId columns_of(Rewriter& graph, ValueId value, int64_t begin, int64_t end) {
  const Node* node = match::of(graph, value, ops::slice);
  if (node == nullptr) return kNone;
  const auto& slice = node->attrs.as<ops::SliceAttrs>();
  Dims whole = graph.dims(node->inputs[0]);
  whole.back() = end - begin;
  const bool cuts = slice.size == whole && slice.begin.back() == begin &&
                    std::all_of(slice.begin.begin(), slice.begin.end() - 1, [](int64_t at) { return at == 0; }) &&
                    std::all_of(slice.step.begin(), slice.step.end(), [](int64_t step) { return step == 1; });
  return cuts ? node->inputs[0] : kNone;
}

// x where `value` = rotate_half(x), read here alone.
ValueId match_rotate_half(Rewriter& graph, ValueId value) {
  const Node* concat = match::single(graph, value, ops::concat);
  const Dims dims = graph.dims(value);
  if (concat == nullptr || concat->inputs.size() != 2 || dims.empty() || dims.back() % 2 != 0) return kNone;
  if (concat->attrs.as<ops::ConcatAttrs>().axis + 1 != static_cast<int32_t>(dims.size())) return kNone;
  const match::Product upper = match::product(graph, concat->inputs[0]);
  if (upper.coefficient != -1 || upper.factors.size() != 1) return kNone;
  const ValueId x = columns_of(graph, upper.factors[0], dims.back() / 2, dims.back());
  return x != kNone && columns_of(graph, concat->inputs[1], 0, dims.back() / 2) == x ? x : kNone;
}

bool has_equal_halves(Rewriter& graph, ValueId table) {
  const int64_t width = graph.dims(table).back();
  if (graph.is_constant(table)) {
    const std::vector<double> data = constant_values(graph.value(table));
    for (size_t i = 0; i < data.size(); ++i) {
      const auto column = static_cast<int64_t>(i) % width;
      if (column < width / 2 && data[i] != data[i + static_cast<size_t>(width / 2)]) return false;
    }
    return true;
  }
  for (int step = 0; step < kMaxSteps; ++step) {
    const Node* node = graph.producer(table);
    if (node == nullptr || graph.dims(table).back() != width) return false;
    if (node->op == &ops::concat) {
      const bool columns = node->attrs.as<ops::ConcatAttrs>().axis + 1 == graph.type(table).shape.rank();
      return columns && node->inputs.size() == 2 && node->inputs[0] == node->inputs[1];
    }
    const auto scaled = match::with_number(graph, node, BinaryKind::mul);
    if (!scaled && node->op != &ops::unary && node->op != &ops::reshape) return false;
    table = scaled ? scaled->x : node->inputs[0];
    if (graph.type(table).shape.rank() == 0) return false;
  }
  return false;
}

// [b, S, D / 2] of a table that broadcasts over x as [b, 1, S, D] (heads_first) or [b, S, 1, D]; kNone for other tables.
ValueId half_table(Rewriter& graph, ValueId table, const Dims& x, bool heads_first, const std::string& name) {
  Dims dims = graph.dims(table);
  if (dims.empty() || dims.size() > 4 || dims.back() != x.back() || !has_equal_halves(graph, table)) return kNone;
  const size_t rank = dims.size();
  dims.insert(dims.begin(), 4 - rank, 1);
  const size_t heads = heads_first ? 1 : 2, steps = heads_first ? 2 : 1;
  if ((dims[0] != 1 && dims[0] != x[0]) || dims[heads] != 1 || dims[steps] != x[steps]) return kNone;
  ops::SliceAttrs half{Dims(rank, 0), Dims(rank, 1), graph.dims(table)};
  half.size.back() /= 2;
  const Dims wanted = {dims[0], x[steps], x.back() / 2};
  if (graph.is_constant(table)) {
    const std::vector<double> data = constant_values(graph.value(table));
    std::vector<double> first;
    for (size_t i = 0; i < data.size(); ++i) {
      if (static_cast<int64_t>(i) % x.back() < x.back() / 2) first.push_back(data[i]);
    }
    return graph.constant(graph.value(table).name, DType::f32, wanted, first);
  }
  return movements::reshape(graph, graph.add(ops::slice, half, {table}, name), wanted, name);
}

struct Rotation {
  ValueId x, cos, sin;
};

// `sum` = x * cos + rotate_half(x) * sin.
std::optional<Rotation> match_rotation(Rewriter& graph, const Node& sum) {
  if (!match::is_binary(&sum, BinaryKind::add)) return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    const Node* straight = match::single(graph, sum.inputs[side], ops::binary);
    const Node* turned = match::single(graph, sum.inputs[1 - side], ops::binary);
    if (!match::is_binary(straight, BinaryKind::mul) || !match::is_binary(turned, BinaryKind::mul)) continue;
    for (int place = 0; place < 2; ++place) {
      const ValueId x = match_rotate_half(graph, turned->inputs[place]);
      const ValueId cos = x == kNone ? kNone : match::other_input(*straight, x);
      if (cos != kNone) return Rotation{x, cos, turned->inputs[1 - place]};
    }
  }
  return std::nullopt;
}

ValueId fused(Rewriter& graph, const Node& node) {
  const auto rotation = match_rotation(graph, node);
  if (!rotation) return kNone;
  const Dims x = graph.dims(rotation->x);
  if (x.size() != 4 || x != graph.dims(node.outputs[0]) || movements::count(x) == 0) return kNone;
  for (const bool heads_first : {true, false}) {
    const ValueId cos = half_table(graph, rotation->cos, x, heads_first, node.name);
    const ValueId sin = cos == kNone ? kNone : half_table(graph, rotation->sin, x, heads_first, node.name);
    if (sin == kNone || graph.dims(cos) != graph.dims(sin)) continue;
    const int64_t heads = heads_first ? x[1] : x[2];
    ops::RotaryAttrs attrs;
    attrs.heads = static_cast<int32_t>(heads);
    attrs.head_dim = attrs.rotary_dim = static_cast<int32_t>(x[3]);
    const ValueId flat = heads_first ? flat_heads(graph, rotation->x, node.name)
                                     : movements::reshape(graph, rotation->x, {x[0], x[1], heads * x[3]}, node.name);
    const ValueId turned = graph.add(ops::rotary, attrs, {flat, cos, sin}, node.name);
    return heads_first ? split_heads(graph, turned, heads, node.name) : movements::reshape(graph, turned, x, node.name);
  }
  return kNone;
}

Result<int> run(Graph& graph, const PassOptions&) { return rewrite_each(graph, fused); }

}  // namespace

extern const Pass fuse_rotary_pass;
const Pass fuse_rotary_pass = {"fuse_rotary", "Makes one rotary embedding of the operators that spell it.", run};

}  // namespace headrace::passes
