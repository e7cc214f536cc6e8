#include "onnx/inline_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "onnx/function.h"
#include "onnx/interpreter.h"

namespace headrace::onnx {

namespace {

// The new names of a body's values, and those around it.
class Renames {
 public:
  explicit Renames(const Renames* outer) : outer_(outer) {}
  void set(const std::string& from, std::string to) { names_[from] = std::move(to); }
  // Empty stays empty; what nobody defines keeps its name, for the checker of uses to refuse.
  std::string of(const std::string& name) const {
    for (const Renames* scope = this; scope != nullptr; scope = scope->outer_) {
      const auto found = scope->names_.find(name);
      if (found != scope->names_.end()) return found->second;
    }
    return name;
  }
  bool has(const std::string& name) const { return names_.contains(name); }

 private:
  const Renames* outer_;
  std::map<std::string, std::string> names_;
};

class Inliner {
 public:
  explicit Inliner(const Model& model) : functions_(model) {
    while (graph_uses(model.graph, mark_)) mark_ += "'";
  }

  Result<std::vector<Node>> nodes(const std::vector<Node>& from, int depth) {
    if (depth > Interpreter::kMaxDepth) {
      return error(Code::resource_exhausted, "graphs and functions deeper than {}", Interpreter::kMaxDepth);
    }
    std::vector<Node> to;
    for (size_t i = 0; i < from.size(); ++i) {
      const Function* function = functions_.find(from[i]);
      const Status status = function == nullptr ? keep(from[i], depth, to) : call(*function, from[i], depth, to);
      if (!status.ok()) return tl::unexpected(status.with_context(from[i].describe(i)));
    }
    return to;
  }

 private:
  static bool graph_uses(const Graph& graph, const std::string& mark) {
    const auto uses = [&](const std::string& name) { return name.find(mark) != std::string::npos; };
    for (const ValueInfo& input : graph.inputs) {
      if (uses(input.name)) return true;
    }
    for (const auto& [name, tensor] : graph.initializers) {
      if (uses(name)) return true;
    }
    for (const Node& node : graph.nodes) {
      if (std::ranges::any_of(node.outputs, uses) || std::ranges::any_of(node.inputs, uses)) return true;
      for (const auto& [name, attribute] : node.attributes) {
        for (const auto& inner : attribute.graphs) {
          if (graph_uses(*inner, mark)) return true;
        }
      }
    }
    return false;
  }

  Status count() {
    if (++num_nodes_ <= Interpreter::kMaxNodes) return {};
    return make_status(Code::resource_exhausted, "functions expand to more than {} nodes", Interpreter::kMaxNodes);
  }

  Status keep(Node node, int depth, std::vector<Node>& to) {
    HR_RETURN_IF_ERROR(count());
    for (auto& [name, attribute] : node.attributes) {
      for (std::shared_ptr<const Graph>& graph : attribute.graphs) {
        Graph copy = *graph;
        HR_ASSIGN_OR_RETURN(copy.nodes, nodes(graph->nodes, depth + 1));
        graph = std::make_shared<const Graph>(std::move(copy));
      }
    }
    to.push_back(std::move(node));
    return {};
  }

  Status call(const Function& function, const Node& call, int depth, std::vector<Node>& to) {
    HR_RETURN_IF_ERROR(count());
    HR_ASSIGN_OR_RETURN(std::vector<Node> body, bind_function(function, call));
    const std::string prefix = fmt::format("{}{}{}/", function.name, mark_, ++num_calls_);
    Renames names(nullptr);
    for (size_t i = 0; i < function.inputs.size(); ++i) names.set(function.inputs[i], i < call.inputs.size() ? call.inputs[i] : "");
    std::vector<Node> passed;  // outputs that are inputs
    for (size_t i = 0; i < function.outputs.size(); ++i) {
      const std::string wanted = i < call.outputs.size() ? call.outputs[i] : "";
      if (wanted.empty()) continue;
      if (names.has(function.outputs[i])) {
        const std::string input = names.of(function.outputs[i]);
        passed.push_back({.name = call.name, .op = "Identity", .inputs = {input}, .outputs = {wanted}, .opset = 13});
      } else {
        names.set(function.outputs[i], wanted);
      }
    }
    rename(body, prefix, function.opsets, call.name, names);
    HR_ASSIGN_OR_RETURN(const std::vector<Node> inner, nodes(body, depth + 1));
    to.insert(to.end(), inner.begin(), inner.end());
    to.insert(to.end(), passed.begin(), passed.end());
    return {};
  }

  // Nodes in their order: what one writes is known to those behind it.
  void rename(std::vector<Node>& nodes, const std::string& prefix, const std::map<std::string, int64_t>& opsets, const std::string& caller,
              Renames& names) const {
    for (Node& node : nodes) {
      if (node.opset == 0) {
        const auto opset = opsets.find(node.domain);
        node.opset = opset == opsets.end() ? 0 : opset->second;
      }
      if (!caller.empty()) node.name = node.name.empty() ? caller : caller + "/" + node.name;
      for (std::string& input : node.inputs) input = names.of(input);
      for (auto& [name, attribute] : node.attributes) {
        for (std::shared_ptr<const Graph>& graph : attribute.graphs) graph = renamed(*graph, prefix, opsets, caller, names);
      }
      for (std::string& output : node.outputs) {
        if (!output.empty() && !names.has(output)) names.set(output, prefix + output);
        output = names.of(output);
      }
    }
  }

  std::shared_ptr<const Graph> renamed(const Graph& graph, const std::string& prefix, const std::map<std::string, int64_t>& opsets,
                                       const std::string& caller, const Renames& outer) const {
    Graph copy = graph;
    Renames names(&outer);
    for (ValueInfo& input : copy.inputs) {
      names.set(input.name, prefix + input.name);
      input.name = prefix + input.name;
    }
    copy.initializers.clear();
    for (const auto& [name, tensor] : graph.initializers) {
      names.set(name, prefix + name);
      copy.initializers.emplace(prefix + name, tensor);
    }
    rename(copy.nodes, prefix, opsets, caller, names);
    for (ValueInfo& output : copy.outputs) output.name = names.of(output.name);
    copy.values.clear();
    return std::make_shared<const Graph>(std::move(copy));
  }

  const FunctionTable functions_;
  std::string mark_ = "#";  // in no name of the model's own
  int64_t num_nodes_ = 0, num_calls_ = 0;
};

}  // namespace

Result<Model> inline_functions(Model model) {
  HR_ASSIGN_OR_RETURN(model.graph.nodes, Inliner(model).nodes(model.graph.nodes, 0));
  model.functions.clear();
  return model;
}

}  // namespace headrace::onnx
