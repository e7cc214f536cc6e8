#include "onnx/compiled_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "graph/builder.h"
#include "onnx/host_node.h"
#include "onnx/infer.h"
#include "onnx/lower.h"

namespace headrace::onnx {
namespace {

// Plans that a section keeps; the least recently used goes first.
constexpr size_t kMaxPlans = 32;
// Nodes of all plans of a session, above which its sections let older plans go: 32 plans of a model of 8,000 nodes. Sections behind each
// other have plans for each plan before them, which would grow without end.
constexpr int64_t kMaxPlannedNodes = int64_t{1} << 18;
// What a plan costs beside its nodes, in nodes.
constexpr int64_t kPlanNodes = 32;
// Sections behind each other that are compiled; what is left after so many runs node by node.
constexpr int kMaxSections = 32;

// A tensor whose type is known whole and that a program can hold.
bool is_static(const ValueFact& fact) {
  if (fact.type.kind != Type::Kind::tensor || !fact.type.shape || fact.type.dtype == DType::string) return false;
  if (fact.type.shape->size() > static_cast<size_t>(kMaxRank)) return false;
  const std::optional<Dims> dims = known_dims(*fact.type.shape);
  return dims && count_elements(*dims).has_value();
}

// What a plan is made for, as its key tells: the type of a tensor, nothing of a sequence or an optional.
ValueFact plan_fact_of(const Value& value) {
  if (value.tensor() != nullptr) return {.type = type_of(value)};
  return {.left_out = !value.has_value()};
}

// What one run of a program writes: its nodes' outputs, and the copies of its own.
uint64_t written_bytes(const headrace::Graph& graph) {
  uint64_t bytes = 0;
  const auto add = [&](ValueId value) {
    const ValueType& type = graph.values[static_cast<size_t>(value)].type;
    bytes += static_cast<uint64_t>(type.shape.elements(Bindings())) * dtype_bytes(type.dtype);
  };
  for (const headrace::Node& node : graph.nodes) {
    if (!node.op->effects.view) std::ranges::for_each(node.outputs, add);
  }
  for (const GraphOutput& output : graph.outputs) add(output.value);
  return bytes;
}

// A packed tensor of what a view shows.
Tensor copy_of(const TensorView& view) {
  Tensor tensor(view.dtype, Dims(view.dims.begin(), view.dims.begin() + view.rank));
  const size_t unit = dtype_bytes(view.dtype);
  if (tensor.elements() == 0) return tensor;
  // Packed from axis `inner` on.
  int inner = view.rank;
  int64_t run = 1;
  while (inner > 0 && (view.dims[inner - 1] == 1 || view.strides[inner - 1] == run)) run *= view.dims[--inner];
  std::array<int64_t, kMaxRank> index{};
  std::byte* to = tensor.raw();
  for (int64_t left = tensor.elements() / run; left > 0; --left, to += static_cast<size_t>(run) * unit) {
    int64_t at = 0;
    for (int axis = 0; axis < inner; ++axis) at += index[axis] * view.strides[axis];
    std::memcpy(to, static_cast<const std::byte*>(view.data) + at * static_cast<int64_t>(unit), static_cast<size_t>(run) * unit);
    for (int axis = inner - 1; axis >= 0 && ++index[axis] == view.dims[axis]; --axis) index[axis] = 0;
  }
  return tensor;
}

}  // namespace

// ---- a section

Section::~Section() = default;

Section::Section(const Scope& scope, SessionRuntime& runtime, std::vector<int> steps, std::vector<int> outputs, int depth, Facts& before)
    : scope_(scope), runtime_(runtime), steps_(std::move(steps)), outputs_(std::move(outputs)), depth_(depth) {
  std::set<int> seen, written;
  const auto need = [&](int value) {
    if (value < 0 || written.contains(value) || !seen.insert(value).second) return;
    const ValueFact& fact = before[value];
    if (fact.constant) known_.emplace(value, fact);
    else inputs_.push_back(value);
  };
  for (const int index : steps_) {
    const Scope::Step& step = scope.step(index);
    std::ranges::for_each(step.inputs, need);
    std::ranges::for_each(step.captures, need);
    written.insert(step.outputs.begin(), step.outputs.end());
  }
  std::ranges::for_each(outputs_, need);
}

// Types of the inputs, one behind the other.
std::string Section::key_of(const std::vector<Value>& values) const {
  std::string key;
  for (const int id : inputs_) {
    const Value& value = values[static_cast<size_t>(id)];
    const Tensor* tensor = value.tensor();
    const bool by_default = !value.has_value() && scope_.initializer(id) != nullptr;
    key += static_cast<char>(tensor != nullptr ? static_cast<int>(tensor->dtype()) : value.has_value() ? 125 : by_default ? 126 : 127);
    if (tensor == nullptr) continue;
    key += static_cast<char>(tensor->rank());
    key.append(reinterpret_cast<const char*>(tensor->dims().data()), tensor->dims().size() * sizeof(int64_t));
  }
  return key;
}

Result<std::shared_ptr<Section::Plan>> Section::plan_for(const std::vector<Value>& values) {
  const std::string key = key_of(values);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(plans_, key, &std::pair<std::string, std::shared_ptr<Plan>>::first);
  if (found != plans_.end()) {
    std::rotate(found, found + 1, plans_.end());
    return plans_.back().second;
  }
  std::map<int, ValueFact> given;
  for (const int id : inputs_) given[id] = plan_fact_of(values[static_cast<size_t>(id)]);
  HR_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan, compile(std::move(given), Purpose::run));
  plan->share = runtime_.count_plan(plan->num_steps + kPlanNodes);
  const auto too_many = [&] { return runtime_.planned_nodes() > kMaxPlannedNodes; };
  while (!plans_.empty() && (plans_.size() >= kMaxPlans || too_many())) plans_.erase(plans_.begin());
  if (depth_ == 0 || !too_many()) plans_.emplace_back(key, plan);
  return plan;
}

