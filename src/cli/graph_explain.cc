// `headrace graph explain`: what an ONNX model holds.
#include <fmt/format.h>

#include <map>

#include "cli/graph_options.h"
#include "cli/terminal.h"

namespace headrace::cli {
namespace {

using onnx::Session;
using onnx::Type;

constexpr std::string_view kAboutExplain =
    "headrace graph explain - what an ONNX model holds\n\n"
    "Inputs, outputs and nodes in the order in which they run, with the types that the file declares.";
constexpr std::string_view kExamplesExplain = "  headrace graph explain model.onnx | grep Conv\n";


std::string shown_names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(name.empty() ? "-" : name);
  return fmt::format("{}", fmt::join(shown, ", "));
}

void explain_nodes(const std::vector<onnx::Node>& nodes, const std::map<std::string, Type>& types, int depth) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const onnx::Node& node = nodes[i];
    std::string line = fmt::format("{:{}}{}: {} -> {}", "", 2 * depth, node.describe(i), shown_names(node.inputs), shown_names(node.outputs));
    for (const std::string& output : node.outputs) {
      if (const auto type = types.find(output); type != types.end()) line += "  " + onnx::describe(type->second);
    }
    fmt::print("{}  reference\n", printable(line));
    for (const auto& [name, attribute] : node.attributes) {
      for (const auto& graph : attribute.graphs) {
        fmt::print("{:{}}{}:\n", "", 2 * depth + 2, printable(name));
        explain_nodes(graph->nodes, types, depth + 2);
      }
    }
  }
}

}  // namespace

Status graph_explain(const std::vector<std::string>& args) {
  Options options("graph explain", kAboutExplain, kExamplesExplain);
  std::string path;
  options.positional(path, "MODEL", "An ONNX file");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};

  HR_ASSIGN_OR_RETURN(const Session session, Session::load(path, {}));
  const onnx::Model& model = session.model();
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : model.opsets) opsets.push_back(fmt::format("{}{}{}", domain, domain.empty() ? "" : " ", version));
  fmt::print("IR {}, opset {}, {} nodes, {} initializers, {} functions\n", model.ir_version, printable(fmt::format("{}", fmt::join(opsets, ", "))),
             model.graph.nodes.size(), model.graph.initializers.size(), model.functions.size());
  std::map<std::string, Type> types;
  for (const auto* values : {&model.graph.values, &model.graph.outputs}) {
    for (const onnx::ValueInfo& value : *values) {
      if (value.type.kind != Type::Kind::unknown) types[value.name] = value.type;
    }
  }
  for (const onnx::ValueInfo& input : session.inputs()) {
    if (!session.may_be_left_out(input)) fmt::print("input {}: {}\n", printable(input.name), printable(onnx::describe(input.type)));
  }
  for (const onnx::ValueInfo& output : session.outputs()) fmt::print("output {}: {}\n", printable(output.name), printable(onnx::describe(output.type)));
  explain_nodes(model.graph.nodes, types, 0);
  for (const onnx::Function& function : model.functions) {
    fmt::print("function {} ({}) -> {}:\n", printable(function.name), printable(shown_names(function.inputs)), printable(shown_names(function.outputs)));
    explain_nodes(function.nodes, {}, 1);
  }
  return {};
}

}  // namespace headrace::cli
