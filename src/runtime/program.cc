#include "runtime/program.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/check.h"
#include "base/clock.h"
#include "runtime/thread_team.h"

namespace headrace::runtime {
namespace {

// Where values without elements lie when nothing else does: kernels work out addresses in them, and read and write none.
alignas(64) std::byte nowhere[64];

// What one core does in the microsecond or so that a barrier costs.
constexpr double kAloneBytes = 32 << 10, kAloneFlops = 64 << 10;

}  // namespace

Result<std::unique_ptr<Program>> Program::create(Graph graph, const KernelTarget& target, int team_size) {
  std::unique_ptr<Program> program(new Program(std::move(graph), target, team_size));
  HR_RETURN_IF_ERROR(program->choose_kernels());
  program->args_.resize(program->graph_.values.size());
  for (size_t id = 0; id < program->graph_.values.size(); ++id) {
    const Value& value = program->graph_.values[id];
    if (value.role != ValueRole::constant) continue;
    // Kernels read constants through the same views as everything else; none writes one.
    void* bytes = const_cast<std::byte*>(value.bytes.get());  // NOLINT
    if (bytes == nullptr && value.type.shape.elements(Bindings()) == 0) bytes = nowhere;
    program->args_[id].tensor = contiguous_view(bytes, value.type.dtype, value.type.shape, Bindings());
  }
  return program;
}

Status Program::choose_kernels() {
  kernels_.assign(graph_.nodes.size(), nullptr);
  for (size_t id = 0; id < graph_.nodes.size(); ++id) {
    const Node& node = graph_.nodes[id];
    if (node.op->effects.view) continue;
    auto kernel = select_kernel(*node.op, graph_.input_types(node), graph_.output_types(node), node.attrs, target_);
    if (!kernel) return kernel.error().with_context(node.name);
    kernels_[id] = *kernel;
    prepares_ = prepares_ || (*kernel)->prepare != nullptr;
  }
  return Status();
}

std::vector<WeightRequest> Program::weight_requests() const {
  std::vector<WeightRequest> requests;
  for (size_t id = 0; id < graph_.nodes.size(); ++id) {
    for (const ValueId input : graph_.nodes[id].inputs) {
      if (input == kNone || graph_.values[input].role != ValueRole::weight) continue;
      requests.push_back({graph_.values[input].recipe, kernels_[id]->layout_of(graph_.values[input].type)});
    }
  }
  return requests;
}

Status Program::bind_weights(const WeightStore& store) {
  for (size_t id = 0; id < graph_.nodes.size(); ++id) {
    for (const ValueId input : graph_.nodes[id].inputs) {
      if (input == kNone || graph_.values[input].role != ValueRole::weight) continue;
      const WeightView view =
          store.view(graph_.values[input].recipe, kernels_[id]->layout_of(graph_.values[input].type));
      // One value, one layout: two kernels that want different layouts of a weight read two values in the graph.
      if (args_[input].weight.data != nullptr && args_[input].weight.data != view.data) {
        return make_status(Code::internal, "weight {}: its readers want different layouts", graph_.values[input].name);
      }
      args_[input].weight = view;
    }
  }
  return Status();
}

void Program::bind_state(ValueId value, const Arg& arg) {
  CHECK(graph_.values[value].role == ValueRole::state);
  args_[value] = arg;
}

void Program::bind_arena(std::byte* arena, int64_t bytes) {
  if (arena != arena_) resolved_plan_ = nullptr;
  arena_ = arena;
  arena_bytes_ = bytes;
}

Program::BucketPlan& Program::bucket_plan(const Bindings& bucket) {
  for (const auto& plan : plans_) {
    if (plan->bucket == bucket) return *plan;
  }
  std::vector<int64_t> scratch(graph_.nodes.size(), 0);
  std::vector<int> overwritten(graph_.nodes.size(), -1);
  for (size_t id = 0; id < graph_.nodes.size(); ++id) {
    const Kernel* kernel = kernels_[id];
    if (kernel != nullptr && kernel->overwrites != nullptr) overwritten[id] = kernel->overwrites(graph_.nodes[id].attrs);
    if (kernel == nullptr || kernel->scratch_bytes == nullptr) continue;
    const Node& node = graph_.nodes[id];
    const std::vector<ValueType> inputs = graph_.input_types(node);
    const std::vector<ValueType> outputs = graph_.output_types(node);
    scratch[id] = int64_t(kernel->scratch_bytes({inputs, outputs, node.attrs, bucket}, team_size_));
  }
  std::vector<int32_t> stage_of_node;
  std::vector<Stage> stages = make_stages(bucket, stage_of_node);
  MemoryPlan memory = plan_memory(graph_, bucket, scratch, stage_of_node, overwritten);
  plans_.push_back(std::make_unique<BucketPlan>(BucketPlan{bucket, std::move(stages), std::move(memory), {}, false}));
  plans_.back()->states.resize(graph_.nodes.size());
  return *plans_.back();
}

// One thread's copies of constants that are not in memory: for each input of a node the last, in memory that grows.
class Program::StagedConstants {
 public:
  const std::byte* copy(size_t input, const ConstantBytes& constant, uint64_t bytes) {
    if (copies_.size() <= input) copies_.resize(input + 1);
    Copy& copy = copies_[input];
    if (copy.capacity < bytes) {
      copy = {};
      copy = {host_bytes(bytes), bytes};
    }
    constant.write(copy.memory.get(), bytes);
    return copy.memory.get();
  }