std::vector<std::shared_ptr<Section::Plan>> Section::plans() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Plan>> plans;
  for (const auto& [key, plan] : plans_) plans.push_back(plan);
  return plans;
}

namespace {

Status refuse_reference(const std::string& step, std::string_view reason) {
  return make_status(Code::unsupported, "{}: strict: a reference operator would compute it: {}", step, reason);
}

// Sequences and optionals hold tensors and compute nothing.
bool holds_tensors(std::span<const ValueFact> inputs, std::span<const ValueFact> outputs) {
  return std::ranges::any_of(inputs, [](const ValueFact& fact) { return !fact.left_out && fact.type.kind != Type::Kind::tensor; }) ||
         std::ranges::any_of(outputs, [](const ValueFact& fact) {
           return fact.type.kind == Type::Kind::sequence || fact.type.kind == Type::Kind::optional;
         });
}

// Which branch of an If is taken, where that is known.
std::optional<size_t> taken_branch(const Scope::Step& step, Facts& facts) {
  if (step.branches.empty() || step.inputs.empty()) return std::nullopt;
  const ValueFact& condition = facts[step.inputs[0]];
  const Result<bool> taken = condition.constant ? truth_of(*condition.constant) : error(Code::invalid_argument, "not known");
  return taken ? std::optional<size_t>(*taken ? 0 : 1) : std::nullopt;
}

}  // namespace

// Which steps of a section go where. Host steps are in the plan.
struct Section::Division {
  enum class Part : uint8_t { outside, program, host, rest };
  std::map<int, Part> parts;  // by value: what gives it
  std::vector<int> program_steps, rest_steps;

  Part part_of(int id) const {
    const auto found = parts.find(id);
    return found == parts.end() ? Part::outside : found->second;
  }
  bool is_late(int id) const { return part_of(id) == Part::host || part_of(id) == Part::rest; }
};

