// Layout is propagated instead of changed back and forth: a transpose moves below the nodes that compute the same in another order of
// axes, until it meets its inverse, a node that wants the order it makes, or an output. Where the transposes of all inputs but one then
// cancel above a node, they move up instead. A graph of convolutions keeps one transpose at its input and at most one at its output.
//
// Moving is greedy and may cost where a transposed value has several readers, so the pass tries from bold to careful and keeps the graph
// that moves the fewest elements, at worst the one that it was given.
#include <algorithm>
#include <map>

#include "graph/match.h"
#include "graph/movements.h"
#include "graph/passes.h"
#include "graph/passes/simplify_shapes.h"
#include "ops/gemm.h"
#include "ops/movement.h"
#include "ops/quantize_linear.h"
#include "ops/reduce.h"

namespace headrace::passes {
namespace {

using movements::Dims;
using movements::Group;
using movements::groups_of;
using movements::Perm;

struct Boldness {
  bool shared = true;  // moves a transpose below one of several readers
  bool split = true;   // moves a part of a transpose below a reshape, where the whole cannot go
};

// ---- reshapes as groups of axes ----------------------------------------------------------------------------------------------------

// reshape(transpose(u, perm)) as transpose(reshape(transpose(u, before)), after): `before` gathers the axes of each group.
struct SplitReshape {
  Perm before;
  Dims dims;
  Perm after;
};

std::optional<SplitReshape> split_reshape(const Dims& source, const Perm& perm, const Dims& to) {
  std::vector<Group> groups = groups_of(movements::permuted(source, perm), to);
  if (groups.empty()) return std::nullopt;
  // Groups in the order in which their first axis that is not 1 stands in the source.
  const auto place = [&](const Group& group) {
    int32_t first = static_cast<int32_t>(perm.size());
    for (size_t axis = group.begin; axis < group.end; ++axis) {
      if (source[perm[axis]] != 1) first = std::min(first, perm[axis]);
    }
    return first;
  };
  std::stable_sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) { return place(a) < place(b); });
  SplitReshape split;
  split.after.resize(to.size());
  for (const Group& group : groups) {
    for (size_t axis = group.begin; axis < group.end; ++axis) split.before.push_back(perm[axis]);
    for (size_t axis = group.to_begin; axis < group.to_end; ++axis) {
      split.after[axis] = static_cast<int32_t>(split.dims.size());
      split.dims.push_back(to[axis]);
    }
  }
  return split;
}

// ---- one attempt -------------------------------------------------------------------------------------------------------------------

const Perm& perm_of(const Node& transpose) { return transpose.attrs.as<ops::TransposeAttrs>().perm; }

class Attempt {
 public:
  Attempt(Rewriter& graph, Boldness boldness) : graph_(graph), boldness_(boldness) {}

  // Visits every node once, in order: below a node that moved a transpose its readers find it. Returns how many moved.
  int sink_all() {
    const auto better = [&](const Node& node) {
      const ValueId simpler = is_movement(node) ? simplified(graph_, node) : kNone;
      return simpler == kNone ? sunk(node) : simpler;
    };
    return graph_.replace_each(better, graph_.generous_bound());
  }

