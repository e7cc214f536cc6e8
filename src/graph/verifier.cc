// The written rules of legal IR. A pass that breaks one is our own bug: the error is internal and names the node.
#include <set>

#include "graph/graph.h"

namespace headrace {
namespace {

std::string place(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[id];
  return fmt::format("node {} {} ({})", id, node.name, node.op == nullptr ? "no op" : node.op->name);
}

bool in_range(const Graph& graph, ValueId id) { return id >= 0 && id < static_cast<ValueId>(graph.values.size()); }

// Values that stand before the first node: everything that no node computes.
Status check_source(const Graph& graph, ValueId id) {
  const Value& value = graph.values[id];
  if (value.producer != kNone) {
    return make_status(Code::internal, "value {} {}: only a computed value has a producer", id, value.name);
  }
  switch (value.role) {
    case ValueRole::input:
      if (value.type.kind == ValueType::Kind::tensor) break;
      return make_status(Code::internal, "input {}: must be a tensor", value.name);
    case ValueRole::weight: {
      if (value.type.kind != ValueType::Kind::weight || value.recipe.parts.empty()) {
        return make_status(Code::internal, "weight {}: wants a weight type and a recipe", value.name);
      }
      int64_t rows = 0;
      bool known = value.type.shape.rank() > 0 && value.type.shape[0].is_constant();
      for (const WeightPart& part : value.recipe.parts) {
        known = known && part.end >= 0;
        rows += part.end - part.begin;
        if (part.begin < 0 || (part.end >= 0 && part.end < part.begin)) {
          return make_status(Code::internal, "weight {}: part {} has rows [{}, {})", value.name, part.source,
                             part.begin, part.end);
        }
      }
      if (known && rows != value.type.shape[0].constant()) {
        return make_status(Code::internal, "weight {}: its parts hold {} rows, its shape {}", value.name, rows,
                           value.type.shape[0].constant());
      }
      break;
    }
    case ValueRole::state: break;
    case ValueRole::constant: {
      for (const Dim& dim : value.type.shape) {
        if (!dim.is_constant()) return make_status(Code::internal, "constant {}: symbolic shape", value.name);
      }
      if (!value.bytes.has_value()) return make_status(Code::internal, "constant {}: no bytes", value.name);
      break;
    }
    case ValueRole::computed: break;
  }
  return {};
}

Status check_inputs(const Graph& graph, NodeId id, const std::vector<bool>& defined) {
  const Node& node = graph.nodes[id];
  for (const ValueId input : node.inputs) {
    if (input == kNone) continue;
    if (!in_range(graph, input)) return make_status(Code::internal, "{}: reads value {}", place(graph, id), input);
    if (!defined[input]) {
      return make_status(Code::internal, "{}: reads {} (value {}) before it is defined", place(graph, id),
                         graph.values[input].name, input);
    }
    if (graph.values[input].role == ValueRole::state && !node.op->effects.reads_state &&
        !node.op->effects.writes_state) {
      return make_status(Code::internal, "{}: reads state {} but declares no effect on state", place(graph, id),
                         graph.values[input].name);
    }
  }
  return {};
}

Status check_outputs(const Graph& graph, NodeId id, std::vector<bool>& defined) {
  const Node& node = graph.nodes[id];
  const auto types = node.op->infer(graph.input_types(node), node.attrs);
  if (!types) return make_status(Code::internal, "{}: {}", place(graph, id), types.error().message());
  if (types->size() != node.outputs.size()) {
    return make_status(Code::internal, "{}: infer gives {} outputs, the node has {}", place(graph, id), types->size(),
                       node.outputs.size());
  }
  for (size_t index = 0; index < node.outputs.size(); ++index) {
    const ValueId output = node.outputs[index];
    if (!in_range(graph, output)) return make_status(Code::internal, "{}: writes value {}", place(graph, id), output);
    const Value& value = graph.values[output];
    if (value.role != ValueRole::computed || value.producer != id || defined[output]) {
      return make_status(Code::internal, "{}: output {} (value {}) belongs to node {}", place(graph, id), value.name,
                         output, value.producer);
    }
    if (!(value.type == (*types)[index])) {
      return make_status(Code::internal, "{}: output {} has type {} {}, infer says {} {}", place(graph, id), index,
                         dtype_name(value.type.dtype), value.type.shape.to_string(graph.symbols.names()),
                         dtype_name((*types)[index].dtype),
                         (*types)[index].shape.to_string(graph.symbols.names()));
    }
    defined[output] = true;
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  std::vector<bool> defined(graph.values.size());
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    if (graph.values[id].role == ValueRole::computed) continue;
    HR_RETURN_IF_ERROR(check_source(graph, id));
    defined[id] = true;
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (graph.nodes[id].dead) continue;
    if (graph.nodes[id].op == nullptr) return make_status(Code::internal, "{}", place(graph, id));
    HR_RETURN_IF_ERROR(check_inputs(graph, id, defined));
    HR_RETURN_IF_ERROR(check_outputs(graph, id, defined));
  }
  std::set<std::string_view> names;
  for (const GraphOutput& output : graph.outputs) {
    if (!in_range(graph, output.value) || !defined[output.value]) {
      return make_status(Code::internal, "output {}: value {} does not exist", output.name, output.value);
    }
    if (!names.insert(output.name).second) return make_status(Code::internal, "output {}: named twice", output.name);
  }
  return {};
}

}  // namespace headrace
