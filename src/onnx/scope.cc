#include "onnx/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "onnx/compiled_graph.h"
#include "onnx/infer.h"
#include "onnx/interpreter.h"

namespace headrace::onnx {

HeldGraph::HeldGraph(const Graph* held, std::unique_ptr<CompiledGraph> made) : graph(held), compiled(std::move(made)) {}
HeldGraph::HeldGraph(HeldGraph&& other) noexcept = default;
HeldGraph::~HeldGraph() = default;

std::string Scope::describe(const Step& step) const {
  if (step.around < 0) return step.node->describe(step.index);
  const Step& around = this->step(step.around);
  if (step.stands_for_if) return describe(around);
  std::string place;
  for (int id = step.around; id >= 0; id = this->step(id).around) place = fmt::format("node {} (If), {}", this->step(id).index, place);
  return place + step.node->describe(step.index);
}

Value Scope::read(const std::vector<Value>& values, int id) const {
  if (id < 0) return {};
  const Value& value = values[static_cast<size_t>(id)];
  const Tensor* initial = initializer(id);
  return !value.has_value() && initial != nullptr ? Value(*initial) : value;
}

namespace {

class ScopeBuilder {
 public:
  using Names = std::map<std::string, int>;

  ScopeBuilder(const std::map<std::string, int64_t>& opsets, SessionRuntime& runtime, const std::vector<const Names*>& outer, Scope& scope,
               std::vector<std::string>& captures)
      : opsets_(opsets), runtime_(runtime), outer_(outer), scope_(scope), captures_(captures) {}

  Status build(const Graph& graph) {
    scope_.opsets = opsets_;
    names_.emplace_back();
    for (const ValueInfo& input : graph.inputs) scope_.inputs.push_back(define(input.name));
    std::vector<int> steps;
    HR_RETURN_IF_ERROR(add_graph(graph, -1, steps, scope_.outputs));
    for (const std::string& name : captures_) scope_.inputs.push_back(names_.front().at(name));
    return {};
  }

 private:
  int define(Names& names, const std::string& name) {
    const int id = static_cast<int>(scope_.names.size());
    names[name] = id;
    scope_.names.push_back(name);
    scope_.initializers.emplace_back();
    return id;
  }
  int define(const std::string& name) { return define(names_.back(), name); }

  // A name of this graph or of one around it, which makes it a capture; -1 for none.
  int find(const std::string& name) {
    for (auto names = names_.rbegin(); names != names_.rend(); ++names) {
      if (const auto found = names->find(name); found != names->end()) return found->second;
    }
    if (!std::ranges::any_of(outer_, [&](const Names* names) { return names->contains(name); })) return -1;
    captures_.push_back(name);
    const int id = define(names_.front(), name);
    captured_.insert(id);
    return id;
  }

  // The initializers and nodes of a graph whose names are the last; what it gives goes to `outputs`. Of a branch `around` is the If.
  Status add_graph(const Graph& graph, int around, std::vector<int>& steps, std::vector<int>& outputs) {
    for (const auto& [name, tensor] : graph.initializers) {
      const auto input = names_.back().find(name);
      const int id = input != names_.back().end() ? input->second : define(name);
      scope_.initializers[static_cast<size_t>(id)] = std::make_shared<const Tensor>(tensor);
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      Scope::Step step{.node = &graph.nodes[i], .index = i, .around = around};
      const Status status = add_step(step, steps);
      if (!status.ok()) return status.with_context(graph.nodes[i].describe(i));
    }
    for (const ValueInfo& output : graph.outputs) {
      outputs.push_back(find(output.name));
      if (outputs.back() < 0) return make_status(Code::malformed, "no value for output \"{}\"", output.name);
    }
    return {};
  }

