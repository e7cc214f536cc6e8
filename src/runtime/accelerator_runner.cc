// Steps on an accelerator. submit() pads the plan to a bucket, sends it, launches the step and asks for its result; wait() waits for that
// alone. A step in which every sequence advances by one token is launched as a recorded graph, made when its bucket comes a second time;
// others are launched kernel by kernel, which their work hides.
#include <algorithm>
#include <cstring>
#include <deque>

#include "base/check.h"
#include "base/log.h"
#include "runtime/local_runner.h"

namespace headrace::runtime {
namespace {

constexpr int kDepth = 1;
// Counts of a recorded step are padded to these: all of their launches are kept, so that there are few, and none doubles the work.
constexpr int32_t kTokenBuckets[] = {1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512};
constexpr int32_t kLeastBlocks = 16;
constexpr int32_t kBiasBucket = 4096, kHistoryBucket = 65536;
// Tokens of other steps are padded to multiples of this, so that matrix products come in few shapes.
constexpr int32_t kTokenMultiple = 64;

int32_t next_power_of_two(int32_t value) {
  int32_t power = 1;
  while (power < value) power *= 2;
  return power;
}

class AcceleratorRunner final : public LocalRunner {
 public:
  AcceleratorRunner(std::shared_ptr<DeviceQueue> queue, RunnerOptions options)
      : LocalRunner(std::move(queue), std::move(options), kDepth), device_(*queue_->accelerator()) {}
  ~AcceleratorRunner() override {
    if (stream_ != nullptr) device_.plugin().synchronize(stream_.get());
  }

  Result<Ticket> submit(const StepPlan& plan) override;
  Result<StepResult> wait(Ticket ticket) override;

 private:
  Status prepare_device() override;
  // Counts to which a step is padded; `recorded`: whether steps of these counts run as a graph.
  StepCounts padded(const StepCounts& counts, bool& recorded) const;
  Status send_plan(const StepPlan& plan);
  Status launch(const StepCounts& counts, bool recorded, uint64_t step);

  // Of a step that is under way: what the host gives and takes, which stays until its result was waited for.
  struct Slot {
    Accelerator::Handle plan, done;
    uint64_t plan_bytes = 0;
    Accelerator::Handle results[kNumOutputs];
    uint64_t result_bytes[kNumOutputs] = {};
    StepHeader header;
  };
  Status ask_for_results(Slot& slot);
  Status grow_pinned(Accelerator::Handle& memory, uint64_t& held, uint64_t wanted) const;

  struct Recording {
    StepCounts counts;
    Accelerator::Handle graph;  // null: its bucket came once
    void* outputs[kNumOutputs] = {};
  };

  const Accelerator& device_;
  Accelerator::Handle stream_;
  Slot slots_[kDepth + 1];
  std::deque<int> in_flight_;  // slots, the oldest first
  int next_slot_ = 0;
  StepPlan padded_;
  Buffer plan_;                          // the block's place on the device
  std::vector<Buffer> constants_;
  std::vector<Recording> recordings_;
  void* output_data_[kNumOutputs] = {};  // of the step that was launched last
};

Status AcceleratorRunner::prepare_device() {
  HR_ASSIGN_OR_RETURN(stream_, device_.make_stream());
  for (Slot& slot : slots_) {
    HR_ASSIGN_OR_RETURN(slot.done, device_.make_event());
  }
  const Graph& graph = step_.program->graph();
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.role != ValueRole::constant) continue;
    const std::shared_ptr<const std::byte[]> held = value.bytes.hold();
    const uint64_t bytes = uint64_t(value.type.shape.elements(Bindings())) * dtype_bytes(value.type.dtype);
    HR_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(queue_->ledger(), Account::weights, options_.model_name, bytes));
    const bool sent = device_.plugin().copy_to_device(buffer.data(), held.get(), bytes, stream_.get()) &&
                      device_.plugin().synchronize(stream_.get());
    HR_RETURN_IF_ERROR(device_.check(sent, "sending a constant"));
    step_.program->replace_constant(ValueId(id), std::shared_ptr<const std::byte[]>(buffer.data(), [](const std::byte*) {}));
    constants_.push_back(std::move(buffer));
  }
  return {};
}

StepCounts AcceleratorRunner::padded(const StepCounts& counts, bool& recorded) const {
  StepCounts to = counts;
  to.copies = 0;
  const int32_t* const bucket = std::ranges::find_if(kTokenBuckets, [&](int32_t tokens) { return tokens >= counts.tokens; });
  recorded = counts.tokens == counts.seqs && bucket != std::end(kTokenBuckets) && limits_.embedding_size == 0 &&
             counts.biases <= kBiasBucket && counts.history <= kHistoryBucket;
  if (!recorded) {
    const int32_t multiple = counts.tokens > kTokenMultiple ? kTokenMultiple : 1;
    to.tokens = std::min((counts.tokens + multiple - 1) / multiple * multiple, std::max(limits_.max_tokens, counts.tokens));
    return to;
  }
  to.tokens = to.seqs = std::max(counts.tokens, std::min(*bucket, limits_.max_seqs));
  to.logit_rows = std::max(counts.logit_rows, std::min(to.tokens, limits_.max_logit_rows));
  to.blocks = int32_t(std::max<int64_t>(counts.blocks, std::min<int64_t>(next_power_of_two(std::max(counts.blocks, kLeastBlocks)),
                                                                         step_.limits.max_blocks)));
  if (counts.biases > 0) to.biases = kBiasBucket;
  if (counts.history > 0) to.history = kHistoryBucket;
  return to;
}

