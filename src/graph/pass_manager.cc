// Runs the list of passes.def: each skippable by name, timed, and the graph verified after it.
#include <algorithm>

#include "base/clock.h"
#include "graph/passes.h"

namespace headrace {

namespace passes {
#define HR_PASS(name) extern const Pass name##_pass;
#include "graph/passes.def"
#undef HR_PASS
}  // namespace passes

namespace {

// A copy of each row: the rows themselves are constant-initialized in their files.
std::span<const Pass> pass_list() {
  static const Pass kPasses[] = {
#define HR_PASS(name) passes::name##_pass,
#include "graph/passes.def"
#undef HR_PASS
  };
  return kPasses;
}

Status check_skipped_names(const PassOptions& options) {
  for (const std::string& name : options.skip) {
    if (name == "all") continue;
    const auto passes = all_passes();
    if (std::any_of(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == name; })) continue;
    std::string known;
    for (const Pass& pass : passes) known += fmt::format("{}{}", known.empty() ? "" : ", ", pass.name);
    return make_status(Code::invalid_argument, "pass \"{}\" is not known; there are: {}, all", name, known);
  }
  return {};
}

// A fusion may hand an access to another op, under the same name.
struct StateAccess {
  const Op* op;
  std::string name;
  std::vector<ValueId> states;
  bool writes;
  bool operator==(const StateAccess& other) const { return name == other.name && states == other.states && writes == other.writes; }
};

// Nodes that touch state, in order. Nothing in the values says that a cache is read after it was written: the order does.
std::vector<StateAccess> state_accesses(const Graph& graph) {
  std::vector<StateAccess> accesses;
  for (const Node& node : graph.nodes) {
    if (node.dead) continue;
    const Effects& effects = node.op->effects;
    if (!effects.reads_state && !effects.writes_state) continue;
    accesses.push_back({node.op, node.name, {}, effects.writes_state});
    for (const ValueId input : node.inputs) {
      if (input != kNone && graph.values[input].role == ValueRole::state) accesses.back().states.push_back(input);
    }
  }
  return accesses;
}

// Readers may be gone; writers may not; the rest keeps its order.
Status check_state_order(const std::vector<StateAccess>& before, const std::vector<StateAccess>& after) {
  size_t next = 0;
  for (const StateAccess& access : before) {
    if (next < after.size() && after[next] == access) {
      ++next;
    } else if (access.writes) {
      return make_status(Code::internal, "node {} ({}): a write of state was moved or removed", access.name,
                         access.op->name);
    }
  }
  if (next < after.size()) {
    return make_status(Code::internal, "node {} ({}): an access of state is new or was moved", after[next].name,
                       after[next].op->name);
  }
  return {};
}

Result<int> run_and_verify(const Pass& pass, Graph& graph, const PassOptions& options) {
  const std::vector<StateAccess> before = state_accesses(graph);
  HR_ASSIGN_OR_RETURN(const int hits, pass.run(graph, options));
  graph.compact();
  HR_RETURN_IF_ERROR(verify(graph));
  HR_RETURN_IF_ERROR(check_state_order(before, state_accesses(graph)));
  return hits;
}

}  // namespace

std::span<const Pass> all_passes() { return pass_list(); }

Result<std::vector<PassReport>> run_passes(Graph& graph, const PassOptions& options) {
  HR_RETURN_IF_ERROR(check_skipped_names(options));
  HR_RETURN_IF_ERROR(verify(graph));
  std::vector<PassReport> reports;
  for (const Pass& pass : all_passes()) {
    PassReport report{pass.name, 0, 0, options.skip.contains("all") || options.skip.contains(pass.name)};
    if (!report.skipped) {
      const TimePoint start = Clock::now();
      const Result<int> hits = run_and_verify(pass, graph, options);
      if (!hits) return tl::unexpected<Status>(hits.error().with_context(fmt::format("pass {}", pass.name)));
      report.hits = *hits;
      report.ms = ms_between(start, Clock::now());
    }
    reports.push_back(report);
  }
  return reports;
}

}  // namespace headrace
