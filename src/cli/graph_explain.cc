// `headrace graph explain`: what an ONNX model holds; and, once the sizes of its inputs are known, what becomes of it.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/graph_options.h"
#include "cli/roof_json.h"
#include "cli/terminal.h"
#include "onnx/explain.h"
#include "onnx/lower.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;
using onnx::ExplainedNode;
using onnx::ExplainedPart;
using onnx::ExplainedProgram;
using onnx::Session;
using onnx::Type;

constexpr std::string_view kAboutExplain =
    "headrace graph explain - what an ONNX model holds, and what becomes of it\n\n"
    "Alone: inputs, outputs and nodes with their types, as far as the file tells. With --dim the model is compiled for that\n"
    "size: passes, kernels, the nodes of the file that each stands for, work, memory. With --random or --input it is also\n"
    "run: the time of each node, beside what this machine can do, and why it is not better.";
constexpr std::string_view kExamplesExplain =
    "  headrace graph explain model.onnx | grep Conv\n"
    "  headrace graph explain model.onnx --dim batch=1 --json\n"
    "  headrace graph explain model.onnx --random 1 --strict\n";

constexpr int kRoofRepeats = 3;
constexpr size_t kLineColumns = 138;

// ---- the model of the file

std::string shown_names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(name.empty() ? "-" : name);
  return fmt::format("{}", fmt::join(shown, ", "));
}

void show_nodes(const std::vector<onnx::Node>& nodes, const std::map<std::string, Type>& types, int depth) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const onnx::Node& node = nodes[i];
    std::string line = fmt::format("{:{}}{}: {} -> {}", "", 2 * depth, node.describe(i), shown_names(node.inputs),
                                   shown_names(node.outputs));
    for (const std::string& output : node.outputs) {
      if (const auto type = types.find(output); type != types.end()) line += "  " + onnx::describe(type->second);
    }
    bool holds_graphs = false;
    for (const auto& [name, attribute] : node.attributes) holds_graphs = holds_graphs || !attribute.graphs.empty();
    const bool lowered = onnx::find_lowering(node.op) != nullptr || holds_graphs || node.op == "Constant";
    fmt::print("{}{}\n", printable(line), lowered ? "" : "  reference");
    for (const auto& [name, attribute] : node.attributes) {
      for (const auto& graph : attribute.graphs) {
        fmt::print("{:{}}{}:\n", "", 2 * depth + 2, printable(name));
        show_nodes(graph->nodes, types, depth + 2);
      }
    }
  }
}

// What the file declares, and what follows from it.
std::map<std::string, Type> known_types(const onnx::Model& model) {
  std::map<std::string, Type> types;
  for (const auto* values : {&model.graph.values, &model.graph.outputs}) {
    for (const onnx::ValueInfo& value : *values) {
      if (value.type.kind != Type::Kind::unknown) types[value.name] = value.type;
    }
  }
  const auto inferred = onnx::infer_types(model);
  if (!inferred) {
    fmt::print("types as declared; none follow: {}\n", printable(inferred.error().message()));
    return types;
  }
  for (const auto& [name, fact] : *inferred) {
    if (fact.type.kind != Type::Kind::unknown) types[name] = fact.type;
  }
  return types;
}

void show_model(const Session& session) {
  const onnx::Model& model = session.model();
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : model.opsets) opsets.push_back(fmt::format("{}{}{}", domain, domain.empty() ? "" : " ", version));
  fmt::print("IR {}, opset {}, {} nodes, {} initializers, {} functions\n", model.ir_version,
             printable(fmt::format("{}", fmt::join(opsets, ", "))), model.graph.nodes.size(), model.graph.initializers.size(),
             model.functions.size());
  const std::map<std::string, Type> types = known_types(model);
  for (const onnx::ValueInfo& input : session.inputs()) {
    if (!session.may_be_left_out(input)) fmt::print("input {}: {}\n", printable(input.name), printable(onnx::describe(input.type)));
  }
  for (const onnx::ValueInfo& output : session.outputs()) {
    const auto known = types.find(output.name);
    fmt::print("output {}: {}\n", printable(output.name), printable(onnx::describe(known == types.end() ? output.type : known->second)));
  }
  show_nodes(model.graph.nodes, types, 0);
  for (const onnx::Function& function : model.functions) {
    fmt::print("function {} ({}) -> {}:\n", printable(function.name), printable(shown_names(function.inputs)),
               printable(shown_names(function.outputs)));
    show_nodes(function.nodes, {}, 1);
  }
}

// ---- what became of it, as text