  // Adds the step behind those of its branches, if it has any.
  Status add_step(Scope::Step& step, std::vector<int>& steps) {
    const Node& node = *step.node;
    HR_ASSIGN_OR_RETURN(const CalledOp called, find_op(node, opsets_));
    step.row = called.row;
    step.opset = called.opset;
    for (const std::string& name : node.inputs) {
      step.inputs.push_back(name.empty() ? -1 : find(name));
      if (step.inputs.back() < 0 && !name.empty()) return make_status(Code::malformed, "no value \"{}\"", name);
    }
    const int index = static_cast<int>(scope_.steps.size());
    steps.push_back(index);
    scope_.steps.push_back({.node = step.node, .index = step.index, .around = step.around});  // what describe() looks at
    if (called.row->name == "If") {
      // Both branches give the values that are the If's outputs.
      std::vector<int> results;
      for (const std::string& name : node.outputs) results.push_back(name.empty() ? -1 : new_value(name));
      for (const char* branch : {"then_branch", "else_branch"}) HR_RETURN_IF_ERROR(add_branch(step, index, branch, results));
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i] >= 0) names_.back()[node.outputs[i]] = results[i];
      }
      step.outputs = std::move(results);
    } else {
      HR_RETURN_IF_ERROR(add_held_graphs(step));
      for (const std::string& name : node.outputs) step.outputs.push_back(name.empty() ? -1 : define(name));
    }
    std::ranges::sort(step.captures);
    step.captures.erase(std::unique(step.captures.begin(), step.captures.end()), step.captures.end());
    scope_.steps[static_cast<size_t>(index)] = std::move(step);
    return {};
  }

  // A value that no name leads to yet.
  int new_value(const std::string& name) {
    scope_.names.push_back(name);
    scope_.initializers.emplace_back();
    return static_cast<int>(scope_.names.size()) - 1;
  }

  Status add_branch(Scope::Step& step, int index, const char* name, const std::vector<int>& results) {
    HR_ASSIGN_OR_RETURN(const Graph* graph, NodeReader(*step.node, step.opset).graph(name));
    if (outer_.size() + names_.size() > static_cast<size_t>(Interpreter::kMaxDepth)) {
      return make_status(Code::resource_exhausted, "graphs deeper than {}", Interpreter::kMaxDepth);
    }
    if (graph->outputs.size() < results.size()) {
      return make_status(Code::malformed, "the branch has {} outputs, the node {}", graph->outputs.size(), results.size());
    }
    const int first = static_cast<int>(scope_.names.size());
    std::vector<int> steps, outputs;
    names_.emplace_back();
    for (const ValueInfo& input : graph->inputs) define(input.name);  // nothing gives them, but for an initializer
    const Status status = add_graph(*graph, index, steps, outputs);
    names_.pop_back();
    HR_RETURN_IF_ERROR(status);
    static const OpRow* const kIdentity = find_op("Identity", kIdentityOpset);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] < 0) continue;
      scope_.made.push_back({.op = "Identity", .inputs = {graph->outputs[i].name}, .outputs = {step.node->outputs[i]}, .opset = kIdentityOpset});
      steps.push_back(static_cast<int>(scope_.steps.size()));
      scope_.steps.push_back({.node = &scope_.made.back(),
                              .opset = kIdentityOpset,
                              .row = kIdentity,
                              .inputs = {outputs[i]},
                              .outputs = {results[i]},
                              .around = index,
                              .stands_for_if = true});
    }
    const auto is_outside = [&](int id) { return id >= 0 && (id < first || captured_.contains(id)); };
    for (const int inner : steps) {
      const Scope::Step& one = scope_.step(inner);
      std::ranges::copy_if(one.inputs, std::back_inserter(step.captures), is_outside);
      std::ranges::copy_if(one.captures, std::back_inserter(step.captures), is_outside);
    }
    step.branches.push_back(std::move(steps));
    return {};
  }

  Status add_held_graphs(Scope::Step& step) {
    for (const auto& [name, attribute] : step.node->attributes) {
      for (const auto& inner : attribute.graphs) {
        std::vector<const Names*> around = outer_;
        for (const Names& names : names_) around.push_back(&names);
        HR_ASSIGN_OR_RETURN(auto compiled, CompiledGraph::make(*inner, opsets_, runtime_, around));
        HeldGraph held(inner.get(), std::move(compiled));
        for (const std::string& captured : held.compiled->captures()) held.captures.push_back(find(captured));
        step.captures.insert(step.captures.end(), held.captures.begin(), held.captures.end());
        step.graphs.push_back(std::move(held));
      }
    }
    return {};
  }

  static constexpr int64_t kIdentityOpset = 21;  // of any value

  const std::map<std::string, int64_t>& opsets_;
  SessionRuntime& runtime_;
  const std::vector<const Names*>& outer_;
  Scope& scope_;
  std::vector<std::string>& captures_;
  std::deque<Names> names_;   // of the graph, then of the branches that are open
  std::set<int> captured_;    // values that are captures
};

}  // namespace

Status build_scope(const Graph& graph, const std::map<std::string, int64_t>& opsets, SessionRuntime& runtime,
                   const std::vector<const std::map<std::string, int>*>& outer, Scope& scope, std::vector<std::string>& captures) {
  return ScopeBuilder(opsets, runtime, outer, scope, captures).build(graph);
}

Facts::Facts(const Scope& scope, std::map<int, ValueFact> given) : scope_(scope), facts_(std::move(given)) {
  std::erase_if(facts_, [&](const auto& fact) { return fact.second.left_out && scope.initializer(fact.first) != nullptr; });
}

const ValueFact& Facts::operator[](int id) {
  static const ValueFact kLeftOut{.left_out = true};
  if (id < 0) return kLeftOut;
  const auto [found, added] = facts_.try_emplace(id);
  const Tensor* initial = added ? scope_.initializer(id) : nullptr;
  if (initial != nullptr) found->second = constant_fact(*initial);
  return found->second;
}

std::vector<ValueFact> Facts::list(const std::vector<int>& ids) {
  std::vector<ValueFact> listed;
  for (const int id : ids) listed.push_back((*this)[id]);
  return listed;
}

}  // namespace headrace::onnx
