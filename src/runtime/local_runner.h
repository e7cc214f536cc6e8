#pragma once
// A ModelRunner on a device of this process: builds the family's step program from a checkpoint, packs the weights and owns the KV pool
// and the arena. On the CPU each plan runs inside submit() (pipeline depth 0, cpu_runner.cc); an accelerator runs it while the next one
// is made (depth 1, accelerator_runner.cc).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/model_source.h"
#include "runtime/device_queue.h"
#include "runtime/kv_pool.h"
#include "runtime/model_runner.h"
#include "runtime/step_program.h"

namespace headrace::runtime {

struct RunnerOptions {
  std::string model_name;            // for the memory ledger
  DtypePolicy policy;
  std::vector<std::string> skip_passes;
  Isa isa = detect_isa();
  bool row_invariant = false;        // on an accelerator: only kernels whose rows do not depend on each other; the CPU has no others
  int32_t max_context = 0;           // 0: what the model was trained for, at most 8192
  int32_t max_seqs = 16;
  int32_t max_tokens = 512;
  int32_t max_logit_rows = 0;        // 0: max_seqs + 32
  int64_t kv_tokens = 0;             // 0: enough for max_seqs sequences, within the budget
  uint64_t kv_budget_bytes = 2ull << 30;  // caps kv_tokens = 0 when the ledger has no limit
  std::function<void(double)> progress;   // fraction of weights packed; may be null
};

class LocalRunner : public ModelRunner {
 public:
  // For the queue's device. `source` is needed during the call only. Errors: those of the family, the passes, kernel selection and the
  // weights.
  static Result<std::unique_ptr<LocalRunner>> open(const io::ModelSource& source, std::shared_ptr<DeviceQueue> queue,
                                                   RunnerOptions options);

  const RunnerLimits& limits() const override { return limits_; }
  RunnerMemory memory() const override;

  const models::ModelInfo& info() const { return step_.info; }
  Program& program() { return *step_.program; }
  const std::vector<PassReport>& passes() const { return step_.passes; }
  uint64_t weight_bytes() const { return weights_->bytes(); }
  // The bucket that a step of `tokens` runs in.
  Bindings bucket(int32_t tokens) const { return step_.bucket(tokens); }
  // Seconds of each node in the steps since the last call; recording starts with the first call. Empty where nobody measures them.
  virtual std::vector<double> take_node_seconds() { return {}; }

 protected:
  LocalRunner(std::shared_ptr<DeviceQueue> queue, RunnerOptions options, int pipeline_depth)
      : queue_(std::move(queue)), options_(std::move(options)) {
    limits_.pipeline_depth = pipeline_depth;
  }
  // Errors: invalid_argument for a plan beyond the limits.
  Status check(const StepPlan& plan) const;
  // Copies of blocks, each as copy(group, from, to). Errors: invalid_argument for blocks that are not there; what copy gives.
  Status copy_blocks(const StepPlan& plan, const std::function<Status(int32_t group, int32_t from, int32_t to)>& copy) const;
  // Where each input of the program lies when the plan's block lies at `block`.
  void place_inputs(const StepHeader& header, std::byte* block);
  Bindings sizes_of(const StepCounts& counts) const;
  // The bucket of a step of `tokens`, or the largest one where that bucket's plan does not fit the arena.
  Bindings fitting_bucket(int32_t tokens) const;

  std::shared_ptr<DeviceQueue> queue_;
  RunnerOptions options_;
  StepProgram step_;
  RunnerLimits limits_;
  std::unique_ptr<WeightStore> weights_;
  KvPool kv_;
  Buffer arena_;
  Buffer last_token_;
  // What a step gives: of an embedder the last, of a generator the others.
  enum Output { kTokens, kLogits, kLogprobs, kTopIds, kTopLogprobs, kEmbeddings, kNumOutputs };
  ValueId outputs_[kNumOutputs] = {kNone, kNone, kNone, kNone, kNone, kNone};
  // Elements of it that the step's result has, by what its plan asks for; 0: not wanted.
  int64_t wanted(Output output, const StepHeader& header) const;
  // Fills `result` from the outputs' bytes, wherever the host can read them.
  void take_result(const StepHeader& header, const void* const (&from)[kNumOutputs], StepResult& result) const;
  std::vector<void*> input_data_;  // by value id

 private:
  Status build(const io::ModelSource& source);
  uint64_t set_blocks(std::vector<KvPool::GroupSpec>& groups, int64_t blocks) const;
  int64_t most_blocks(std::vector<KvPool::GroupSpec>& groups, int64_t wanted, uint64_t budget) const;
  Status place_kv(const std::vector<int>& group_of_layer);
  Status bind_inputs(const std::vector<int>& group_of_layer);
  Status find_outputs();
  // What a device adds when all else is bound.
  virtual Status prepare_device() { return {}; }

  struct InputSource {
    ValueId value;
    StepField field;
    int group;
  };
  std::vector<InputSource> inputs_;
};

// How LocalRunner::open makes them.
std::unique_ptr<LocalRunner> make_cpu_runner(std::shared_ptr<DeviceQueue> queue, RunnerOptions options);
std::unique_ptr<LocalRunner> make_accelerator_runner(std::shared_ptr<DeviceQueue> queue, RunnerOptions options);

}  // namespace headrace::runtime