// 1234567: "1.23 M"
std::string scaled(double value) {
  static constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{:.0f} ", value) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string percent(const std::optional<double>& share) { return share ? fmt::format("{:.0f}%", 100 * *share) : "-"; }

// Words of `items` in lines that are not too long, each indented.
std::string wrapped(const std::vector<std::string>& items, std::string_view head) {
  const std::string indent(head.size(), ' ');
  std::string text, line(head);
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "");
    if (line.size() + item.size() > kLineColumns && line.size() > head.size()) {
      text += line + "\n";
      line = indent;
    }
    line += (line.size() > head.size() ? " " : "") + item;
  }
  return text + line + "\n";
}

std::string node_text(const ExplainedNode& node) {
  const bool names_isa = node.isa.empty() || node.kernel.starts_with(node.isa);
  const std::string kernel = names_isa ? node.kernel : fmt::format("{} {}", node.kernel, node.isa);
  std::string text = fmt::format("{:>5} {:<14} {:<20} {:<10} {:>8}B {:>8}FLOP", node.id, node.op, kernel, node.precision,
                                 scaled(node.bytes), scaled(node.flops));
  if (node.seconds && *node.seconds > 0) {
    const std::string rate = node.memory_bound ? scaled(node.bytes / *node.seconds) + "B/s" : scaled(node.flops / *node.seconds) + "FLOP/s";
    text += fmt::format(" {:>9.1f} us {:>14} {:>5}", 1e6 * *node.seconds, rate, percent(node.roof_share));
  }
  text += fmt::format("  {}\n", node.type);
  if (!node.origins.empty()) text += wrapped(node.origins, "        of ");
  else if (node.kernel != "view") text += fmt::format("        made by the compiler for {}\n", node.name);
  if (!node.why.empty()) text += fmt::format("        why: {}\n", node.why);
  return text;
}

std::string program_text(const ExplainedProgram& program) {
  std::string text = wrapped(program.inputs, "  inputs: ");
  int idle = 0;
  double idle_ms = 0;
  for (const PassReport& pass : program.passes) {
    if (pass.hits == 0 && !pass.skipped) {
      ++idle;
      idle_ms += pass.ms;
      continue;
    }
    const std::string what = pass.skipped ? "skipped" : fmt::format("{:>5} hits {:>9.3f} ms", pass.hits, pass.ms);
    text += fmt::format("  pass {:<24}{}\n", pass.name, what);
  }
  text += fmt::format("  {} other passes found nothing in {:.3f} ms\n", idle, idle_ms);
  text += fmt::format("  {} nodes of the file are {} nodes; {} of the file's are folded or unread\n", program.num_steps,
                      program.nodes.size(), program.folded.size());
  for (const ExplainedNode& node : program.nodes) text += node_text(node);
  if (!program.folded.empty()) text += wrapped(program.folded, "  folded or unread: ");
  const auto planned = static_cast<double>(program.planned_bytes), bound = static_cast<double>(program.live_set_bound);
  const double ratio = bound == 0 ? 1 : planned / bound;
  text += fmt::format("  memory: planned peak {} bytes, live-set bound {} ({:.3f} of it), naive sum {}; {} stages\n", program.planned_bytes,
                      program.live_set_bound, ratio, program.naive_bytes, program.num_stages);
  if (program.num_runs > 0 && program.seconds() > 0) {
    text += fmt::format("  total: {:.4g} ms (medians of {} runs), {}FLOP, {}FLOP/s, {} of the roof\n", 1e3 * program.seconds(),
                        program.num_runs, scaled(program.flops()), scaled(program.flops() / program.seconds()),
                        percent(program.roof_share()));
  } else {
    text += fmt::format("  total: {}FLOP\n", scaled(program.flops()));
  }
  return text;
}

void show_parts(const Session& session, const std::vector<ExplainedPart>& parts, const runtime::RoofRow* roof, Isa isa) {
  const Status& library = session.runtime()->library_status();
  if (!library.ok()) fmt::print("no library's kernels: {}\n", printable(library.message()));
  if (roof != nullptr) {
    const runtime::ArithmeticRate* peak = roof->find(isa);
    fmt::print("roof of {} threads: {}B/s of memory, {}FLOP/s of f32 ({})\n", roof->threads, scaled(roof->memory_bytes_per_s()),
               scaled(peak == nullptr ? 0 : peak->f32), isa_name(isa));
  }
  for (const ExplainedPart& part : parts) {
    fmt::print("{}\n", printable(part.place));
    if (part.program) fmt::print("{}", printable(program_text(*part.program)));
    for (const auto& [node, reason] : part.host) fmt::print("  host: {}: {}\n", printable(node), reason);
    if (part.unplanned == 0) continue;
    fmt::print("  {} nodes behind them are planned when a run gives their types: --random SEED or --input\n", part.unplanned);
  }
}