 private:
  struct Copy {
    std::shared_ptr<std::byte[]> memory;
    uint64_t capacity = 0;
  };
  std::vector<Copy> copies_;
};

Result<std::shared_ptr<const KernelState>> Program::prepare_node(NodeId id, const BucketPlan& plan, PackedConstants& packed,
                                                                 StagedConstants& staged) const {
  const Node& node = graph_.nodes[id];
  int overwritten = kernels_[id]->overwrites == nullptr ? -1 : kernels_[id]->overwrites(node.attrs);
  const auto storage_of = [&](ValueId value) { return plan.memory.storage_of[value]; };
  if (overwritten >= 0 && storage_of(node.inputs[overwritten]) != storage_of(node.outputs[0])) overwritten = -1;
  try {
    std::vector<const std::byte*> constants;
    for (const ValueId input : node.inputs) {
      const Value* value = input == kNone ? nullptr : &graph_.values[input];
      const bool there = value == nullptr || value->bytes.in_memory() || !value->bytes.has_value();
      constants.push_back(value == nullptr ? nullptr
                          : there          ? value->bytes.get()
                                           : staged.copy(constants.size(), value->bytes, value->constant_bytes()));
    }
    const std::vector<ValueType> inputs = graph_.input_types(node), outputs = graph_.output_types(node);
    return kernels_[id]->prepare({{inputs, outputs, node.attrs, plan.bucket}, constants, team_size_, packed, overwritten});
  } catch (const std::bad_alloc&) {
    return error(Code::resource_exhausted, "out of memory");
  }
}

Status Program::prepare(const Bindings& bucket, PackedConstants& packed, bool last) {
  BucketPlan& plan = bucket_plan(bucket);
  std::vector<int> readers(graph_.values.size(), 0);  // of constants; outputs of the graph count
  for (const Node& node : graph_.nodes) {
    for (const ValueId input : node.inputs) {
      if (input != kNone) ++readers[input];
    }
  }
  for (const GraphOutput& output : graph_.outputs) ++readers[output.value];
  const auto let_go = [&](ValueId value) {
    if (last && readers[value] == 0 && graph_.values[value].role == ValueRole::constant) replace_constant(value, {});
  };
  for (size_t id = 0; id < graph_.values.size(); ++id) let_go(static_cast<ValueId>(id));
  std::vector<NodeId> preparing;
  for (size_t id = 0; id < graph_.nodes.size() && !plan.prepared; ++id) {
    if (kernels_[id] != nullptr && kernels_[id]->prepare != nullptr) preparing.push_back(static_cast<NodeId>(id));
  }
  std::mutex mutex;  // guards readers and constants
  std::vector<Status> failed(preparing.size());
  std::atomic<bool> stop = false;
  ThreadTeam(std::clamp(static_cast<int>(preparing.size()), 1, team_size_)).run([&](Team& team) {
    StagedConstants staged;
    for (int64_t at; !stop && (at = team.claim(std::ssize(preparing))) >= 0;) {
      const NodeId id = preparing[at];
      const Node& node = graph_.nodes[id];
      auto state = prepare_node(id, plan, packed, staged);
      if (!state) {
        failed[at] = state.error().with_context(node.name);
        stop = true;
        break;
      }
      plan.states[id] = *std::move(state);
      const std::lock_guard lock(mutex);
      for (size_t i = 0; i < node.inputs.size() && plan.states[id] != nullptr; ++i) {
        if (node.inputs[i] == kNone || plan.states[id]->reads(static_cast<int>(i))) continue;
        --readers[node.inputs[i]];
        let_go(node.inputs[i]);
      }
    }
  });
  for (Status& status : failed) HR_RETURN_IF_ERROR(std::move(status));
  plan.prepared = true;
  return {};
}

void Program::replace_constant(ValueId value, ConstantBytes bytes) {
  CHECK(graph_.values[value].role == ValueRole::constant);
  args_[value].tensor.data = const_cast<std::byte*>(bytes.get());  // NOLINT: as in create()
  graph_.values[value].bytes = std::move(bytes);
}

// A node so small that a barrier costs as much runs alone; nodes by rows of one count follow each other. A decode step of
// SmolLM2 so waits five times a layer, not fifteen.
std::vector<Program::Stage> Program::make_stages(const Bindings& bucket, std::vector<int32_t>& stage_of_node) const {
  std::vector<Stage> stages = {{0, 0, 0}};
  const auto open_stage = [&] { stages.push_back({stages.back().end, stages.back().end, stages.back().end}); };
  const Node* last_by_rows = nullptr;  // the last call of all members, where it may be followed without a barrier
  for (size_t id = 0; id < graph_.nodes.size(); ++id) {
    if (kernels_[id] != nullptr && kernels_[id]->outside_team) {
      if (stages.back().end > stages.back().begin) open_stage();
      ++stages.back().alone;
      ++stages.back().end;
      stages.back().outside = true;
      last_by_rows = nullptr;
    } else if (kernels_[id] != nullptr) {
      if (stages.back().outside) open_stage();
      const Node& node = graph_.nodes[id];
      const std::vector<ValueType> inputs = graph_.input_types(node);
      const std::vector<ValueType> outputs = graph_.output_types(node);
      const Cost cost = node.op->cost({inputs, outputs, node.attrs, bucket});
      if (cost.bytes <= kAloneBytes && cost.flops <= kAloneFlops) {
        ++stages.back().end;
      } else {
        const bool follows = last_by_rows != nullptr && stages.back().alone == stages.back().end && kernels_[id]->by_rows &&
                             graph_.output_types(*last_by_rows)[0].shape[0] == outputs[0].shape[0];
        if (!follows && stages.back().end > stages.back().begin) open_stage();
        ++stages.back().alone;
        ++stages.back().end;
        last_by_rows = kernels_[id]->by_rows ? &node : nullptr;
      }
    }
    stage_of_node.push_back(static_cast<int32_t>(stages.size()) - 1);
  }
  return stages;
}

void Program::resolve(const BucketPlan& bucket, const Bindings& sizes, const std::vector<void*>& inputs) {
  const MemoryPlan& plan = bucket.memory;
  CHECK(plan.arena_bytes <= arena_bytes_);
  for (size_t id = 0; id < graph_.values.size(); ++id) {
    const Value& value = graph_.values[id];
    if (value.role == ValueRole::input) {
      void* const data = inputs[id] != nullptr ? inputs[id] : nowhere;
      args_[id].tensor = contiguous_view(data, value.type.dtype, value.type.shape, sizes);
    }
  }
  size_t total = 0;
  for (const Node& node : graph_.nodes) total += node.inputs.size() + node.outputs.size();
  call_args_.clear();
  call_args_.reserve(total);  // spans into it stay valid
  calls_.clear();
  for (size_t id = 0; id < graph_.nodes.size(); ++id) {
    const Node& node = graph_.nodes[id];
    for (const ValueId output : node.outputs) {
      if (node.op->effects.view) {
        args_[output].tensor = node.op->view(node.attrs, args_[node.inputs[0]].tensor);
      } else {
        const Value& value = graph_.values[output];
        const ValueId storage = plan.storage_of[output];
        args_[output].tensor =
            contiguous_view((arena_ != nullptr ? arena_ : nowhere) + plan.value_offset[storage], value.type.dtype, value.type.shape, sizes);
      }
    }
    if (node.op->effects.view) continue;
    const size_t begin = call_args_.size();
    for (const ValueId input : node.inputs) call_args_.push_back(input == kNone ? Arg() : args_[input]);
    const size_t middle = call_args_.size();
    for (const ValueId output : node.outputs) call_args_.push_back(args_[output]);
    const Arg* base = call_args_.data();
    std::byte* scratch = plan.scratch_offset[id] < 0 ? nullptr : arena_ + plan.scratch_offset[id];
    calls_.push_back({kernels_[id],
                      NodeArgs{{base + begin, middle - begin},
                               {base + middle, call_args_.size() - middle},
                               node.attrs,
                               scratch,
                               bucket.states[id].get(),
                               static_cast<NodeId>(id)},
                      static_cast<NodeId>(id)});
  }
  resolved_plan_ = &bucket;
  resolved_sizes_ = sizes;
  resolved_inputs_ = inputs;
}

const Program::BucketPlan& Program::resolve_for(const Bindings& bucket, const Bindings& sizes, const std::vector<void*>& inputs) {
  const BucketPlan& plan = bucket_plan(bucket);
  CHECK(plan.prepared || !prepares_);
  if (resolved_plan_ != &plan || !(resolved_sizes_ == sizes) || resolved_inputs_ != inputs) resolve(plan, sizes, inputs);
  return plan;
}

void Program::launch(const Bindings& bucket, const Bindings& sizes, const std::vector<void*>& inputs, const StepContext& step) {
  resolve_for(bucket, sizes, inputs);
  TeamState one(1);
  Team self(one, 0);
  for (const Call& call : calls_) call.kernel->run(step, call.args, self);
}

void Program::run(DeviceQueue& queue, const Bindings& bucket, const Bindings& sizes, const std::vector<void*>& inputs,
                  const StepContext& step, std::vector<double>* node_seconds) {
  DeviceQueue::Turn turn = queue.turn();
  const BucketPlan& plan = resolve_for(bucket, sizes, inputs);
  if (node_seconds != nullptr) node_seconds->assign(graph_.nodes.size(), 0.0);
  const std::span<const Stage> stages = plan.stages;
  for (size_t begin = 0, end = 0; begin < stages.size(); begin = end) {
    const auto here = [](const Stage& stage) { return stage.outside || stage.begin == stage.alone; };
    while (end < stages.size() && here(stages[end]) == here(stages[begin])) ++end;
    if (!here(stages[begin])) {
      run_stages(stages.subspan(begin, end - begin), turn, step, node_seconds);
    } else {  // nothing to share: the team need not wake
      for (const Stage& stage : stages.subspan(begin, end - begin)) run_here(stage, step, node_seconds);
    }
  }
}

void Program::run_here(const Stage& stage, const StepContext& step, std::vector<double>* node_seconds) {
  TeamState one(1);
  Team self(one, 0);
  for (int32_t i = stage.begin; i < stage.end; ++i) {
    const TimePoint start = node_seconds != nullptr ? Clock::now() : TimePoint();
    calls_[i].kernel->run(step, calls_[i].args, self);
    self.barrier();
    if (node_seconds != nullptr) (*node_seconds)[calls_[i].node] = seconds_between(start, Clock::now());
  }
}

void Program::run_stages(std::span<const Stage> stages, DeviceQueue::Turn& turn, const StepContext& step,
                         std::vector<double>* node_seconds) {
  TimePoint stage_start = node_seconds != nullptr ? Clock::now() : TimePoint();  // written by the last to arrive
  turn.run([&](Team& team) {
    const auto run_calls = [&](int32_t begin, int32_t end, Team& members) {
      for (int32_t i = begin; i < end; ++i) {
        const Call& call = calls_[i];
        const bool timed = node_seconds != nullptr && members.rank() == 0;
        const TimePoint start = timed ? Clock::now() : TimePoint();
        call.kernel->run(step, call.args, members);
        if (timed) (*node_seconds)[call.node] = seconds_between(start, Clock::now());
      }
    };
    for (const Stage& stage : stages) {
      run_calls(stage.begin, stage.alone, team);
      team.barrier([&] {
        if (node_seconds != nullptr && stage.begin < stage.alone) {
          double waited = seconds_between(stage_start, Clock::now());
          for (int32_t i = stage.begin; i < stage.alone; ++i) waited -= (*node_seconds)[calls_[i].node];
          (*node_seconds)[calls_[stage.alone - 1].node] += waited;
        }
        TeamState one(1);
        Team self(one, 0);
        for (int32_t i = stage.alone; i < stage.end; ++i) {
          run_calls(i, i + 1, self);
          self.barrier();
        }
        if (node_seconds != nullptr) stage_start = Clock::now();
      });
    }
  }, lent_);
}

}  // namespace headrace::runtime
