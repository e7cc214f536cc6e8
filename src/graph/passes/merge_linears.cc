// Linears of one module that read the same value become one: q, k and v of an attention, gate and up of an MLP. The merged
// weight's recipe lists the parts; the former outputs are windows of the merged one. One matmul over more rows reads its
// input once, splits more evenly over threads and quantizes its input once.
#include <algorithm>

#include "graph/passes.h"
#include "ops/matmul.h"
#include "ops/rows.h"

namespace headrace::passes {
namespace {

// "model.layers.3.self_attn" of "model.layers.3.self_attn.q_proj".
std::string_view module_of(std::string_view name) { return name.substr(0, std::min(name.rfind('.'), name.size())); }
std::string_view leaf_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }

bool is_linear(const Graph& graph, const Node& node) {
  if (node.dead || node.op != &ops::matmul) return false;
  // A name without a module says nothing about the node's role.
  if (node.name.find('.') == std::string::npos) return false;
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId id) {
    return id != kNone && graph.values[id].role == ValueRole::weight;
  });
}

// One input, one module, one format, the same kind of bias: rows of one matrix.
bool mergeable(const Graph& graph, const Node& a, const Node& b) {
  if (a.inputs[0] != b.inputs[0] || a.inputs.size() != b.inputs.size() || !(a.attrs == b.attrs)) return false;
  if (module_of(a.name) != module_of(b.name)) return false;
  for (size_t index = 1; index < a.inputs.size(); ++index) {
    if (graph.values[a.inputs[index]].type.format != graph.values[b.inputs[index]].type.format) return false;
  }
  return true;
}

std::string merged_name(const Graph& graph, const std::vector<NodeId>& members) {
  std::string name = graph.nodes[members[0]].name;
  for (size_t index = 1; index < members.size(); ++index) {
    name += fmt::format("+{}", leaf_of(graph.nodes[members[index]].name));
  }
  return name;
}

// The weights (or biases) at input `index` of every member, one below the other.
ValueId concatenate(Graph& graph, const std::vector<NodeId>& members, size_t index, const std::string& name) {
  const Value first = graph.values[graph.nodes[members[0]].inputs[index]];
  Shape shape = first.type.shape;
  shape[0] = 0;
  WeightRecipe recipe;
  for (const NodeId member : members) {
    const Value& weight = graph.values[graph.nodes[member].inputs[index]];
    shape[0] = shape[0] + weight.type.shape[0];
    recipe.parts.insert(recipe.parts.end(), weight.recipe.parts.begin(), weight.recipe.parts.end());
  }
  const std::string_view kind = index == 1 ? "weight" : "bias";
  return graph.add_weight(fmt::format("{}.{}", name, kind), first.type.format, shape, std::move(recipe));
}

// Puts the merged linear and its windows before the first member. Returns how many nodes were inserted.
Result<NodeId> merge(Graph& graph, const std::vector<NodeId>& members) {
  const std::string name = merged_name(graph, members);
  const size_t num_inputs = graph.nodes[members[0]].inputs.size();
  std::vector<ValueId> inputs = {graph.nodes[members[0]].inputs[0]};
  for (size_t index = 1; index < num_inputs; ++index) inputs.push_back(concatenate(graph, members, index, name));

  struct Former {
    ValueId output;
    int64_t rows;
    std::string name;
  };
  std::vector<Former> formers;
  for (const NodeId member : members) {
    Node& node = graph.nodes[member];
    formers.push_back({node.outputs[0], graph.values[node.inputs[1]].type.shape[0].constant(), node.name});
    node.dead = true;
  }
  NodeId at = members[0];
  HR_ASSIGN_OR_RETURN(const std::vector<ValueId> merged,
                      graph.insert_node(at++, ops::matmul, graph.nodes[members[0]].attrs, std::move(inputs), name));
  int64_t begin = 0;
  for (const Former& former : formers) {
    const ops::SliceColumnsAttrs window{begin, begin + former.rows};
    HR_ASSIGN_OR_RETURN(const std::vector<ValueId> slice,
                        graph.insert_node(at++, ops::slice_columns, window, {merged[0]}, former.name));
    graph.replace_uses(former.output, slice[0]);
    begin += former.rows;
  }
  return at - members[0];
}

Result<int> run(Graph& graph, const PassOptions&) {
  // The linears that read each value, by their output: node ids move, value ids stay.
  std::vector<std::vector<ValueId>> linears(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (is_linear(graph, node)) linears[node.inputs[0]].push_back(node.outputs[0]);
  }
  int hits = 0;
  for (const std::vector<ValueId>& readers : linears) {
    for (size_t first = 0; first < readers.size(); ++first) {
      const NodeId leader = graph.values[readers[first]].producer;
      if (graph.nodes[leader].dead) continue;
      std::vector<NodeId> members = {leader};
      for (size_t other = first + 1; other < readers.size(); ++other) {
        const NodeId id = graph.values[readers[other]].producer;
        if (!graph.nodes[id].dead && mergeable(graph, graph.nodes[leader], graph.nodes[id])) members.push_back(id);
      }
      if (members.size() < 2) continue;
      HR_RETURN_IF_ERROR([&]() -> Status {
        const auto merged = merge(graph, members);
        return merged ? Status() : merged.error();
      }());
      ++hits;
    }
  }
  return hits;
}

}  // namespace

extern const Pass merge_linears_pass;
const Pass merge_linears_pass = {
    "merge_linears", "Makes one matrix of a module's linears that read one value (q, k and v; gate and up).", run};

}  // namespace headrace::passes
