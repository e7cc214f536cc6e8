#include "onnx/session.h"

#include <fmt/format.h>

#include <set>

#include "onnx/file.h"
#include "onnx/inline_functions.h"

namespace headrace::onnx {

Result<Session> Session::load(const std::string& path, const Options& options) {
  HR_ASSIGN_OR_RETURN(Model model, read_model(path));
  return make(std::move(model), options);
}

Result<Session> Session::make(Model model, const Options& options) {
  return within_memory([&] { return prepare(std::move(model), options); });
}

Result<Session> Session::prepare(Model model, const Options& options) {
  auto state = std::make_shared<State>();
  state->options = options;
  state->model = std::make_shared<const Model>(std::move(model));
  if (options.reference) {
    HR_ASSIGN_OR_RETURN(Interpreter interpreter, Interpreter::make(state->model));
    state->interpreter = std::make_unique<Interpreter>(std::move(interpreter));
    return Session(std::move(state));
  }
  state->inlined = state->model;
  if (!state->model->functions.empty()) {
    HR_ASSIGN_OR_RETURN(Model inlined, inline_functions(*state->model));
    state->inlined = std::make_shared<const Model>(std::move(inlined));
  }
  HR_ASSIGN_OR_RETURN(std::shared_ptr<runtime::DeviceQueue> queue, runtime::DeviceQueue::cpu(options.threads, options.memory_limit));
  state->runtime = std::make_unique<SessionRuntime>(std::move(queue), state->model->graph.name, options.compile);
  HR_ASSIGN_OR_RETURN(state->compiled, CompiledGraph::make(state->inlined->graph, state->inlined->opsets, *state->runtime, {}));
  return Session(std::move(state));
}

Result<std::map<std::string, Value>> Session::run(const std::map<std::string, Value>& inputs) const {
  return within_memory([&] {
    return state_->interpreter != nullptr ? state_->interpreter->run(inputs, state_->options.limits) : run_compiled(inputs);
  });
}

Result<std::map<std::string, Value>> Session::run_compiled(const std::map<std::string, Value>& inputs) const {
  const State& state = *state_;
  const Graph& graph = state.model->graph;
  HR_ASSIGN_OR_RETURN(std::vector<Value> bound, bind_inputs(graph, inputs));
  RunBudget budget(state.options.limits);
  HR_ASSIGN_OR_RETURN(std::vector<Value> results, state.compiled->run(std::move(bound), budget));
  std::map<std::string, Value> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs[graph.outputs[i].name] = std::move(results[i]);
  return outputs;
}

Result<std::map<int, ValueFact>> Session::input_facts(const std::map<std::string, int64_t>& dims) const {
  const Scope& scope = compiled()->scope();
  std::map<int, ValueFact> facts;
  std::set<std::string> used;
  for (size_t i = 0; i < inputs().size(); ++i) {
    const ValueInfo& input = inputs()[i];
    ValueFact& fact = facts[scope.inputs[i]];
    fact.left_out = may_be_left_out(input);
    if (fact.left_out) continue;
    if (input.type.kind != Type::Kind::tensor || !input.type.shape) {
      return error(Code::unsupported, "input {}: {}: want a tensor of known rank", input.name, describe(input.type));
    }
    fact.type = input.type;
    for (size_t axis = 0; axis < fact.type.shape->size(); ++axis) {
      Type::Dim& dim = (*fact.type.shape)[axis];
      if (dim.value >= 0) continue;
      const std::string name = dim.symbol.empty() ? fmt::format("{}.{}", input.name, axis) : dim.symbol;
      const auto found = dims.find(name);
      if (found == dims.end()) {
        return error(Code::invalid_argument, "input {}, {}: axis {} is open; give it with --dim {}=N", input.name,
                     describe(input.type), axis, name);
      }
      if (found->second < 0) return error(Code::invalid_argument, "--dim {}: want 0 or more, got {}", name, found->second);
      used.insert(name);
      dim = {.value = found->second, .symbol = {}};
    }
  }
  for (const auto& [name, value] : dims) {
    if (!used.contains(name)) return error(Code::invalid_argument, "--dim {}: no input has an open dim of that name", name);
  }
  return facts;
}

}  // namespace headrace::onnx