Result<std::string> Section::why_on_host(const Scope::Step& step, Facts& facts) const {
  if (!step.branches.empty()) return std::string("its condition depends on data");
  if (!step.graphs.empty()) return std::string("holds graphs");
  const std::vector<ValueFact> inputs = facts.list(step.inputs);
  const auto outputs = infer_node(*step.node, step.opset, inputs);
  if (!outputs) return tl::unexpected(outputs.error().with_context(scope_.describe(step)));
  bool known = std::ranges::all_of(inputs, [](const ValueFact& fact) { return fact.left_out || is_static(fact); });
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] < 0) continue;
    facts.set(step.outputs[i], (*outputs)[i]);
    known = known && is_static((*outputs)[i]);
  }
  if (known) return std::string();
  std::string reason = "types that depend on data, or that no program holds";
  if (runtime_.options().strict && !holds_tensors(inputs, *outputs)) {
    return tl::unexpected(refuse_reference(scope_.describe(step), reason));
  }
  return reason;
}

Status Section::divide(int index, Facts& facts, Division& division, Plan& plan) const {
  using Part = Division::Part;
  const Scope::Step& step = scope_.step(index);
  const auto is_late = [&](int id) { return division.is_late(id); };
  if (const std::optional<size_t> taken = taken_branch(step, facts)) {
    for (const int inner : step.branches[*taken]) HR_RETURN_IF_ERROR(divide(inner, facts, division, plan));
    return {};
  }
  ++plan.num_steps;
  Part part = Part::program;
  std::string reason;
  if (!std::ranges::any_of(step.inputs, is_late) && !std::ranges::any_of(step.captures, is_late)) {
    HR_ASSIGN_OR_RETURN(reason, why_on_host(step, facts));
    if (!reason.empty()) part = Part::host;
  } else if (depth_ < kMaxSections) {
    part = Part::rest;
  } else {
    part = Part::host;
    reason = "behind too many nodes whose outputs depend on data";
  }
  for (const int id : step.outputs) {
    if (id >= 0) division.parts[id] = part;
  }
  if (part == Part::program) division.program_steps.push_back(index);
  else if (part == Part::rest) division.rest_steps.push_back(index);
  else plan.host_steps.push_back({index, std::move(reason), {}});
  return {};
}

Result<std::shared_ptr<Section::Plan>> Section::compile(std::map<int, ValueFact> given, Purpose purpose) {
  given.insert(known_.begin(), known_.end());
  Facts facts(scope_, std::move(given));
  auto plan = std::make_shared<Plan>();
  Division division;
  for (const int index : steps_) HR_RETURN_IF_ERROR(divide(index, facts, division, *plan));
  const auto given_by = [&](Division::Part part) { return [&division, part](int id) { return division.part_of(id) == part; }; };
  // What leaves the program: the section's outputs, and what host nodes and the rest read.
  std::vector<int> wanted = outputs_;
  if (!division.rest_steps.empty()) {
    std::vector<int> rest_outputs;
    std::ranges::copy_if(outputs_, std::back_inserter(rest_outputs), given_by(Division::Part::rest));
    plan->rest = std::make_unique<Section>(scope_, runtime_, std::move(division.rest_steps), std::move(rest_outputs), depth_ + 1, facts);
    wanted.insert(wanted.end(), plan->rest->inputs_.begin(), plan->rest->inputs_.end());
  }
  for (HostStep& host : plan->host_steps) {
    const Scope::Step& step = scope_.step(host.index);
    wanted.insert(wanted.end(), step.inputs.begin(), step.inputs.end());
    wanted.insert(wanted.end(), step.captures.begin(), step.captures.end());
    std::vector<int> results = step.outputs;
    std::erase(results, -1);
    for (const std::vector<int>& branch : step.branches) {
      host.branches.push_back(std::make_unique<Section>(scope_, runtime_, branch, results, depth_ + 1, facts));
    }
  }
  std::ranges::sort(wanted);
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::erase(wanted, -1);
  std::vector<int> program_outputs;
  for (const int id : wanted) {
    const ValueFact& fact = facts[id];
    if (fact.constant) plan->constants.emplace_back(id, *fact.constant);
    else if (given_by(Division::Part::program)(id)) program_outputs.push_back(id);
  }
  if (!program_outputs.empty()) {
    HR_ASSIGN_OR_RETURN(plan->program, make_program(division.program_steps, program_outputs, facts, purpose));
    plan->written_bytes = written_bytes(plan->program->program->graph());
  }
  return plan;
}

