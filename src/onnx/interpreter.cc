#include "onnx/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "onnx/function.h"
#include "onnx/infer.h"
#include "onnx/op.h"

namespace headrace::onnx {
namespace {

// Where a value stands: slot `slot` of the body itself, of the one around it (up 1), and so on. slot -1: left out.
struct Place {
  int up = 0, slot = -1;
};

// A graph or a function's body, made ready.
struct Body {
  struct Step {
    const Node* node = nullptr;
    size_t index = 0;  // of the node, for errors
    CalledOp called;                 // or
    std::unique_ptr<Body> function;  // the function's body, its attributes bound
    std::vector<Place> inputs;
    std::vector<int> outputs;  // slots; -1: nobody reads it
    std::vector<int> ends;     // slots of this body whose last reader this is
    std::vector<std::pair<const Graph*, std::unique_ptr<Body>>> graphs;  // those that the node's attributes hold
    const std::map<std::string, int64_t>* opsets = nullptr;              // the model's or the function's
  };
  std::vector<Node> nodes;  // of a function: its own copies
  int num_slots = 0;
  std::vector<int> inputs;                            // slots
  std::vector<std::pair<int, Tensor>> initializers;   // by slot
  std::vector<Step> steps;
  std::vector<Place> outputs;
  std::map<std::string, Place> captures;  // values around it that it reads; places as the body around it sees them
};

// The names of a body while it is prepared, and those around it.
class Names {
 public:
  explicit Names(const Names* outer) : outer_(outer) {}
  int define(const std::string& name) { return slots_[name] = next_++; }
  int size() const { return next_; }
  Place find(const std::string& name) const {
    int up = 0;
    for (const Names* names = this; names != nullptr; names = names->outer_, ++up) {
      const auto found = names->slots_.find(name);
      if (found == names->slots_.end()) continue;
      const Names* reader = this;
      for (int left = up; left > 0; --left, reader = reader->outer_) reader->captures_[name] = {left - 1, found->second};
      return {up, found->second};
    }
    return {};
  }
  // What this body and those in it read of the bodies around it.
  const std::map<std::string, Place>& captures() const { return captures_; }

 private:
  const Names* outer_;
  mutable std::map<std::string, Place> captures_;
  std::map<std::string, int> slots_;
  int next_ = 0;
};

class Preparation {
 public:
  explicit Preparation(const Model& model) : functions_(model) {}

  // The model's graph, or one that a node holds. `opsets` must outlive the body.
  Status graph(const Graph& graph, const std::map<std::string, int64_t>& opsets, const Names* outer, int depth, Body& body);

 private:
  Status steps(std::span<const Node> nodes, const std::map<std::string, int64_t>& opsets, Names& names, int depth, Body& body);
  Status step(const Node& node, size_t index, const std::map<std::string, int64_t>& opsets, Names& names, int depth, Body::Step& step);
  Status function(const Function& function, const Node& call, int depth, Body& body);
  Status outputs(std::span<const std::string> wanted, const Names& names, Body& body);

