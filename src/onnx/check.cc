// What a model must keep beyond the types of its structs, so that running it ends and never reads what is not there.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "io/shown_name.h"
#include "onnx/file.h"
#include "onnx/function.h"
#include "onnx/op.h"

namespace headrace::onnx {
namespace {

using io::shown_name;

constexpr int kMaxCallDepth = 32;                          // functions within functions
constexpr uint64_t kMaxInlinedNodes = uint64_t{1} << 20;   // of all functions' bodies, once they stand where they are called
constexpr uint64_t kMaxInlinedBytes = uint64_t{1} << 30;   // of the same: names, attributes, what the graphs in them hold
constexpr uint64_t kEntryBytes = 64;                       // of a name or a map's entry, beside its text

uint64_t text_bytes(std::span<const std::string> texts) {
  uint64_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size() + kEntryBytes;
  return bytes;
}

// What a copy of the node takes, the nodes of its graphs aside. Tensors are shared.
uint64_t copy_bytes(const Node& node) {
  uint64_t bytes = sizeof(Node) + node.name.size() + text_bytes(node.inputs) + text_bytes(node.outputs);
  for (const auto& [name, attribute] : node.attributes) {
    bytes += sizeof(Attribute) + name.size() + attribute.text.size() + text_bytes(attribute.texts);
    bytes += attribute.numbers.size() * sizeof(float) + attribute.integers.size() * sizeof(int64_t);
    bytes += attribute.tensors.size() * sizeof(Tensor);
    for (const auto& graph : attribute.graphs) {
      for (const auto& [value, tensor] : graph->initializers) bytes += value.size() + sizeof(Tensor) + kEntryBytes;
      for (const auto* list : {&graph->inputs, &graph->outputs, &graph->values}) {
        for (const ValueInfo& info : *list) {
          bytes += info.name.size() + sizeof(ValueInfo) + (info.type.shape ? info.type.shape->size() : 0) * kEntryBytes;
        }
      }
    }
  }
  return bytes;
}

struct Scope {
  const Scope* outer = nullptr;
  std::set<std::string_view> names;

  bool knows(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      if (scope->names.contains(name)) return true;
    }
    return false;
  }
};

class Checker {
 public:
  explicit Checker(const Model& model) : model_(model), functions_(model) {}

  Status check();

 private:
  // What a function costs when it stands where it is called.
  struct Cost {
    uint64_t nodes = 0;
    uint64_t bytes = 0;
    int depth = 0;  // of calls within it
  };
  using Opsets = std::map<std::string, int64_t>;

  Status check_function(const Function& function);
  Status check_graph(const Graph& graph, const Opsets& opsets, const Scope* outer, const Function* function, int depth);
  Status check_nodes(std::span<const Node> nodes, const Opsets& opsets, Scope& scope, const Function* function, int depth);
  Status check_operator(const Node& node, const Opsets& opsets);
  Status check_reference(const Attribute& attribute, const Function* function);
  Result<Cost> cost_of(std::span<const Node> nodes, int depth);
  Result<Cost> cost_of(const Function& function, int depth);

  const Model& model_;
  const FunctionTable functions_;
  std::map<const Function*, Cost> costs_;
};

Status Checker::check_operator(const Node& node, const Opsets& opsets) {
  if (functions_.find(node) != nullptr) return {};
  const auto opset = opsets.find(node.domain);
  if (opset == opsets.end()) {
    return make_status(Code::malformed, "no opset is imported for the domain \"{}\"", shown_name(node.domain));
  }
  if (!node.domain.empty()) {
    return make_status(Code::unsupported, "no operator {}.{}", shown_name(node.domain), shown_name(node.op));
  }
  if (find_op(node.op, opset->second) != nullptr) return {};
  return make_status(Code::unsupported, "no operator {} in opset {}", shown_name(node.op), opset->second);
}

Status Checker::check_reference(const Attribute& attribute, const Function* function) {
  if (attribute.reference.empty()) return {};
  if (function == nullptr) return make_status(Code::malformed, "a reference outside of a function");
  const auto& names = function->attributes;
  if (std::find(names.begin(), names.end(), attribute.reference) == names.end() && !function->defaults.contains(attribute.reference)) {
    return make_status(Code::malformed, "the function has no attribute {}", shown_name(attribute.reference));
  }
  return {};
}

Status Checker::check_nodes(std::span<const Node> nodes, const Opsets& opsets, Scope& scope, const Function* function, int depth) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    for (const std::string& name : node.inputs) {
      if (name.empty() || scope.knows(name)) continue;
      for (size_t k = i; k < nodes.size(); ++k) {
        const auto& outputs = nodes[k].outputs;
        if (std::find(outputs.begin(), outputs.end(), name) == outputs.end()) continue;
        return make_status(Code::malformed, "{}: it reads \"{}\", which {} writes: a cycle, or nodes out of order", node.describe(i),
                           shown_name(name), k == i ? "itself" : nodes[k].describe(k));
      }
      return make_status(Code::malformed, "{}: nothing writes its input \"{}\"", node.describe(i), shown_name(name));
    }
    if (const Status status = check_operator(node, opsets); !status.ok()) return status.with_context(node.describe(i));
    for (const auto& [name, attribute] : node.attributes) {
      Status status = check_reference(attribute, function);
      for (size_t k = 0; status.ok() && k < attribute.graphs.size(); ++k) {
        status = check_graph(*attribute.graphs[k], opsets, &scope, function, depth + 1);
      }
      if (!status.ok()) return status.with_context(fmt::format("{}: attribute {}", node.describe(i), shown_name(name)));
    }
    for (const std::string& name : node.outputs) {
      if (!name.empty() && !scope.names.insert(name).second) {
        return make_status(Code::malformed, "{}: its output \"{}\" is written before", node.describe(i), shown_name(name));
      }
    }
  }
  return {};
}