Status AcceleratorRunner::grow_pinned(Accelerator::Handle& memory, uint64_t& held, uint64_t wanted) const {
  if (wanted <= held) return {};
  memory.reset();
  held = 0;
  HR_ASSIGN_OR_RETURN(memory, device_.make_pinned(wanted));
  held = wanted;
  return {};
}

// The block goes to the same place in each step, behind whatever the last one still reads there: the stream keeps the order.
Status AcceleratorRunner::send_plan(const StepPlan& plan) {
  Slot& slot = slots_[next_slot_];
  const uint64_t bytes = plan.block().size();
  if (bytes > plan_.bytes()) {
    HR_RETURN_IF_ERROR(device_.check(device_.plugin().synchronize(stream_.get()), "a step"));
    recordings_.clear();  // they read the old place
    plan_ = Buffer();
    HR_ASSIGN_OR_RETURN(plan_, Buffer::allocate(queue_->ledger(), Account::arena, options_.model_name, bytes * 2));
  }
  HR_RETURN_IF_ERROR(grow_pinned(slot.plan, slot.plan_bytes, std::max(bytes, plan_.bytes())));
  std::memcpy(slot.plan.get(), plan.block().data(), bytes);
  return device_.check(device_.plugin().copy_to_device(plan_.data(), slot.plan.get(), bytes, stream_.get()), "sending a plan");
}

Status AcceleratorRunner::launch(const StepCounts& counts, bool recorded, uint64_t step) {
  Recording* recording = nullptr;
  for (Recording& known : recordings_) {
    if (recorded && known.counts == counts) recording = &known;
  }
  const bool is_new = recorded && recording == nullptr;
  if (is_new) {
    recordings_.push_back({counts, {}, {}});
    recording = &recordings_.back();
  }
  const auto launch_all = [&] {
    place_inputs(padded_.header(), plan_.data());
    step_.program->launch(fitting_bucket(counts.tokens), sizes_of(counts), input_data_, {.step = step, .stream = stream_.get()});
    for (int output = 0; output < kNumOutputs; ++output) {
      output_data_[output] = outputs_[output] == kNone ? nullptr : step_.program->tensor(outputs_[output]).data;
    }
  };
  if (!recorded || is_new) {  // the first time each kernel is loaded and each library asked
    launch_all();
    return {};
  }
  if (recording->graph == nullptr) {
    HR_RETURN_IF_ERROR(device_.check(device_.plugin().begin_capture(stream_.get()), "recording a step"));
    launch_all();
    HR_ASSIGN_OR_RETURN(recording->graph, device_.end_capture(stream_.get()));
    std::ranges::copy(output_data_, recording->outputs);
    log_debug("recorded a step of {} tokens, {} blocks", counts.tokens, counts.blocks);
  }
  std::ranges::copy(recording->outputs, output_data_);
  return device_.check(device_.plugin().launch_graph(recording->graph.get(), stream_.get()), "launching a step");
}

Status AcceleratorRunner::ask_for_results(Slot& slot) {
  for (int output = 0; output < kNumOutputs; ++output) {
    const uint64_t bytes = uint64_t(wanted(Output(output), slot.header)) * 4;  // i32 and f32 alike
    if (bytes == 0) continue;
    HR_RETURN_IF_ERROR(grow_pinned(slot.results[output], slot.result_bytes[output], bytes));
    HR_RETURN_IF_ERROR(device_.check(
        device_.plugin().copy_to_host(slot.results[output].get(), output_data_[output], bytes, stream_.get()), "asking for a result"));
  }
  return device_.check(device_.plugin().record_event(slot.done.get(), stream_.get()), "asking for a result");
}

Result<Ticket> AcceleratorRunner::submit(const StepPlan& plan) {
  HR_RETURN_IF_ERROR(check(plan));
  CHECK(in_flight_.size() <= kDepth);
  Slot& slot = slots_[next_slot_];
  slot.header = plan.header();
  bool recorded = false;
  const StepCounts counts = padded(plan.header().counts, recorded);
  padded_.pad(plan, counts);
  HR_RETURN_IF_ERROR(copy_blocks(plan, [&](int32_t group, int32_t from, int32_t to) {
    return kv_.copy_block(device_, group, from, to, stream_.get());
  }));
  HR_RETURN_IF_ERROR(send_plan(padded_));
  HR_RETURN_IF_ERROR(launch(counts, recorded, plan.header().step));
  HR_RETURN_IF_ERROR(ask_for_results(slot));
  in_flight_.push_back(next_slot_);
  next_slot_ = (next_slot_ + 1) % (kDepth + 1);
  return Ticket{slot.header.step};
}

Result<StepResult> AcceleratorRunner::wait(Ticket ticket) {
  CHECK(!in_flight_.empty() && slots_[in_flight_.front()].header.step == ticket.step);
  Slot& slot = slots_[in_flight_.front()];
  in_flight_.pop_front();
  HR_RETURN_IF_ERROR(device_.check(device_.plugin().wait_event(slot.done.get()), "a step"));
  const void* from[kNumOutputs] = {};
  for (int output = 0; output < kNumOutputs; ++output) from[output] = slot.results[output].get();
  StepResult result;
  take_result(slot.header, from, result);
  return result;
}

}  // namespace

std::unique_ptr<LocalRunner> make_accelerator_runner(std::shared_ptr<DeviceQueue> queue, RunnerOptions options) {
  return std::make_unique<AcceleratorRunner>(std::move(queue), std::move(options));
}

}  // namespace headrace::runtime