  const FunctionTable functions_;
  int64_t num_nodes_ = 0;
};

Status Preparation::graph(const Graph& graph, const std::map<std::string, int64_t>& opsets, const Names* outer, int depth, Body& body) {
  Names names(outer);
  for (const ValueInfo& input : graph.inputs) body.inputs.push_back(names.define(input.name));
  for (const auto& [name, tensor] : graph.initializers) {
    const Place own = names.find(name);  // an input's default
    body.initializers.emplace_back(own.slot >= 0 && own.up == 0 ? own.slot : names.define(name), tensor);
  }
  HR_RETURN_IF_ERROR(steps(graph.nodes, opsets, names, depth, body));
  std::vector<std::string> wanted;
  for (const ValueInfo& output : graph.outputs) wanted.push_back(output.name);
  HR_RETURN_IF_ERROR(outputs(wanted, names, body));
  body.captures = names.captures();
  return {};
}

Status Preparation::function(const Function& function, const Node& call, int depth, Body& body) {
  HR_ASSIGN_OR_RETURN(body.nodes, bind_function(function, call));
  Names names(nullptr);
  for (const std::string& input : function.inputs) body.inputs.push_back(names.define(input));
  HR_RETURN_IF_ERROR(steps(body.nodes, function.opsets, names, depth, body));
  return outputs(function.outputs, names, body);
}

Status Preparation::steps(std::span<const Node> nodes, const std::map<std::string, int64_t>& opsets, Names& names, int depth, Body& body) {
  if (depth > Interpreter::kMaxDepth) {
    return make_status(Code::resource_exhausted, "graphs and functions deeper than {}", Interpreter::kMaxDepth);
  }
  num_nodes_ += static_cast<int64_t>(nodes.size());
  if (num_nodes_ > Interpreter::kMaxNodes) {
    return make_status(Code::resource_exhausted, "functions expand to more than {} nodes", Interpreter::kMaxNodes);
  }
  body.steps.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    Status status = step(nodes[i], i, opsets, names, depth, body.steps[i]);
    if (!status.ok()) return status.with_context(nodes[i].describe(i));
  }
  return {};
}

Status Preparation::step(const Node& node, size_t index, const std::map<std::string, int64_t>& opsets, Names& names, int depth,
                         Body::Step& step) {
  step.node = &node;
  step.index = index;
  for (const std::string& name : node.inputs) {
    const Place place = name.empty() ? Place() : names.find(name);
    if (place.slot < 0 && !name.empty()) return make_status(Code::malformed, "no value \"{}\"", name);
    step.inputs.push_back(place);
  }
  if (const Function* called = functions_.find(node)) {
    step.function = std::make_unique<Body>();
    HR_RETURN_IF_ERROR(function(*called, node, depth + 1, *step.function));
  } else {
    HR_ASSIGN_OR_RETURN(step.called, find_op(node, opsets));
    step.opsets = &opsets;
    for (const auto& [name, attribute] : node.attributes) {
      for (const auto& inner : attribute.graphs) {
        step.graphs.emplace_back(inner.get(), std::make_unique<Body>());
        HR_RETURN_IF_ERROR(graph(*inner, opsets, &names, depth + 1, *step.graphs.back().second));
      }
    }
  }
  for (const std::string& name : node.outputs) step.outputs.push_back(name.empty() ? -1 : names.define(name));
  return {};
}

// The slots of the body `up` levels above that a body reads.
void list_reads(const Body& body, int up, std::vector<int>& slots) {
  const auto add = [&](const Place& place) {
    if (place.slot >= 0 && place.up == up) slots.push_back(place.slot);
  };
  for (const Body::Step& step : body.steps) {
    for (const Place& input : step.inputs) add(input);
    for (const auto& [graph, inner] : step.graphs) list_reads(*inner, up + 1, slots);
  }
  for (const Place& output : body.outputs) add(output);
}

Status Preparation::outputs(std::span<const std::string> wanted, const Names& names, Body& body) {
  for (const std::string& name : wanted) {
    const Place place = names.find(name);
    if (place.slot < 0) return make_status(Code::malformed, "no value for output \"{}\"", name);
    body.outputs.push_back(place);
  }
  body.num_slots = names.size();
  std::vector<int> last_reader(static_cast<size_t>(body.num_slots), -1);
  for (size_t i = 0; i < body.steps.size(); ++i) {
    std::vector<int> slots;
    for (const Place& input : body.steps[i].inputs) {
      if (input.slot >= 0 && input.up == 0) slots.push_back(input.slot);
    }
    for (const auto& [graph, inner] : body.steps[i].graphs) list_reads(*inner, 1, slots);
    for (const int slot : slots) last_reader[static_cast<size_t>(slot)] = static_cast<int>(i);
  }
  for (const Place& output : body.outputs) {
    if (output.up == 0) last_reader[static_cast<size_t>(output.slot)] = static_cast<int>(body.steps.size());
  }
  for (Body::Step& step : body.steps) {
    for (int& slot : step.outputs) {
      if (slot >= 0 && last_reader[static_cast<size_t>(slot)] < 0) slot = -1;
    }
  }
  for (int slot = 0; slot < body.num_slots; ++slot) {
    const int reader = last_reader[static_cast<size_t>(slot)];
    if (reader >= 0 && reader < static_cast<int>(body.steps.size())) body.steps[static_cast<size_t>(reader)].ends.push_back(slot);
  }
  return {};
}

// ---- running

struct Frame {
  const Frame* outer = nullptr;
  std::vector<Value> slots;