namespace {

// A model's weight whose file does not have it aligned.
class FileConstant final : public ConstantSource {
 public:
  FileConstant(std::shared_ptr<FileBytes> file, uint64_t bytes) : ConstantSource(bytes, 0), file_(std::move(file)) {}
  void write(std::byte* to) const override { file_->write(to); }
  std::shared_ptr<const std::byte[]> hold() const override { return file_->hold(); }

 private:
  std::shared_ptr<FileBytes> file_;
};

// Large ones that would have to be copied are left in the file until a kernel packs them.
ConstantBytes bytes_of(const Tensor& tensor) {
  constexpr uint64_t kLarge = 16u << 10;
  if (tensor.file() == nullptr || !tensor.file()->is_askew() || tensor.bytes() < kLarge) return tensor.share();
  return std::make_shared<FileConstant>(tensor.file(), tensor.bytes());
}

// The graph of a program over steps whose types are known: each is lowered to Headrace's ops, or left to the host.
class ProgramBuilder {
 public:
  // The program's inputs, its steps and the host's reasons go to `report`.
  ProgramBuilder(const Scope& scope, Facts& facts, ProgramReport& report) : scope_(scope), facts_(facts), report_(report) {}

  // Errors: with the step.
  Status add(const Scope::Step& step) {
    const std::string name = scope_.describe(step);
    if (report_.steps.empty() || report_.steps.back() != name) report_.steps.push_back(name);
    if (std::ranges::all_of(step.outputs, [&](int id) { return id < 0 || fact(id).constant.has_value(); })) return {};
    const std::vector<ValueFact> inputs = facts_.list(step.inputs), outputs = facts_.list(step.outputs);
    auto made = lower(step, name, inputs, outputs);
    if (!made) {
      report_.host_reasons[name] = std::move(made.error());
      made = leave_to_host(step, name, outputs);
    }
    if (!builder_.ok()) return builder_.status().with_context(name);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const int id = step.outputs[i];
      if (id < 0 || fact(id).constant) continue;
      const ValueId value = (*made)[i];
      if (value == kNone || !(builder_.graph.values[static_cast<size_t>(value)].type == value_type(fact(id)))) {
        return make_status(Code::internal, "{}: output {} was lowered to another type than inferred", name, i);
      }
      built_[id] = value;
    }
    return {};
  }

  Result<headrace::Graph> finish(const std::vector<int>& outputs) {
    for (const int id : outputs) builder_.output(fmt::format("{}", id), value_of(id));
    return builder_.finish();
  }

  // Ids of the bytes that are the model's own.
  const std::set<const void*>& of_model() const { return of_model_; }

 private:
  const ValueFact& fact(int id) { return facts_[id]; }

  // The graph's value for one of the scope; an input or a constant is added where no step gives it. kNone for -1.
  ValueId value_of(int id) {
    if (id < 0) return kNone;
    ValueId& value = built_.try_emplace(id, kNone).first->second;
    if (value != kNone) return value;
    const std::string& name = scope_.names[static_cast<size_t>(id)];
    const ValueType type = value_type(fact(id));
    if (fact(id).constant) {
      ConstantBytes bytes = bytes_of(*fact(id).constant);
      if (scope_.initializer(id) != nullptr) of_model_.insert(bytes.id());
      value = builder_.graph.add_constant_bytes(name, type.dtype, type.shape, std::move(bytes));
    } else {
      value = builder_.graph.add_input(name, type.dtype, type.shape);
      report_.inputs.emplace_back(id, value);
    }
    return value;
  }