Status Checker::check_graph(const Graph& graph, const Opsets& opsets, const Scope* outer, const Function* function, int depth) {
  if (depth > kMaxGraphDepth) return make_status(Code::resource_exhausted, "graphs nested deeper than {}", kMaxGraphDepth);
  Scope scope{outer, {}};
  for (const ValueInfo& input : graph.inputs) {
    if (input.name.empty()) return make_status(Code::malformed, "an input without a name");
    if (!scope.names.insert(input.name).second) return make_status(Code::malformed, "input \"{}\": there twice", shown_name(input.name));
  }
  for (const auto& [name, tensor] : graph.initializers) scope.names.insert(name);
  HR_RETURN_IF_ERROR(check_nodes(graph.nodes, opsets, scope, function, depth));
  std::set<std::string_view> outputs;
  for (const ValueInfo& output : graph.outputs) {
    if (!scope.knows(output.name)) return make_status(Code::malformed, "nothing writes the output \"{}\"", shown_name(output.name));
    if (outer == nullptr && !outputs.insert(output.name).second) {
      return make_status(Code::malformed, "output \"{}\": there twice", shown_name(output.name));
    }
  }
  return {};
}

Status Checker::check_function(const Function& function) {
  Scope scope;
  for (const std::string& input : function.inputs) {
    if (!scope.names.insert(input).second) return make_status(Code::malformed, "input \"{}\": there twice", shown_name(input));
  }
  for (const auto& [name, attribute] : function.defaults) HR_RETURN_IF_ERROR(check_reference(attribute, nullptr));
  HR_RETURN_IF_ERROR(check_nodes(function.nodes, function.opsets, scope, &function, 0));
  for (const std::string& output : function.outputs) {
    if (!scope.knows(output)) return make_status(Code::malformed, "nothing writes the output \"{}\"", shown_name(output));
  }
  return {};
}

Result<Checker::Cost> Checker::cost_of(std::span<const Node> nodes, int depth) {
  Cost cost;
  const auto add = [&](const Cost& other, int deeper) {
    cost.nodes = std::min(cost.nodes + other.nodes, kMaxInlinedNodes + 1);  // no overflow
    cost.bytes = std::min(cost.bytes + other.bytes, kMaxInlinedBytes + 1);
    cost.depth = std::max(cost.depth, other.depth + deeper);
  };
  for (const Node& node : nodes) {
    if (const Function* function = functions_.find(node)) {
      HR_ASSIGN_OR_RETURN(Cost call, cost_of(*function, depth + 1));
      // Each node takes the caller's name before its own, its values the function's.
      call.bytes += call.nodes * (node.name.size() + function->name.size() + kEntryBytes);
      add(call, 1);
    }
    for (const auto& [name, attribute] : node.attributes) {
      for (const auto& graph : attribute.graphs) {
        HR_ASSIGN_OR_RETURN(const Cost body, cost_of(graph->nodes, depth));
        add(body, 0);
      }
    }
    add({.bytes = copy_bytes(node)}, 0);
  }
  return cost;
}

Result<Checker::Cost> Checker::cost_of(const Function& function, int depth) {
  if (const auto known = costs_.find(&function); known != costs_.end()) return known->second;
  if (depth > kMaxCallDepth) {
    return error(Code::resource_exhausted, "function {}: calls itself, or functions call each other deeper than {}", shown_name(function.name),
                 kMaxCallDepth);
  }
  HR_ASSIGN_OR_RETURN(Cost cost, cost_of(function.nodes, depth));
  cost.nodes += function.nodes.size();
  if (cost.nodes > kMaxInlinedNodes) {
    return error(Code::resource_exhausted, "function {}: more than {} nodes with what it calls", shown_name(function.name), kMaxInlinedNodes);
  }
  if (cost.bytes > kMaxInlinedBytes) {
    return error(Code::resource_exhausted, "function {}: more than {} bytes with what it calls", shown_name(function.name),
                 kMaxInlinedBytes);
  }
  if (depth + cost.depth > kMaxCallDepth) {
    return error(Code::resource_exhausted, "function {}: functions call each other deeper than {}", shown_name(function.name), kMaxCallDepth);
  }
  costs_[&function] = cost;
  return cost;
}

Status Checker::check() {
  for (const Function& function : model_.functions) {
    if (functions_.find(function.domain, function.name, function.overload) != &function) {
      return make_status(Code::malformed, "function {}: there twice", shown_name(function.name));
    }
  }
  for (const Function& function : model_.functions) {
    const std::string what = "function " + shown_name(function.name);
    if (const Status status = check_function(function); !status.ok()) return status.with_context(what);
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const Cost alone, cost_of(function, 1));
  }
  HR_RETURN_IF_ERROR(check_graph(model_.graph, model_.opsets, nullptr, nullptr, 1));
  if (model_.functions.empty()) return {};
  HR_ASSIGN_OR_RETURN(const Cost inlined, cost_of(model_.graph.nodes, 0));
  if (inlined.nodes > kMaxInlinedNodes || inlined.bytes > kMaxInlinedBytes) {
    return make_status(Code::resource_exhausted, "its functions' nodes are more than {}, or {} bytes, where they are called",
                       kMaxInlinedNodes, kMaxInlinedBytes);
  }
  return {};
}

}  // namespace

Status check_model(const Model& model) { return Checker(model).check(); }

}  // namespace headrace::onnx