  const Value& at(const Place& place) const {
    const Frame* frame = this;
    for (int up = 0; up < place.up; ++up) frame = frame->outer;
    return frame->slots[static_cast<size_t>(place.slot)];
  }
};

// One run() of a model.
class Run {
 public:
  Run(const Model& model, const RunLimits& limits) : model_(model), budget_(limits) {}
  Result<std::vector<Value>> body(const Body& body, std::vector<Value> inputs, const Frame* outer);
  RunBudget& budget() { return budget_; }
  const Model& model() const { return model_; }

 private:
  Result<std::vector<Value>> step(const Body::Step& step, const Frame& frame);

  const Model& model_;
  RunBudget budget_;
};

// What an operator that holds graphs runs them with.
class StepGraphs final : public GraphRunner {
 public:
  StepGraphs(Run& run, const Body::Step& step, const Frame& frame) : run_(run), step_(step), frame_(frame) {}
  Result<std::vector<Value>> run(const Graph& graph, std::vector<Value> inputs) override {
    // A body without a node counts too, or its loop would never end.
    HR_RETURN_IF_ERROR(run_.budget().count_nodes(1));
    for (const auto& [known, body] : step_.graphs) {
      if (known == &graph) return run_.body(*body, std::move(inputs), &frame_);
    }
    return error(Code::internal, "a graph that is no attribute of the node");
  }
  Result<std::vector<Type>> infer(const Graph& graph, const std::vector<ValueFact>& inputs) override {
    HR_RETURN_IF_ERROR(run_.budget().count_nodes(graph.nodes.size()));
    std::map<std::string, ValueFact> outer;
    for (const auto& [known, body] : step_.graphs) {
      if (known != &graph) continue;
      for (const auto& [name, place] : body->captures) outer[name] = fact_of(frame_.at(place));
    }
    return infer_held_graph(graph, inputs, outer, *step_.opsets, run_.model());
  }
  Status charge(uint64_t bytes) override { return run_.budget().charge(bytes); }

 private:
  Run& run_;
  const Body::Step& step_;
  const Frame& frame_;
};

Result<std::vector<Value>> Run::body(const Body& body, std::vector<Value> inputs, const Frame* outer) {
  Frame frame{outer, std::vector<Value>(static_cast<size_t>(body.num_slots))};
  for (const auto& [slot, tensor] : body.initializers) frame.slots[static_cast<size_t>(slot)] = tensor;
  if (inputs.size() > body.inputs.size()) {
    return error(Code::malformed, "a graph of {} inputs is given {}", body.inputs.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].has_value()) frame.slots[static_cast<size_t>(body.inputs[i])] = std::move(inputs[i]);
  }
  for (const Body::Step& one : body.steps) {
    auto outputs = within_memory([&] { return step(one, frame); });
    if (!outputs) return tl::unexpected(outputs.error().with_context(one.node->describe(one.index)));
    for (size_t i = 0; i < one.outputs.size(); ++i) {
      if (one.outputs[i] >= 0) frame.slots[static_cast<size_t>(one.outputs[i])] = std::move((*outputs)[i]);
    }
    for (const int slot : one.ends) frame.slots[static_cast<size_t>(slot)] = Value();
  }
  std::vector<Value> outputs;
  for (const Place& place : body.outputs) outputs.push_back(frame.at(place));
  return outputs;
}

