#include "onnx/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "onnx/host_node.h"
#include "ops/host.h"
#include "ops/movement.h"

namespace headrace::onnx {
namespace {

// Below this a node takes about as long as its launch and its barrier.
constexpr double kLaunchSeconds = 3e-6;
// Of the roof; more is not to be had from one node alone.
constexpr double kNearRoof = 0.7;

std::string type_text(const ValueType& type) {
  return fmt::format("{} {}", dtype_name(type.dtype), type.shape.to_string({}));
}

std::string precision_of(const headrace::Graph& graph, const headrace::Node& node) {
  if (node.outputs.empty()) return "";
  const std::string_view to = dtype_name(graph.values[static_cast<size_t>(node.outputs[0])].type.dtype);
  if (node.inputs.empty() || node.inputs[0] == kNone) return std::string(to);
  const std::string_view from = dtype_name(graph.values[static_cast<size_t>(node.inputs[0])].type.dtype);
  return from == to ? std::string(to) : fmt::format("{} > {}", from, to);
}

// The median of a node's times.
std::optional<double> median_seconds(const ProgramReport& report, size_t node) {
  std::vector<double> seconds;
  for (const std::vector<double>& run : report.node_seconds) seconds.push_back(run[node]);
  if (seconds.empty()) return std::nullopt;
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void judge(ExplainedNode& row, const ExplainOptions& options, Isa isa) {
  const runtime::ArithmeticRate* peak = options.roof == nullptr ? nullptr : options.roof->find(isa);
  if (peak == nullptr || peak->f32 <= 0 || options.roof->memory_bytes_per_s() <= 0) return;
  const double computing = row.flops / peak->f32, moving = row.bytes / options.roof->memory_bytes_per_s();
  row.memory_bound = moving >= computing;
  if (row.seconds && *row.seconds > 0) row.roof_share = std::max(moving, computing) / *row.seconds;
}

std::string why_not_better(const ExplainedNode& row, const headrace::Node& node, const std::string& refused, const ProgramReport& report) {
  if (row.reference) {
    const auto reason = report.host_reasons.find(row.name);
    return reason == report.host_reasons.end() ? "no kernel" : reason->second;
  }
  if (node.op->effects.view) return "";
  std::string why = refused.empty() ? "" : fmt::format("not taken: {}", refused);
  const auto add = [&](std::string_view reason) { why += fmt::format("{}{}", why.empty() ? "" : "; ", reason); };
  if (node.op == &ops::transpose) add("an order of axes that no neighbour took");
  if (!row.roof_share) return why;
  if (*row.seconds < kLaunchSeconds) add("small: bound by its launch");
  else if (*row.roof_share > 1) add(row.memory_bound ? "above memory's roof: caches serve it" : "at the roof, which was measured lower");
  else if (*row.roof_share >= kNearRoof) add("near the roof");
  else add(row.memory_bound ? "below memory's roof" : "below arithmetic's roof");
  return why;
}

ExplainedProgram explain_program(const ProgramReport& report, SessionRuntime& runtime, const ExplainOptions& options) {
  const headrace::Graph& graph = report.program->graph();
  ExplainedProgram page;
  page.passes = report.passes;
  page.num_steps = report.steps.size();
  page.num_runs = report.node_seconds.size();
  for (const auto& [id, value] : report.inputs) {
    const headrace::Value& input = graph.values[static_cast<size_t>(value)];
    page.inputs.push_back(fmt::format("{}: {}", input.name, type_text(input.type)));
  }
  std::map<std::string_view, size_t> steps;  // their order in the file
  for (size_t i = 0; i < report.steps.size(); ++i) steps.emplace(report.steps[i], i);
  std::set<std::string_view> lives;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const headrace::Node& node = graph.nodes[i];
    const Kernel* kernel = report.program->kernels()[i];
    const std::vector<ValueType> inputs = graph.input_types(node), outputs = graph.output_types(node);
    ExplainedNode row;
    row.id = static_cast<NodeId>(i);
    row.op = node.op->name;
    row.name = node.name;
    row.reference = node.op == &ops::host;
    if (row.reference) row.op = node.attrs.as<ops::HostAttrs>().name;
    if (!outputs.empty()) row.type = type_text(outputs[0]);
    row.kernel = row.reference ? "reference" : kernel == nullptr ? "view" : std::string(kernel->name);
    if (kernel != nullptr && !row.reference) row.isa = isa_name(kernel->of_library ? runtime.target().isa : kernel->isa);
    row.precision = precision_of(graph, node);
    for (const std::string& origin : node.origins) {
      const auto step = steps.find(origin);
      if (step == steps.end()) continue;
      row.origins.push_back(origin);
      lives.insert(step->first);
    }
    std::ranges::sort(row.origins, {}, [&](const std::string& origin) { return steps.at(origin); });
    row.origins.erase(std::unique(row.origins.begin(), row.origins.end()), row.origins.end());
    std::string refused;
    if (kernel != nullptr) {
      const Cost cost = node.op->cost({inputs, outputs, node.attrs, Bindings()});
      row.flops = cost.flops;
      row.bytes = cost.bytes;
      row.seconds = median_seconds(report, i);
      judge(row, options, runtime.target().isa);
      refused = describe_refusals(*node.op, inputs, outputs, node.attrs, runtime.target());
    }
    row.why = why_not_better(row, node, refused, report);
    page.nodes.push_back(std::move(row));
  }
  for (const std::string& step : report.steps) {
    if (!lives.contains(step)) page.folded.push_back(step);
  }
  const MemoryPlan& memory = report.program->plan_for(Bindings());
  page.planned_bytes = memory.arena_bytes;
  page.live_set_bound = memory.live_set_bound;
  page.naive_bytes = memory.naive_bytes;
  page.num_stages = memory.num_stages;
  return page;
}

class Explainer {
 public:
  Explainer(SessionRuntime& runtime, const ExplainOptions& options) : runtime_(runtime), options_(options) {}