// ---- as JSON

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json node_json(const ExplainedNode& node) {
  return {{"id", node.id},
          {"op", node.op},
          {"name", node.name},
          {"type", node.type},
          {"kernel", node.kernel},
          {"isa", node.isa},
          {"device", "cpu"},
          {"precision", node.precision},
          {"origins", node.origins},
          {"bytes", node.bytes},
          {"flops", node.flops},
          {"seconds", or_null(node.seconds)},
          {"roof_share", or_null(node.roof_share)},
          {"bound", node.memory_bound ? "memory" : "arithmetic"},
          {"reference", node.reference},
          {"why", node.why}};
}

Json program_json(const ExplainedProgram& program) {
  Json passes = Json::array(), nodes = Json::array();
  for (const PassReport& pass : program.passes) {
    passes.push_back({{"name", pass.name}, {"hits", pass.hits}, {"ms", pass.ms}, {"skipped", pass.skipped}});
  }
  for (const ExplainedNode& node : program.nodes) nodes.push_back(node_json(node));
  return {{"inputs", program.inputs},
          {"file_nodes", program.num_steps},
          {"passes", std::move(passes)},
          {"nodes", std::move(nodes)},
          {"folded", program.folded},
          {"memory",
           {{"planned_peak_bytes", program.planned_bytes},
            {"live_set_bound_bytes", program.live_set_bound},
            {"naive_bytes", program.naive_bytes}}},
          {"stages", program.num_stages},
          {"runs", program.num_runs},
          {"flops", program.flops()},
          {"seconds", program.num_runs > 0 ? Json(program.seconds()) : Json()},
          {"roof_share", or_null(program.roof_share())}};
}

void show_json(const Session& session, const std::vector<ExplainedPart>& parts, const runtime::RoofRow* roof) {
  Json out = {{"nodes", session.model().graph.nodes.size()}, {"roof", roof == nullptr ? Json() : Json::parse(roof_row_json(*roof))}};
  const Status& library = session.runtime()->library_status();
  out["library"] = library.ok() ? Json() : Json(library.message());
  out["parts"] = Json::array();
  for (const ExplainedPart& part : parts) {
    Json host = Json::array();
    for (const auto& [node, reason] : part.host) host.push_back({{"node", node}, {"why", reason}});
    out["parts"].push_back({{"place", part.place},
                            {"program", part.program ? program_json(*part.program) : Json()},
                            {"host", std::move(host)},
                            {"unplanned_nodes", part.unplanned}});
  }
  // Names come from files and need not be UTF-8.
  fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

Status graph_explain(const std::vector<std::string>& args) {
  Options options("graph explain", kAboutExplain, kExamplesExplain);
  GraphOptions wanted;
  onnx::ExplainOptions how;
  int64_t runs = how.runs;
  bool json = false;
  wanted.declare(options);
  options.integer(runs, "--runs", "N", "How many runs are timed, with --random or --input", 1, 10'000);
  options.flag(json, "--json", "Print one JSON object; sizes of the inputs must be known");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};

  const bool runs_it = wanted.seed >= 0 || !wanted.inputs.empty();
  if (!runs_it && wanted.dims.empty() && !json && !wanted.strict) {
    HR_ASSIGN_OR_RETURN(const Session session, wanted.open());
    show_model(session);
    return {};
  }
  HR_ASSIGN_OR_RETURN(const Session session, wanted.open());
  how.runs = static_cast<int>(runs);
  runtime::RoofReport roof;
  if (runs_it) {
    HR_ASSIGN_OR_RETURN(how.values, wanted.make_inputs(session));
    if (session.runtime() != nullptr) {
      HR_ASSIGN_OR_RETURN(roof, measure_roof_with_progress(session.runtime()->queue().threads(), kRoofRepeats));
      how.roof = &roof.rows.back();
    }
  } else {
    HR_ASSIGN_OR_RETURN(how.dims, wanted.parse_dims());
  }
  HR_ASSIGN_OR_RETURN(const std::vector<ExplainedPart> parts, onnx::explain(session, how));
  if (json) show_json(session, parts, how.roof);
  else show_parts(session, parts, how.roof, wanted.isa);
  return {};
}

}  // namespace headrace::cli