  // The step's outputs, or why the host computes them; nothing is left in the graph then. Headrace's ops are narrower than ONNX's operators
  // here and there (no empty images, windows within bounds): what they refuse is the host's too.
  tl::expected<std::vector<ValueId>, std::string> lower(const Scope::Step& step, const std::string& name,
                                                        std::span<const ValueFact> inputs, std::span<const ValueFact> outputs) {
    const LowerRow* lowering = find_lowering(step.node->op);
    if (lowering == nullptr) return tl::unexpected<std::string>("no lowering for the operator");
    const GraphBuilder::Mark before = builder_.mark();
    const size_t inputs_before = report_.inputs.size();
    // Types were inferred, so what an operator needs is there; a row that asks for more than that declines.
    LowerContext context(builder_, *step.node, step.opset, name, inputs, outputs, [&](int i) {
      if (i < std::ssize(step.inputs)) return value_of(step.inputs[static_cast<size_t>(i)]);
      builder_.fail(make_status(Code::malformed, "want {} inputs, got {}", i + 1, step.inputs.size()));
      return kNone;
    });
    const bool lowered = lowering->lower(context);
    if (lowered && builder_.ok()) return context.made();
    std::string why = lowered ? builder_.status().message() : context.why_declined();
    builder_.rewind(before);
    report_.inputs.resize(inputs_before);
    for (const int id : step.inputs) {
      const auto built = built_.find(id);
      if (built != built_.end() && built->second >= static_cast<ValueId>(before.values)) built_.erase(built);
    }
    return tl::unexpected(std::move(why));
  }

  std::vector<ValueId> leave_to_host(const Scope::Step& step, const std::string& name, std::span<const ValueFact> outputs) {
    ops::HostAttrs attrs{step.node->op, make_host_node(*step.node, step.opset, *step.row), {}, step.row->traits.pure};
    std::vector<ValueId> inputs;
    for (const int id : step.inputs) inputs.push_back(value_of(id));
    for (const ValueFact& output : outputs) {
      // An output that nobody reads has a type of its own.
      attrs.outputs.push_back(output.left_out ? value_type(DType::u8, {0}) : value_type(output));
    }
    return builder_.nodes(ops::host, std::move(attrs), std::move(inputs), name, outputs.size());
  }

  const Scope& scope_;
  Facts& facts_;
  ProgramReport& report_;
  GraphBuilder builder_;
  std::map<int, ValueId> built_;  // by value of the scope
  std::set<const void*> of_model_;
};

}  // namespace