  int hoist_all() {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (!node.dead && node.op == &ops::transpose) known_[{node.inputs[0], perm_of(node)}] = node.outputs[0];
    }
    return graph_.replace_each([&](const Node& node) { return node.op == &ops::transpose ? hoisted(node) : kNone; });
  }

 private:
  static bool is_movement(const Node& node) {
    return node.op == &ops::transpose || node.op == &ops::reshape || node.op == &ops::slice || node.op == &ops::concat;
  }

  static bool is_quantization(const Node& node) { return node.op == &ops::quantize_linear || node.op == &ops::dequantize_linear; }
  bool has_one_scale(const Node& node) { return graph_.type(node.inputs[1]).shape[0] == Dim(1); }

  // ---- down ----

  // Whether u with transpose(u, perm) = value is there without moving an element of a computed value. Missing leading axes count as 1.
  bool undoes(ValueId value, const Perm& perm) {
    if (value == kNone) return false;
    const Node* transpose = match::of(graph_, value, ops::transpose);
    if (transpose != nullptr && perm_of(*transpose) == perm) return true;
    const Dims dims = with_rank(value, perm.size());
    if (dims.size() != perm.size()) return false;
    return graph_.is_constant(value) || movements::moves_nothing(dims, movements::inverse(perm));
  }
  ValueId undo(ValueId value, const Perm& perm, const std::string& name) {
    return movements::transpose(graph_, movements::reshape(graph_, value, with_rank(value, perm.size()), name), movements::inverse(perm),
                                name);
  }
  Dims with_rank(ValueId value, size_t rank) {
    Dims dims = graph_.dims(value);
    if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), 1);
    return dims;
  }

  // The node above its transpose: the transpose of one with the same meaning. kNone where that cannot be.
  ValueId sunk(const Node& node) {
    if (node.op == &ops::gemm) return sunk_into_gemm(node);
    const Node* transpose = nullptr;
    for (const ValueId input : node.inputs) {
      if (transpose == nullptr) transpose = match::of(graph_, input, ops::transpose);
    }
    if (transpose == nullptr || (!boldness_.shared && graph_.num_uses(transpose->outputs[0]) != 1)) return kNone;
    if (node.op == &ops::reshape) return sunk_reshape(node, *transpose);
    if (node.op == &ops::reduce) return sunk_reduce(node, *transpose);

    const Perm perm = perm_of(*transpose);
    const std::optional<Attrs> attrs = attrs_above(node, perm);
    if (!attrs) return kNone;
    // gather's index stays, scales and zero points do.
    const size_t num_moved = node.op == &ops::gather || is_quantization(node) ? 1 : node.inputs.size();
    for (size_t index = 0; index < num_moved; ++index) {
      if (!undoes(node.inputs[index], perm)) return kNone;
    }
    std::vector<ValueId> inputs = node.inputs;
    for (size_t index = 0; index < num_moved; ++index) inputs[index] = undo(inputs[index], perm, node.name);
    return movements::transpose(graph_, graph_.add(*node.op, *attrs, std::move(inputs), node.name), perm, node.name);
  }

  // The attributes of `node` before a transpose by `perm` instead of behind it; nothing for nodes that do not commute with it.
  std::optional<Attrs> attrs_above(const Node& node, const Perm& perm) {
    if (graph_.type(node.outputs[0]).shape.rank() != static_cast<int>(perm.size())) return std::nullopt;
    if (is_quantization(node)) return has_one_scale(node) ? std::optional(node.attrs) : std::nullopt;
    if (node.op == &ops::unary || node.op == &ops::cast || node.op == &ops::binary || node.op == &ops::where) return node.attrs;
    if (node.op == &ops::softmax) return perm.back() + 1 == static_cast<int32_t>(perm.size()) ? std::optional(node.attrs) : std::nullopt;
    if (node.op == &ops::concat) return Attrs(ops::ConcatAttrs{perm[node.attrs.as<ops::ConcatAttrs>().axis]});
    if (node.op == &ops::gather) {
      if (graph_.type(node.inputs[1]).shape.rank() != 1) return std::nullopt;
      return Attrs(ops::GatherAttrs{perm[node.attrs.as<ops::GatherAttrs>().axis]});
    }
    const Perm back = movements::inverse(perm);
    if (node.op == &ops::slice) {
      const auto& slice = node.attrs.as<ops::SliceAttrs>();
      return Attrs(ops::SliceAttrs{movements::permuted(slice.begin, back), movements::permuted(slice.step, back),
                                   movements::permuted(slice.size, back)});
    }
    if (node.op == &ops::pad) {
      ops::PadAttrs pad = node.attrs.as<ops::PadAttrs>();
      pad.before = movements::permuted(pad.before, back);
      pad.after = movements::permuted(pad.after, back);
      return Attrs(pad);
    }
    return std::nullopt;
  }

  ValueId sunk_reduce(const Node& node, const Node& transpose) {
    const Perm& perm = perm_of(transpose);
    ops::ReduceAttrs reduce = node.attrs.as<ops::ReduceAttrs>();
    std::vector<char> reduced(perm.size());
    for (int32_t& axis : reduce.axes) {
      axis = perm[axis];
      reduced[axis] = 1;
    }
    std::sort(reduce.axes.begin(), reduce.axes.end());
    Perm after = perm;
    if (!reduce.keep_dims) {
      // Axes that stay, renumbered as they stand in the source.
      Perm place(perm.size());
      for (size_t axis = 1; axis < perm.size(); ++axis) place[axis] = place[axis - 1] + (reduced[axis - 1] ? 0 : 1);
      after.clear();
      for (const int32_t axis : perm) {
        if (!reduced[axis]) after.push_back(place[axis]);
      }
    }
    return movements::transpose(graph_, graph_.add(ops::reduce, reduce, {transpose.inputs[0]}, node.name), after, node.name);
  }

  ValueId sunk_reshape(const Node& node, const Node& transpose) {
    const Dims source = graph_.dims(transpose.inputs[0]);
    const auto split = split_reshape(source, perm_of(transpose), graph_.dims(node.outputs[0]));
    if (!split || movements::is_identity(split->after)) return kNone;
    if (!boldness_.split && !movements::moves_nothing(source, split->before)) return kNone;
    const ValueId gathered = movements::transpose(graph_, transpose.inputs[0], split->before, node.name);
    const ValueId reshaped = movements::reshape(graph_, gathered, split->dims, node.name);
    return movements::transpose(graph_, reshaped, split->after, node.name);
  }

  // gemm reads b as [N, K] or [K, N] alike, and takes the order of a's columns from a constant b.
  ValueId sunk_into_gemm(const Node& node) {
    ops::GemmAttrs gemm = node.attrs.as<ops::GemmAttrs>();
    std::vector<ValueId> inputs = node.inputs;
    if (const Node* transpose = match::of(graph_, inputs[1], ops::transpose)) {
      Perm swap(perm_of(*transpose).size());
      for (size_t axis = 0; axis < swap.size(); ++axis) swap[axis] = static_cast<int32_t>(axis);
      std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
      if (swap == perm_of(*transpose)) {
        gemm.trans_b = !gemm.trans_b;
        inputs[1] = transpose->inputs[0];
        return graph_.add(ops::gemm, gemm, inputs, node.name);
      }
    }
    const Node* reshape = match::of(graph_, inputs[0], ops::reshape);
    const Node* transpose = reshape == nullptr ? nullptr : match::of(graph_, reshape->inputs[0], ops::transpose);
    if (transpose == nullptr || !graph_.is_constant(inputs[1]) || graph_.type(inputs[1]).shape.rank() != 2) return kNone;
    const Perm& perm = perm_of(*transpose);
    const Dims dims = graph_.dims(transpose->outputs[0]), flat = graph_.dims(reshape->outputs[0]);
    const std::vector<Group> groups = groups_of(dims, flat);
    if (groups.empty() || groups.back().to_end - groups.back().to_begin != 1) return kNone;
    // The last group's axes alone move, among themselves.
    const auto lead = static_cast<int32_t>(groups.back().begin);
    Perm inner;
    for (size_t axis = 0; axis < perm.size(); ++axis) {
      if (static_cast<int32_t>(axis) < lead && perm[axis] != static_cast<int32_t>(axis)) return kNone;
      if (static_cast<int32_t>(axis) >= lead) inner.push_back(perm[axis] - lead);
    }
    // Rows of b stand in the order of `dims`; wanted is that of the source.
    const Dims b = graph_.dims(inputs[1]);
    Dims rows(dims.begin() + lead, dims.end());
    Perm back = movements::inverse(inner);
    const auto width = static_cast<int32_t>(rows.size());
    if (gemm.trans_b) {
      for (int32_t& axis : back) ++axis;
      back.insert(back.begin(), 0);
      rows.insert(rows.begin(), b[0]);
    } else {
      back.push_back(width);
      rows.push_back(b[1]);
    }
    if (rows.size() > static_cast<size_t>(kMaxRank)) return kNone;
    const ValueId opened = movements::reshape(graph_, inputs[1], rows, node.name);
    inputs[1] = movements::reshape(graph_, movements::transpose(graph_, opened, back, node.name), b, node.name);
    inputs[0] = movements::reshape(graph_, transpose->inputs[0], flat, node.name);
    return graph_.add(ops::gemm, gemm, inputs, node.name);
  }

  // ---- up ----

  // Elements that move more (or, negative, fewer) when transpose(value, perm) is wanted and `value` then has one reader less.
  int64_t price(ValueId value, const Perm& perm) {
    const Dims dims = with_rank(value, perm.size());
    if (graph_.is_constant(value) || movements::moves_nothing(dims, perm) || known(value, perm) != kNone) return 0;
    const Node* transpose = match::of(graph_, value, ops::transpose);
    if (transpose == nullptr) return movements::count(dims);
    const int64_t saved = graph_.num_uses(value) == 1 ? movements::count(dims) : 0;
    const bool cancels = movements::moves_nothing(graph_.dims(transpose->inputs[0]), movements::then(perm_of(*transpose), perm));
    return (cancels ? 0 : movements::count(dims)) - saved;
  }
  ValueId known(ValueId value, const Perm& perm) {
    const auto found = known_.find({graph_.resolve(value), perm});
    return found != known_.end() && graph_.producer(found->second) != nullptr ? graph_.resolve(found->second) : kNone;
  }
  ValueId transposed(ValueId value, const Perm& perm, const std::string& name) {
    if (const ValueId there = known(value, perm); there != kNone) return there;
    const ValueId whole = movements::reshape(graph_, value, with_rank(value, perm.size()), name);
    const ValueId result = movements::transpose(graph_, whole, perm, name);
    known_[{graph_.resolve(value), perm}] = result;
    return result;
  }

  // transpose(f(g(a, b))) as f(g(transpose(a), transpose(b))) where fewer elements move so. f: nodes of one
  // operand that nothing else reads.
  ValueId hoisted(const Node& node) {
    const Perm perm = perm_of(node), back = movements::inverse(perm);
    constexpr size_t kMaxChain = 8;
    std::vector<const Node*> chain;
    ValueId value = node.inputs[0];
    const Node* joint = nullptr;
    while (chain.size() <= kMaxChain && graph_.num_uses(value) == 1 && (joint = graph_.producer(value)) != nullptr &&
           (joint->op == &ops::unary || joint->op == &ops::cast || (is_quantization(*joint) && has_one_scale(*joint)))) {
      chain.push_back(joint);
      value = joint->inputs[0];
    }
    if (joint == nullptr || graph_.num_uses(value) != 1 || value != joint->outputs[0]) return kNone;
    if (joint->op != &ops::binary && joint->op != &ops::concat && joint->op != &ops::where) return kNone;
    int64_t change = -movements::count(graph_.dims(node.outputs[0]));
    for (const ValueId input : joint->inputs) change += price(input, perm);
    if (change >= 0) return kNone;

    const std::optional<Attrs> attrs = attrs_above(*joint, back);
    if (!attrs) return kNone;
    std::vector<ValueId> inputs = joint->inputs;
    for (ValueId& input : inputs) input = transposed(input, perm, joint->name);
    ValueId result = graph_.add(*joint->op, *attrs, inputs, joint->name);
    for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
      std::vector<ValueId> of_link = (*link)->inputs;
      of_link[0] = result;
      result = graph_.add(*(*link)->op, (*link)->attrs, std::move(of_link), (*link)->name);
    }
    return result;
  }

  Rewriter& graph_;
  Boldness boldness_;
  std::map<std::pair<ValueId, Perm>, ValueId> known_;  // transposes that are there
};

