#include "onnx/function.h"

#include <span>

namespace headrace::onnx {
namespace {

std::vector<Node> bind_attributes(std::span<const Node> nodes, const std::map<std::string, Attribute>& given) {
  std::vector<Node> bound(nodes.begin(), nodes.end());
  for (Node& node : bound) {
    for (auto it = node.attributes.begin(); it != node.attributes.end();) {
      Attribute& attribute = it->second;
      if (!attribute.reference.empty()) {
        const auto found = given.find(attribute.reference);
        if (found == given.end()) {
          it = node.attributes.erase(it);
          continue;
        }
        attribute = found->second;
      }
      for (std::shared_ptr<const Graph>& graph : attribute.graphs) {
        Graph copy = *graph;
        copy.nodes = bind_attributes(copy.nodes, given);
        graph = std::make_shared<const Graph>(std::move(copy));
      }
      ++it;
    }
  }
  return bound;
}

}  // namespace

FunctionTable::FunctionTable(const Model& model) {
  for (const Function& function : model.functions)
    functions_.emplace(std::tie(function.domain, function.name, function.overload), &function);
}

const Function* FunctionTable::find(std::string_view domain, std::string_view name, std::string_view overload) const {
  const auto found = functions_.find({domain, name, overload});
  return found == functions_.end() ? nullptr : found->second;
}

Result<std::vector<Node>> bind_function(const Function& function, const Node& call) {
  std::map<std::string, Attribute> given = function.defaults;
  for (const auto& [name, attribute] : call.attributes) given[name] = attribute;
  if (call.inputs.size() > function.inputs.size() || call.outputs.size() > function.outputs.size()) {
    return error(Code::malformed, "function {}: {} inputs and {} outputs asked for, it has {} and {}", function.name, call.inputs.size(),
                 call.outputs.size(), function.inputs.size(), function.outputs.size());
  }
  return bind_attributes(function.nodes, given);
}

}  // namespace headrace::onnx