Result<std::unique_ptr<ProgramReport>> Section::make_program(const std::vector<int>& steps, const std::vector<int>& outputs,
                                                             Facts& facts, Purpose purpose) {
  const CompileOptions& options = runtime_.options();
  auto report = std::make_unique<ProgramReport>();
  ProgramBuilder builder(scope_, facts, *report);
  for (const int index : steps) HR_RETURN_IF_ERROR(builder.add(scope_.step(index)));
  HR_ASSIGN_OR_RETURN(headrace::Graph graph, builder.finish(outputs));
  HR_ASSIGN_OR_RETURN(report->passes, run_passes(graph, {options.skip_passes, DtypePolicy::exact()}));
  for (const headrace::Node& node : graph.nodes) {
    if (options.strict && node.op == &ops::host) return tl::unexpected(refuse_reference(node.name, report->host_reasons[node.name]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) report->outputs.emplace_back(outputs[i], graph.outputs[i].value);
  HR_ASSIGN_OR_RETURN(report->program, runtime::Program::create(std::move(graph), runtime_.target(), runtime_.queue().threads()));
  report->program->use_threads(runtime_.lent_threads());
  HR_RETURN_IF_ERROR(prepare(*report->program, purpose, builder.of_model()));
  return report;
}

// `of_model`: ids of the bytes that are the model's own.
Status Section::prepare(runtime::Program& program, Purpose purpose, const std::set<const void*>& of_model) {
  ConstantStore& store = runtime_.constants();
  HR_RETURN_IF_ERROR(program.prepare(Bindings(), store, purpose == Purpose::run));
  if (purpose == Purpose::show) return {};
  for (size_t id = 0; id < program.graph().values.size(); ++id) {
    const headrace::Value& value = program.graph().values[id];
    if (value.role != ValueRole::constant || !value.bytes.has_value()) continue;
    const auto bytes = static_cast<uint64_t>(value.type.shape.elements(Bindings())) * dtype_bytes(value.type.dtype);
    if (bytes == 0) continue;
    HR_ASSIGN_OR_RETURN(auto kept, store.keep(value.bytes.hold(), bytes, of_model.contains(value.bytes.id())));
    program.replace_constant(static_cast<ValueId>(id), std::move(kept));
  }
  return {};
}

Status Section::run(std::vector<Value>& values, RunBudget& budget) {
  HR_ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan, plan_for(values));
  for (const auto& [id, tensor] : plan->constants) values[static_cast<size_t>(id)] = tensor;
  if (plan->program != nullptr) {
    HR_RETURN_IF_ERROR(budget.count_nodes(plan->program->program->graph().nodes.size()));
    HR_RETURN_IF_ERROR(budget.charge(plan->written_bytes));
    HR_RETURN_IF_ERROR(run_program(*plan->program, values));
  }
  for (const HostStep& host : plan->host_steps) {
    const Status status = run_step(host, values, budget);
    if (!status.ok()) return status.with_context(scope_.describe(scope_.step(host.index)));
  }
  return plan->rest == nullptr ? Status() : plan->rest->run(values, budget);
}

Status Section::run_program(ProgramReport& report, std::vector<Value>& values) {
  std::vector<void*> inputs(report.program->graph().values.size(), nullptr);
  for (const auto& [id, value] : report.inputs) {
    // Programs do not write their inputs.
    inputs[static_cast<size_t>(value)] = const_cast<std::byte*>(values[static_cast<size_t>(id)].tensor()->raw());  // NOLINT
  }
  std::vector<double> seconds;
  return runtime_.run(*report.program, inputs, runtime_.time_nodes ? &seconds : nullptr, [&] {
    if (runtime_.time_nodes) report.node_seconds.push_back(std::move(seconds));
    for (const auto& [id, value] : report.outputs) values[static_cast<size_t>(id)] = copy_of(report.program->tensor(value));
  });
}

namespace {

// Runs the graphs that a step holds, with the values that they read.
class StepGraphs final : public GraphRunner {
 public:
  StepGraphs(const Scope& scope, const Scope::Step& step, const std::vector<Value>& values, RunBudget& budget)
      : scope_(scope), step_(step), values_(values), budget_(budget) {}
  Result<std::vector<Value>> run(const Graph& graph, std::vector<Value> inputs) override {
    HR_RETURN_IF_ERROR(budget_.count_nodes(1));
    for (const HeldGraph& held : step_.graphs) {
      if (held.graph != &graph) continue;
      const size_t wanted = held.compiled->num_inputs();
      if (inputs.size() > wanted) return error(Code::malformed, "a graph of {} inputs is given {}", wanted, inputs.size());
      inputs.resize(wanted);
      for (const int id : held.captures) inputs.push_back(scope_.read(values_, id));
      return held.compiled->run(std::move(inputs), budget_);
    }
    return error(Code::internal, "a graph that is no attribute of the node");
  }
  Result<std::vector<Type>> infer(const Graph& graph, const std::vector<ValueFact>& inputs) override {
    HR_RETURN_IF_ERROR(budget_.count_nodes(graph.nodes.size()));
    std::map<std::string, ValueFact> outer;
    for (const HeldGraph& held : step_.graphs) {
      if (held.graph != &graph) continue;
      for (const int id : held.captures) outer[scope_.names[static_cast<size_t>(id)]] = fact_of(scope_.read(values_, id));
    }
    static const Model no_functions;  // they stand where they were called
    return infer_held_graph(graph, inputs, outer, scope_.opsets, no_functions);
  }
  Status charge(uint64_t bytes) override { return budget_.charge(bytes); }

 private:
  const Scope& scope_;
  const Scope::Step& step_;
  const std::vector<Value>& values_;
  RunBudget& budget_;
};

}  // namespace

Status Section::run_step(const HostStep& host, std::vector<Value>& values, RunBudget& budget) {
  HR_RETURN_IF_ERROR(budget.count_nodes(1));
  const Scope::Step& step = scope_.step(host.index);
  std::vector<Value> inputs;
  for (const int id : step.inputs) inputs.push_back(scope_.read(values, id));
  if (!host.branches.empty()) {
    const Tensor* condition = inputs.empty() ? nullptr : inputs[0].tensor();
    if (condition == nullptr) return make_status(Code::malformed, "no condition");
    HR_ASSIGN_OR_RETURN(const bool taken, truth_of(*condition));
    return host.branches[taken ? 0 : 1]->run(values, budget);
  }
  StepGraphs graphs(scope_, step, values, budget);
  OpContext context(*step.node, step.opset, inputs, graphs);
  HR_RETURN_IF_ERROR(within_memory([&] { return step.row->run(context); }));
  std::vector<Value> outputs = context.take_outputs();
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] >= 0) values[static_cast<size_t>(step.outputs[i])] = std::move(outputs[i]);
  }
  return {};
}

