#include "graph/explain.h"

#include <map>
#include <nlohmann/json.hpp>

#include "quant/layout.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

std::string_view device_name(DeviceKind device) { return device == DeviceKind::cpu ? "cpu" : "cuda"; }
std::string_view layout_name(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::row_major: return "row_major";
    case WeightLayout::dense_f32: return "dense_f32";
    case WeightLayout::tile16: return "tile16";
  }
  return "?";
}

bool reads_matrix(const Graph& graph, const Node& node) {
  for (const ValueId input : node.inputs) {
    if (input == kNone) continue;
    const ValueType& type = graph.values[input].type;
    if (type.kind == ValueType::Kind::weight && type.shape.rank() == 2) return true;
  }
  return false;
}

const Kernel* kernel_of(const PlanFacts& facts, NodeId id) {
  return id < static_cast<NodeId>(facts.kernels.size()) ? facts.kernels[id] : nullptr;
}

std::string kernel_text(const Graph& graph, const PlanFacts& facts, NodeId id) {
  const Node& node = graph.nodes[id];
  if (node.op->effects.view) return "view";
  const Kernel* kernel = kernel_of(facts, id);
  if (kernel == nullptr) return "-";
  std::string text = fmt::format("{}/{}", device_name(kernel->device), kernel->name);
  if (reads_matrix(graph, node)) text += fmt::format(" {}", layout_name(kernel->layout));
  return text;
}

// "@1536" an arena offset, "=%12" the storage of another value.
std::string place_text(const PlanFacts& facts, const Node& node) {
  if (facts.memory == nullptr) return {};
  std::string text;
  for (const ValueId output : node.outputs) {
    const ValueId storage = facts.memory->storage_of[output];
    if (!text.empty()) text += ",";
    text += storage == output ? fmt::format("@{}", facts.memory->value_offset[output]) : fmt::format("=%{}", storage);
  }
  return text;
}

// What a token of context takes of the KV cache, over all layers.
int64_t kv_bytes_per_token(const Graph& graph) {
  int64_t bytes = 0;
  for (const Value& value : graph.values) {
    if (value.type.kind == ValueType::Kind::kv) bytes += value.type.kv.token_bytes();
  }
  return bytes;
}

std::string symbols_text(const Graph& graph, const Bindings& bucket) {
  std::string text;
  for (int symbol = 0; symbol < graph.symbols.size(); ++symbol) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", graph.symbols.names()[symbol],
                        bucket.get(static_cast<SymbolId>(symbol)));
  }
  return text;
}

