#include "onnx/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "onnx/op.h"

namespace headrace::onnx {
namespace {

constexpr int kMaxDepth = 64;  // graphs and functions within each other

// The names of one graph or function body, and what surrounds it.
struct Scope {
  const Scope* outer = nullptr;
  std::map<std::string, Value, std::less<>> values;

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      const auto found = scope->values.find(name);
      if (found != scope->values.end()) return &found->second;
    }
    return nullptr;
  }
};

class Run {
 public:
  Run(const Model& model, const RunLimits& limits) : model_(model), left_(limits), limits_(limits) {}

  Status run_nodes(std::span<const Node> nodes, const std::map<std::string, int64_t>& opsets, std::span<const std::string> kept, Scope& scope,
                   int depth);
  Result<std::vector<Value>> run_graph(const Graph& graph, std::vector<Value> inputs, const std::map<std::string, int64_t>& opsets,
                                       const Scope* outer, int depth);
  Status charge(uint64_t bytes);

 private:
  Result<std::vector<Value>> run_node(const Node& node, const std::map<std::string, int64_t>& opsets, std::span<const Value> inputs,
                                      const Scope& scope, int depth);
  Result<std::vector<Value>> run_function(const Function& function, const Node& call, std::span<const Value> inputs, int depth);
  const Function* find_function(const Node& node) const;

  const Model& model_;
  RunLimits left_;
  const RunLimits limits_;
};

class Subgraphs final : public GraphRunner {
 public:
  Subgraphs(Run& run, const std::map<std::string, int64_t>& opsets, const Scope& scope, int depth)
      : run_(run), opsets_(opsets), scope_(scope), depth_(depth) {}
  Result<std::vector<Value>> run(const Graph& graph, std::vector<Value> inputs) override {
    return run_.run_graph(graph, std::move(inputs), opsets_, &scope_, depth_ + 1);
  }
  Status charge(uint64_t bytes) override { return run_.charge(bytes); }

 private:
  Run& run_;
  const std::map<std::string, int64_t>& opsets_;
  const Scope& scope_;
  const int depth_;
};

Status Run::charge(uint64_t bytes) {
  if (bytes > left_.made_bytes) return make_status(Code::resource_exhausted, "more than {} bytes in the tensors of a run", limits_.made_bytes);
  left_.made_bytes -= bytes;
  return {};
}

// Every name that a graph or the graphs inside it read.
void list_reads(std::span<const Node> nodes, std::vector<std::string>& names) {
  for (const Node& node : nodes) {
    names.insert(names.end(), node.inputs.begin(), node.inputs.end());
    for (const auto& [name, attribute] : node.attributes) {
      for (const auto& graph : attribute.graphs) {
        list_reads(graph->nodes, names);
        for (const ValueInfo& output : graph->outputs) names.push_back(output.name);
      }
    }
  }
}

Status Run::run_nodes(std::span<const Node> nodes, const std::map<std::string, int64_t>& opsets, std::span<const std::string> kept,
                      Scope& scope, int depth) {
  if (depth > kMaxDepth) return make_status(Code::resource_exhausted, "graphs and functions deeper than {}", kMaxDepth);
  // The last node that reads each name: behind it the value goes.
  std::map<std::string, size_t, std::less<>> last_read;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::string> names;
    list_reads(nodes.subspan(i, 1), names);
    for (const std::string& name : names) last_read[name] = i;
  }
  for (const std::string& name : kept) last_read[name] = nodes.size();
  std::vector<std::vector<std::string>> ends(nodes.size());
  for (const auto& [name, index] : last_read) {
    if (index < nodes.size()) ends[index].push_back(name);
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (left_.nodes == 0) return make_status(Code::resource_exhausted, "{}: more than {} nodes in a run", node.describe(i), limits_.nodes);
    --left_.nodes;
    std::vector<Value> inputs;
    for (const std::string& name : node.inputs) {
      const Value* value = name.empty() ? nullptr : scope.find(name);
      if (value == nullptr && !name.empty()) return make_status(Code::malformed, "{}: no value \"{}\"", node.describe(i), name);
      inputs.push_back(value == nullptr ? Value() : *value);
    }
    auto outputs = run_node(node, opsets, inputs, scope, depth);
    if (!outputs) return outputs.error().with_context(node.describe(i));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].empty() && last_read.contains(node.outputs[k])) scope.values[node.outputs[k]] = std::move((*outputs)[k]);
    }
    for (const std::string& name : ends[i]) scope.values.erase(name);
  }
  return {};
}

Result<std::vector<Value>> Run::run_graph(const Graph& graph, std::vector<Value> inputs, const std::map<std::string, int64_t>& opsets,
                                          const Scope* outer, int depth) {
  Scope scope{outer, {}};
  for (const auto& [name, tensor] : graph.initializers) scope.values[name] = tensor;
  if (inputs.size() > graph.inputs.size()) {
    return error(Code::malformed, "graph {}: {} inputs given, it has {}", graph.name, inputs.size(), graph.inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].has_value()) scope.values[graph.inputs[i].name] = std::move(inputs[i]);
  }
  std::vector<std::string> kept;
  for (const ValueInfo& output : graph.outputs) kept.push_back(output.name);
  HR_RETURN_IF_ERROR(run_nodes(graph.nodes, opsets, kept, scope, depth));
  std::vector<Value> outputs;
  for (const std::string& name : kept) {
    const Value* value = scope.find(name);
    if (value == nullptr) return error(Code::malformed, "graph {}: no value for output \"{}\"", graph.name, name);
    outputs.push_back(*value);
  }
  return outputs;
}

