// With the bf16 policy what flows between the linears of a layer is bf16: half the bytes, and what tensor cores multiply. The residual
// stream, the logits and all sums stay float32. A matmul over bf16 weights becomes matmul_bf16; a value is bf16 where its producer can
// write it so and every reader reads it so; where a float32 value meets such a matmul, round_bf16 stands between.
#include <algorithm>
#include <map>

#include "graph/passes.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/rms_norm.h"
#include "ops/rope_kv_write.h"
#include "ops/rows.h"

namespace headrace::passes {
namespace {

bool becomes_bf16(const Graph& graph, const Node& node) {
  return node.op == &ops::matmul && ops::matmul_bf16_takes(graph.values[node.inputs[1]].type);
}

// What a node says of its activations: those that it takes or makes in either dtype, one by one, and those that must be of one dtype.
struct Choice {
  std::vector<ValueId> free, alike;
};
Choice choice_of(const Graph& graph, const Node& node) {
  const std::vector<ValueId>& in = node.inputs;
  const std::vector<ValueId>& out = node.outputs;
  if (becomes_bf16(graph, node)) return {{in[0], out[0]}, {}};
  if (node.op == &ops::rms_norm) return {{in[0], out[0]}, {}};
  if (node.op == &ops::add_rms_norm) return {{in[0], out[1]}, {}};
  if (node.op == &ops::rope || node.op == &ops::attention || node.op == &ops::slice_columns) return {{}, {in[0], out[0]}};
  if (node.op == &ops::gated_activation || node.op == &ops::mul) return {{}, {in[0], in[1], out[0]}};
  if (node.op == &ops::kv_write) return {{}, {in[0], in[1]}};
  if (node.op == &ops::rope_kv_write) return {{}, {in[0], in[1], in[2], out[0]}};
  return {};
}

// By value id: whether it becomes bf16. From all that could be, those are taken away that some node cannot read or write so.
std::vector<bool> narrow_values(const Graph& graph) {
  std::vector<bool> narrow(graph.values.size());
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    narrow[id] = value.role == ValueRole::computed && value.type.kind == ValueType::Kind::tensor && value.type.dtype == DType::f32;
  }
  for (const GraphOutput& output : graph.outputs) narrow[output.value] = false;
  for (bool changed = true; changed;) {
    changed = false;
    const auto widen = [&](ValueId value) {
      if (value == kNone || !narrow[value]) return;
      narrow[value] = false;
      changed = true;
    };
    for (const Node& node : graph.nodes) {
      if (node.dead) continue;
      const Choice choice = choice_of(graph, node);
      const bool all = std::ranges::all_of(choice.alike, [&](ValueId value) { return narrow[value]; });
      for (const std::vector<ValueId>* list : {&node.inputs, &node.outputs}) {
        for (const ValueId value : *list) {
          const bool is_free = std::ranges::find(choice.free, value) != choice.free.end();
          const bool goes_along = all && std::ranges::find(choice.alike, value) != choice.alike.end();
          if (!is_free && !goes_along) widen(value);
        }
      }
    }
  }
  return narrow;
}

// The dtype of the output that may be either.
Attrs with_out(const Node& node, bool narrow) {
  const DType out = narrow ? DType::bf16 : DType::f32;
  if (node.op == &ops::matmul_bf16) return ops::MatmulAttrs{out};
  if (node.op != &ops::rms_norm && node.op != &ops::add_rms_norm) return node.attrs;
  ops::RmsNormAttrs attrs = node.attrs.as<ops::RmsNormAttrs>();
  attrs.out = out;
  return attrs;
}

// Puts round_bf16 before the first of the matmuls that read a float32 value.
Status round_inputs(Graph& graph, std::vector<bool>& narrow) {
  std::map<ValueId, ValueId> rounded;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (graph.nodes[id].dead || !becomes_bf16(graph, graph.nodes[id])) continue;
    const ValueId x = graph.nodes[id].inputs[0];
    if (narrow[x]) continue;
    if (!rounded.contains(x)) {
      HR_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                          graph.insert_node(id, ops::round_bf16, ops::MatmulAttrs{}, {x}, graph.values[x].name + ".bf16"));
      rounded[x] = made[0];
      narrow.resize(graph.values.size(), false);
      ++id;
    }
    graph.nodes[id].inputs[0] = rounded[x];
  }
  return {};
}

Result<int> run(Graph& graph, const PassOptions& options) {
  if (options.policy.activation != DtypePolicy::Activation::bf16) return 0;
  std::vector<bool> narrow = narrow_values(graph);
  HR_RETURN_IF_ERROR(round_inputs(graph, narrow));
  int hits = 0;
  for (Node& node : graph.nodes) {
    if (node.dead) continue;
    if (becomes_bf16(graph, node)) {
      node.op = &ops::matmul_bf16;
      ++hits;
    }
    if (node.outputs.empty()) continue;
    node.attrs = with_out(node, narrow[node.outputs.back()]);
    HR_ASSIGN_OR_RETURN(const std::vector<ValueType> types, node.op->infer(graph.input_types(node), node.attrs));
    for (size_t i = 0; i < types.size(); ++i) graph.values[node.outputs[i]].type = types[i];
  }
  return hits;
}

}  // namespace

extern const Pass bf16_activations_pass;
const Pass bf16_activations_pass = {"bf16_activations", "With bf16 activations: values between the linears are bf16, their products too.", run};

}  // namespace headrace::passes