std::string op_counts(const Graph& graph) {
  std::map<std::string_view, int> counts;
  for (const Node& node : graph.nodes) ++counts[node.op->name];
  std::string text;
  for (const auto& [name, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  return text;
}

Json output_json(const Graph& graph, const PlanFacts& facts, ValueId id) {
  const ValueType& type = graph.values[id].type;
  Json output = {{"value", id},
                 {"dtype", dtype_name(type.dtype)},
                 {"shape", type.shape.to_string(graph.symbols.names())}};
  if (facts.memory != nullptr) {
    output["bytes"] = type.shape.elements(facts.bucket) * static_cast<int64_t>(dtype_bytes(type.dtype));
    output["offset"] = facts.memory->value_offset[facts.memory->storage_of[id]];
    output["storage"] = facts.memory->storage_of[id];
  }
  return output;
}

Json node_json(const Graph& graph, const PlanFacts& facts, NodeId id) {
  const Node& node = graph.nodes[id];
  Json json = {{"id", id},
               {"op", node.op->name},
               {"name", node.name},
               {"line", graph.node_to_string(id)},
               {"attrs", node.attrs.describe()},
               {"inputs", Json::array()},
               {"outputs", Json::array()}};
  for (const ValueId input : node.inputs) {
    json["inputs"].push_back(input == kNone ? Json() : Json(graph.values[input].name));
  }
  for (const ValueId output : node.outputs) json["outputs"].push_back(output_json(graph, facts, output));
  if (const Kernel* kernel = kernel_of(facts, id)) {
    json["kernel"] = {{"name", kernel->name},
                      {"device", device_name(kernel->device)},
                      {"isa", isa_name(kernel->isa)},
                      {"priority", kernel->priority},
                      {"layout", layout_name(kernel->layout)},
                      {"row_invariant", kernel->row_invariant}};
  }
  return json;
}

}  // namespace

std::string explain_text(const Graph& graph, const PlanFacts& facts) {
  std::string text;
  if (!facts.passes.empty()) text += "passes\n";
  for (const PassReport& pass : facts.passes) {
    text += fmt::format("  {:<24}{}\n", pass.name,
                        pass.skipped ? "skipped" : fmt::format("{:>5} hits {:>9.3f} ms", pass.hits, pass.ms));
  }
  text += fmt::format("nodes: {} ({})\n", graph.nodes.size(), op_counts(graph));
  for (size_t index = 0; index < graph.nodes.size(); ++index) {
    const auto id = static_cast<NodeId>(index);
    if (graph.nodes[index].dead) continue;
    text += fmt::format("{:>5} ", id);
    if (!facts.kernels.empty()) text += fmt::format("{:<24} ", kernel_text(graph, facts, id));
    if (facts.memory != nullptr) text += fmt::format("{:<10} ", place_text(facts, graph.nodes[index]));
    text += graph.node_to_string(id) + "\n";
  }
  for (const GraphOutput& output : graph.outputs) {
    text += fmt::format("output {} = %{}\n", output.name, output.value);
  }
  if (facts.memory != nullptr) {
    text += fmt::format("memory for {}\n", symbols_text(graph, facts.bucket));
    const auto row = [&](std::string_view name, int64_t bytes, std::string_view what) {
      text += fmt::format("  {:<16}{:>14} bytes  {}\n", name, bytes, what);
    };
    row("planned peak", facts.memory->arena_bytes, "what the arena takes");
    row("live-set bound", facts.memory->live_set_bound, "no plan can take less");
    row("naive sum", facts.memory->naive_bytes, "every value in a place of its own");
    if (const int64_t bytes = kv_bytes_per_token(graph); bytes > 0) {
      row("kv cache", bytes, "for each token of context, beside the arena");
    }
    text += fmt::format("stages: {}, at whose ends the threads wait for each other\n", facts.memory->num_stages);
  }
  return text;
}

std::string explain_json(const Graph& graph, const PlanFacts& facts) {
  Json json;
  json["passes"] = Json::array();
  for (const PassReport& pass : facts.passes) {
    json["passes"].push_back(
        {{"name", pass.name}, {"hits", pass.hits}, {"ms", pass.ms}, {"skipped", pass.skipped}});
  }
  if (facts.memory != nullptr) {
    for (int symbol = 0; symbol < graph.symbols.size(); ++symbol) {
      json["bucket"][graph.symbols.names()[symbol]] = facts.bucket.get(static_cast<SymbolId>(symbol));
    }
  }
  json["nodes"] = Json::array();
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    if (!graph.nodes[id].dead) json["nodes"].push_back(node_json(graph, facts, static_cast<NodeId>(id)));
  }
  json["outputs"] = Json::object();
  for (const GraphOutput& output : graph.outputs) json["outputs"][output.name] = output.value;
  if (facts.memory != nullptr) {
    json["memory"] = {{"planned_peak_bytes", facts.memory->arena_bytes},
                      {"live_set_bound_bytes", facts.memory->live_set_bound},
                      {"naive_bytes", facts.memory->naive_bytes},
                      {"kv_bytes_per_token", kv_bytes_per_token(graph)}};
    json["stages"] = facts.memory->num_stages;
  }
  // Tensor names come from files and need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace headrace
