#include "onnx/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "onnx/file.h"
#include "onnx/lower.h"

namespace headrace::onnx {
namespace {

// The program's graph with the model's names, its outputs in the model's order.
Result<headrace::Graph> graph_of(const Session& session, const Section::Plan& plan, const std::map<int, ValueFact>& facts) {
  const Scope& scope = session.compiled()->scope();
  if (!plan.host_steps.empty()) {
    const Section::HostStep& host = plan.host_steps.front();
    return error(Code::unsupported, "{}: {}", scope.describe(scope.step(host.index)), host.reason);
  }
  headrace::Graph graph;
  std::map<int, ValueId> values;  // by number of the scope
  if (plan.program != nullptr) {
    graph = plan.program->program->graph();
    for (const auto& [id, value] : plan.program->inputs) values[id] = value;
    for (const auto& [id, value] : plan.program->outputs) values[id] = value;
  }
  for (size_t i = 0; i < session.inputs().size(); ++i) {
    const int id = scope.inputs[i];
    const ValueFact& fact = facts.at(id);
    if (fact.left_out || values.contains(id)) continue;
    const ValueType type = value_type(fact);
    values[id] = graph.add_input(session.inputs()[i].name, type.dtype, type.shape);
  }
  for (const auto& [id, tensor] : plan.constants) {
    const ValueType type = value_type(tensor.dtype(), tensor.dims());
    values[id] = graph.add_constant_bytes(scope.names[static_cast<size_t>(id)], type.dtype, type.shape, tensor.share());
  }
  graph.outputs.clear();
  for (size_t i = 0; i < session.outputs().size(); ++i) {
    const auto found = values.find(scope.outputs[i]);
    if (found == values.end()) return error(Code::internal, "output {}: no value of the program", session.outputs()[i].name);
    graph.set_output(session.outputs()[i].name, found->second);
  }
  return graph;
}

}  // namespace

Result<Model> optimize(const Session& session, const OptimizeOptions& options) {
  if (session.compiled() == nullptr) return error(Code::invalid_argument, "a session of reference operators has no program to write");
  HR_ASSIGN_OR_RETURN(const auto facts, session.input_facts(options.dims));
  HR_ASSIGN_OR_RETURN(const std::shared_ptr<Section::Plan> plan, session.compiled()->section().compile(facts));
  HR_ASSIGN_OR_RETURN(const headrace::Graph graph, graph_of(session, *plan, facts));
  const Model& from = session.model();
  const auto opset = from.opsets.find("");
  const int64_t own = opset == from.opsets.end() ? 0 : opset->second;
  const int64_t wanted = options.opset != 0 ? options.opset : std::max(own, kMinExportOpset);
  HR_ASSIGN_OR_RETURN(Model model, to_onnx(graph, {.opset = wanted, .producer = "headrace"}));
  // In the order of the file; the graph has them in the order in which it met them.
  std::map<std::string_view, size_t> places;
  for (const ValueInfo& input : session.inputs()) places.emplace(input.name, places.size());
  std::ranges::sort(model.graph.inputs, {}, [&](const ValueInfo& input) { return places[input.name]; });
  model.graph.name = from.graph.name.empty() ? model.graph.name : from.graph.name;
  model.metadata = from.metadata;
  return model;
}

}  // namespace headrace::onnx