int64_t moved_elements(const Graph& graph) {
  int64_t moved = 0;
  for (const Node& node : graph.nodes) {
    if (node.dead || node.op != &ops::transpose) continue;
    Dims dims;
    for (const Dim& dim : graph.values[node.inputs[0]].type.shape) dims.push_back(dim.constant());
    if (graph.values[node.inputs[0]].role != ValueRole::constant && !movements::moves_nothing(dims, perm_of(node))) {
      moved += movements::count(dims);
    }
  }
  return moved;
}

// Down, up, and down again as long as something moves up. Returns how many nodes were rewritten.
Result<int> propagate(Graph& graph, Boldness boldness) {
  constexpr int kMaxRounds = 4;
  int hits = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    int moved_up = 0;
    for (const bool down : {true, false}) {
      Rewriter rewriter(graph);
      Attempt attempt(rewriter, boldness);
      const int moved = down ? attempt.sink_all() : attempt.hoist_all();
      HR_ASSIGN_OR_RETURN(const int applied, rewriter.finish(moved));
      hits += applied;
      moved_up = down ? 0 : applied;
    }
    if (moved_up == 0) break;
  }
  return hits;
}

Result<int> run(Graph& graph, const PassOptions&) {
  if (!has_constant_shapes(graph)) return 0;
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.op == &ops::transpose; });
  if (!any) return 0;
  Graph best = graph;
  int64_t least = moved_elements(graph);
  int hits = 0;
  for (const Boldness boldness : {Boldness{true, true}, Boldness{true, false}, Boldness{false, false}}) {
    Graph attempt = graph;
    HR_ASSIGN_OR_RETURN(const int moved, propagate(attempt, boldness));
    const int64_t elements = moved_elements(attempt);
    if (moved == 0 || elements > least || (elements == least && hits > 0)) continue;
    // Where as much moves as before, what moved past reshapes and reductions may still be fewer nodes.
    if (elements == least && attempt.nodes.size() >= best.nodes.size()) continue;
    least = elements;
    best = std::move(attempt);
    hits = moved;
  }
  graph = std::move(best);
  return hits;
}

}  // namespace

extern const Pass propagate_transposes_pass;
const Pass propagate_transposes_pass = {"propagate_transposes", "Moves transposes past other nodes until they cancel.", run};

}  // namespace headrace::passes