  // `around`: where the graph stands; "" for the main one.
  void graph(CompiledGraph& graph, const std::string& around) {
    const Scope& scope = graph.scope();
    section(graph.section(), scope, around, "", 0);
    for (const Scope::Step& step : scope.steps) {
      for (size_t i = 0; i < step.graphs.size(); ++i) {
        this->graph(*step.graphs[i].compiled, fmt::format("{}, graph {}", within(around, scope.describe(step)), i));
      }
    }
  }

  // `branch`: that of the scope which the plan is of; "" where it is the graph's own.
  void plan(const Section::Plan& plan, const Scope& scope, const std::string& around, const std::string& branch, int depth) {
    const std::string place = branch.empty() ? (around.empty() ? "graph" : around) : within(around, branch);
    ExplainedPart part;
    part.place = depth == 0 ? place : fmt::format("{}, behind {} host part{}", place, depth, depth == 1 ? "" : "s");
    if (plan.program != nullptr) part.program = explain_program(*plan.program, runtime_, options_);
    for (const Section::HostStep& host : plan.host_steps) {
      part.host.emplace_back(scope.describe(scope.step(host.index)), host.reason);
    }
    const bool rest_is_planned = plan.rest != nullptr && !plan.rest->plans().empty();
    if (plan.rest != nullptr && !rest_is_planned) part.unplanned = plan.rest->num_steps();
    parts_.push_back(std::move(part));
    for (const Section::HostStep& host : plan.host_steps) {
      for (size_t i = 0; i < host.branches.size(); ++i) {
        section(*host.branches[i], scope, around,
                fmt::format("{}, {}", scope.describe(scope.step(host.index)), i == 0 ? "then_branch" : "else_branch"), 0);
      }
    }
    if (rest_is_planned) section(*plan.rest, scope, around, branch, depth + 1);
  }

  std::vector<ExplainedPart> take() { return std::move(parts_); }

 private:
  static std::string within(const std::string& around, const std::string& place) { return around.empty() ? place : around + ": " + place; }
  void section(Section& section, const Scope& scope, const std::string& around, const std::string& branch, int depth) {
    for (const auto& plan : section.plans()) this->plan(*plan, scope, around, branch, depth);
  }

  SessionRuntime& runtime_;
  const ExplainOptions& options_;
  std::vector<ExplainedPart> parts_;
};

}  // namespace

double ExplainedProgram::seconds() const {
  double sum = 0;
  for (const ExplainedNode& node : nodes) sum += node.seconds.value_or(0);
  return sum;
}

double ExplainedProgram::flops() const {
  double sum = 0;
  for (const ExplainedNode& node : nodes) sum += node.flops;
  return sum;
}

std::optional<double> ExplainedProgram::roof_share() const {
  double allowed = 0;
  for (const ExplainedNode& node : nodes) {
    if (node.roof_share) allowed += *node.roof_share * *node.seconds;
  }
  return allowed > 0 ? std::optional(allowed / seconds()) : std::nullopt;
}

Result<std::vector<ExplainedPart>> explain(const Session& session, const ExplainOptions& options) {
  if (session.compiled() == nullptr) return error(Code::invalid_argument, "a session of reference operators has no program to explain");
  SessionRuntime& runtime = *session.runtime();
  Explainer explainer(runtime, options);
  if (options.values.empty()) {
    HR_ASSIGN_OR_RETURN(auto facts, session.input_facts(options.dims));
    HR_ASSIGN_OR_RETURN(const auto plan, session.compiled()->section().compile(std::move(facts)));
    explainer.plan(*plan, session.compiled()->scope(), "", "", 0);
    return explainer.take();
  }
  // The first run compiles and warms up.
  for (int i = 0; i <= options.runs; ++i) {
    runtime.time_nodes = i > 0;
    const auto outputs = session.run(options.values);
    runtime.time_nodes = false;
    if (!outputs) return tl::unexpected(outputs.error());
  }
  explainer.graph(*session.compiled(), "");
  return explainer.take();
}

}  // namespace headrace::onnx
