// Steps on this process's CPU: submit() runs the whole step on the team.
#include <cstring>

#include "base/check.h"
#include "runtime/local_runner.h"

namespace headrace::runtime {
namespace {

class CpuRunner final : public LocalRunner {
 public:
  CpuRunner(std::shared_ptr<DeviceQueue> queue, RunnerOptions options) : LocalRunner(std::move(queue), std::move(options), 0) {}

  Result<Ticket> submit(const StepPlan& plan) override;
  Result<StepResult> wait(Ticket ticket) override;
  std::vector<double> take_node_seconds() override;

 private:
  std::vector<uint64_t> staging_;  // the plan's block, at an address that stays
  StepResult result_;              // of the step that was submitted last
  bool pending_ = false;
  bool record_nodes_ = false;
  std::vector<double> node_seconds_, node_sum_;
};

Result<Ticket> CpuRunner::submit(const StepPlan& plan) {
  HR_RETURN_IF_ERROR(check(plan));
  CHECK(!pending_);
  const StepHeader& header = plan.header();
  const std::span<const std::byte> block = plan.block();
  if (staging_.size() * sizeof(uint64_t) < block.size()) staging_.resize(block.size() / sizeof(uint64_t) * 2);
  std::memcpy(staging_.data(), block.data(), block.size());
  place_inputs(header, reinterpret_cast<std::byte*>(staging_.data()));
  HR_RETURN_IF_ERROR(copy_blocks(plan, [&](int32_t group, int32_t from, int32_t to) {
    kv_.copy_block(group, from, to);
    return Status();
  }));
  step_.program->run(*queue_, fitting_bucket(header.counts.tokens), sizes_of(header.counts), input_data_, StepContext{header.step},
                     record_nodes_ ? &node_seconds_ : nullptr);
  if (record_nodes_) {
    node_sum_.resize(node_seconds_.size());
    for (size_t i = 0; i < node_seconds_.size(); ++i) node_sum_[i] += node_seconds_[i];
  }
  const void* from[kNumOutputs] = {};
  for (int output = 0; output < kNumOutputs; ++output) {
    if (outputs_[output] != kNone) from[output] = step_.program->tensor(outputs_[output]).data;
  }
  take_result(header, from, result_);
  pending_ = true;
  return Ticket{header.step};
}

Result<StepResult> CpuRunner::wait(Ticket ticket) {
  CHECK(pending_ && ticket.step == result_.step);
  pending_ = false;
  return result_;
}

std::vector<double> CpuRunner::take_node_seconds() {
  record_nodes_ = true;
  std::vector<double> taken = std::move(node_sum_);
  node_sum_.assign(step_.program->graph().nodes.size(), 0.0);
  return taken;
}

}  // namespace

std::unique_ptr<LocalRunner> make_cpu_runner(std::shared_ptr<DeviceQueue> queue, RunnerOptions options) {
  return std::make_unique<CpuRunner>(std::move(queue), std::move(options));
}

}  // namespace headrace::runtime