const Function* Run::find_function(const Node& node) const {
  const auto found = std::ranges::find_if(model_.functions, [&](const Function& function) {
    return function.name == node.op && function.domain == node.domain && function.overload == node.overload;
  });
  return found == model_.functions.end() ? nullptr : &*found;
}

Result<std::vector<Value>> Run::run_node(const Node& node, const std::map<std::string, int64_t>& opsets, std::span<const Value> inputs,
                                         const Scope& scope, int depth) {
  if (const Function* function = find_function(node)) return run_function(*function, node, inputs, depth);
  const auto opset = opsets.find(node.domain);
  const OpRow* row = opset == opsets.end() || !node.domain.empty() ? nullptr : find_op(node.op, opset->second);
  if (row == nullptr) {
    return error(Code::unsupported, "no operator {}{}{}{}", node.domain, node.domain.empty() ? "" : ".", node.op,
                 opset == opsets.end() ? ", whose domain the model does not import" : fmt::format(" in opset {}", opset->second));
  }
  Subgraphs graphs(*this, opsets, scope, depth);
  OpContext context(node, opset->second, inputs, graphs);
  HR_RETURN_IF_ERROR(row->run(context));
  return context.take_outputs();
}

// The attributes of a function's body that refer to the function's own get the call's values, or the defaults; those that have neither go.
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

Result<std::vector<Value>> Run::run_function(const Function& function, const Node& call, std::span<const Value> inputs, int depth) {
  std::map<std::string, Attribute> given = function.defaults;
  for (const auto& [name, attribute] : call.attributes) given[name] = attribute;
  Scope scope;
  if (inputs.size() > function.inputs.size()) {
    return error(Code::malformed, "function {}: {} inputs given, it has {}", function.name, inputs.size(), function.inputs.size());
  }
  for (size_t i = 0; i < function.inputs.size(); ++i) scope.values[function.inputs[i]] = i < inputs.size() ? inputs[i] : Value();
  HR_RETURN_IF_ERROR(run_nodes(bind_attributes(function.nodes, given), function.opsets, function.outputs, scope, depth + 1));
  std::vector<Value> outputs;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Value* value = i < function.outputs.size() ? scope.find(function.outputs[i]) : nullptr;
    if (value == nullptr) return error(Code::malformed, "function {}: no value for output {}", function.name, i);
    outputs.push_back(*value);
  }
  return outputs;
}

Status check_input(const ValueInfo& wanted, const Value& got) {
  if (wanted.type.kind == Type::Kind::unknown) return {};
  const Tensor* tensor = got.tensor();
  if ((wanted.type.kind == Type::Kind::tensor) != (tensor != nullptr)) {
    return make_status(Code::invalid_argument, "input {}: want {}", wanted.name,
                       wanted.type.kind == Type::Kind::tensor ? "a tensor" : "a sequence or an optional");
  }
  if (tensor == nullptr) return {};
  if (tensor->dtype() != wanted.type.dtype) {
    return make_status(Code::invalid_argument, "input {}: want {}, got {}", wanted.name, dtype_name(wanted.type.dtype), dtype_name(tensor->dtype()));
  }
  if (!wanted.type.shape) return {};
  const auto& shape = *wanted.type.shape;
  bool fits = shape.size() == tensor->dims().size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i].value < 0 || shape[i].value == tensor->dims()[i];
  if (fits) return {};
  std::vector<std::string> dims;
  for (const Type::Dim& dim : shape) dims.push_back(dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : dim.symbol);
  return make_status(Code::invalid_argument, "input {}: want dims [{}], got [{}]", wanted.name, fmt::join(dims, ", "), fmt::join(tensor->dims(), ", "));
}

}  // namespace

Result<std::map<std::string, Value>> interpret(const Model& model, const std::map<std::string, Value>& inputs, const RunLimits& limits) {
  std::vector<Value> bound;
  for (const ValueInfo& input : model.graph.inputs) {
    const auto found = inputs.find(input.name);
    if (found == inputs.end() && !model.graph.initializers.contains(input.name)) {
      return error(Code::invalid_argument, "input {}: not given", input.name);
    }
    if (found != inputs.end()) HR_RETURN_IF_ERROR(check_input(input, found->second));
    bound.push_back(found == inputs.end() ? Value() : found->second);
  }
  for (const auto& [name, value] : inputs) {
    const bool known = std::ranges::find(model.graph.inputs, name, &ValueInfo::name) != model.graph.inputs.end();
    if (!known) return error(Code::invalid_argument, "input {}: the model has none of that name", name);
  }
  HR_ASSIGN_OR_RETURN(std::vector<Value> results, Run(model, limits).run_graph(model.graph, std::move(bound), model.opsets, nullptr, 0));
  std::map<std::string, Value> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs[model.graph.outputs[i].name] = std::move(results[i]);
  return outputs;
}

}  // namespace headrace::onnx