Result<std::vector<Value>> Run::step(const Body::Step& step, const Frame& frame) {
  HR_RETURN_IF_ERROR(budget_.count_nodes(1));
  std::vector<Value> inputs;
  for (const Place& place : step.inputs) inputs.push_back(place.slot < 0 ? Value() : frame.at(place));
  if (step.function) return body(*step.function, std::move(inputs), nullptr);
  StepGraphs graphs(*this, step, frame);
  OpContext context(*step.node, step.called.opset, inputs, graphs);
  HR_RETURN_IF_ERROR(step.called.row->run(context));
  return context.take_outputs();
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
    return make_status(Code::invalid_argument, "input {}: want {}, got {}", wanted.name, dtype_name(wanted.type.dtype),
                       dtype_name(tensor->dtype()));
  }
  if (!wanted.type.shape) return {};
  const auto& shape = *wanted.type.shape;
  bool fits = shape.size() == tensor->dims().size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i].value < 0 || shape[i].value == tensor->dims()[i];
  if (fits) return {};
  return make_status(Code::invalid_argument, "input {}: want dims {}, got [{}]", wanted.name, describe(shape),
                     fmt::join(tensor->dims(), ", "));
}

}  // namespace

Status RunBudget::charge(uint64_t bytes) {
  if (bytes > left_.made_bytes) {
    return make_status(Code::resource_exhausted, "more than {} bytes in the tensors of a run", limits_.made_bytes);
  }
  left_.made_bytes -= bytes;
  return {};
}

Status RunBudget::count_nodes(uint64_t nodes) {
  if (nodes > left_.nodes) return make_status(Code::resource_exhausted, "more than {} calls of operators in a run", limits_.nodes);
  left_.nodes -= nodes;
  return {};
}

struct Interpreter::Prepared {
  std::shared_ptr<const Model> model;
  Body body;
};

Interpreter::Interpreter(std::unique_ptr<Prepared> prepared) : prepared_(std::move(prepared)) {}
Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;

const Model& Interpreter::model() const { return *prepared_->model; }

Result<Interpreter> Interpreter::make(std::shared_ptr<const Model> model) {
  auto prepared = std::make_unique<Prepared>();
  prepared->model = std::move(model);
  HR_RETURN_IF_ERROR(Preparation(*prepared->model).graph(prepared->model->graph, prepared->model->opsets, nullptr, 0, prepared->body));
  return Interpreter(std::move(prepared));
}

Result<std::vector<Value>> bind_inputs(const Graph& graph, const std::map<std::string, Value>& inputs) {
  std::vector<Value> bound;
  for (const ValueInfo& input : graph.inputs) {
    const auto found = inputs.find(input.name);
    if (found == inputs.end() && !graph.initializers.contains(input.name)) {
      return error(Code::invalid_argument, "input {}: not given", input.name);
    }
    if (found != inputs.end()) HR_RETURN_IF_ERROR(check_input(input, found->second));
    bound.push_back(found == inputs.end() ? Value() : found->second);
  }
  std::set<std::string_view> names;
  for (const ValueInfo& input : graph.inputs) names.insert(input.name);
  for (const auto& [name, value] : inputs) {
    if (!names.contains(name)) return error(Code::invalid_argument, "input {}: the model has none of that name", name);
  }
  return bound;
}

Result<std::map<std::string, Value>> Interpreter::run(const std::map<std::string, Value>& inputs, const RunLimits& limits) const {
  const Graph& graph = prepared_->model->graph;
  HR_ASSIGN_OR_RETURN(std::vector<Value> bound, bind_inputs(graph, inputs));
  HR_ASSIGN_OR_RETURN(std::vector<Value> results, Run(*prepared_->model, limits).body(prepared_->body, std::move(bound), nullptr));
  std::map<std::string, Value> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs[graph.outputs[i].name] = std::move(results[i]);
  return outputs;
}

Result<std::map<std::string, Value>> interpret(const Model& model, const std::map<std::string, Value>& inputs, const RunLimits& limits) {
  const std::shared_ptr<const Model> borrowed(std::shared_ptr<void>(), &model);
  HR_ASSIGN_OR_RETURN(const Interpreter interpreter, Interpreter::make(borrowed));
  return interpreter.run(inputs, limits);
}

}  // namespace headrace::onnx