// ---- a graph

Result<std::unique_ptr<CompiledGraph>> CompiledGraph::make(const Graph& graph, const std::map<std::string, int64_t>& opsets,
                                                           SessionRuntime& runtime,
                                                           const std::vector<const std::map<std::string, int>*>& outer) {
  if (outer.size() > static_cast<size_t>(Interpreter::kMaxDepth)) {
    return error(Code::resource_exhausted, "graphs deeper than {}", Interpreter::kMaxDepth);
  }
  std::unique_ptr<CompiledGraph> compiled(new CompiledGraph());
  Scope& scope = compiled->scope_;
  compiled->num_inputs_ = graph.inputs.size();
  HR_RETURN_IF_ERROR(build_scope(graph, opsets, runtime, outer, scope, compiled->captures_));
  std::vector<int> steps;
  for (size_t i = 0; i < scope.steps.size(); ++i) {
    if (scope.steps[i].around < 0) steps.push_back(static_cast<int>(i));
  }
  // What is an input and has an initializer is given, or left out by a run.
  std::map<int, ValueFact> inputs;
  for (const int id : scope.inputs) inputs[id] = {};
  Facts before(scope, std::move(inputs));
  compiled->section_ = std::make_unique<Section>(scope, runtime, std::move(steps), scope.outputs, 0, before);
  return compiled;
}

Result<std::vector<Value>> CompiledGraph::run(std::vector<Value> inputs, RunBudget& budget) {
  CHECK(inputs.size() == scope_.inputs.size());
  std::vector<Value> values(scope_.names.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto id = static_cast<size_t>(scope_.inputs[i]);
    values[id] = std::move(inputs[i]);
  }
  HR_RETURN_IF_ERROR(section_->run(values, budget));
  std::vector<Value> outputs;
  for (const int id : scope_.outputs) outputs.push_back(scope_.read(values, id));
  return outputs;
}

}  // namespace headrace::onnx
