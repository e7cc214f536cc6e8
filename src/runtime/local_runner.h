#pragma once
// A ModelRunner on this process's CPU: builds the family's step program from a checkpoint, packs the weights, owns the KV
// pool and the arena, and runs each plan inside submit() (pipeline depth 0).

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
  int32_t max_context = 0;           // 0: what the model was trained for, at most 8192
  int32_t max_seqs = 16;
  int32_t max_tokens = 512;
  int32_t max_logit_rows = 0;        // 0: max_seqs + 32
  int64_t kv_tokens = 0;             // 0: enough for max_seqs sequences, within the budget
  uint64_t kv_budget_bytes = 2ull << 30;  // caps kv_tokens = 0 when the ledger has no limit
  std::function<void(double)> progress;   // fraction of weights packed; may be null
};

class LocalRunner final : public ModelRunner {
 public:
  // `source` is needed during the call only. Errors: those of the family, the passes, kernel selection and the weights.
  static Result<std::unique_ptr<LocalRunner>> open(const io::ModelSource& source, std::shared_ptr<DeviceQueue> queue,
                                                   RunnerOptions options);

  const RunnerLimits& limits() const override { return limits_; }
  Result<Ticket> submit(const StepPlan& plan) override;
  Result<StepResult> wait(Ticket ticket) override;
  RunnerMemory memory() const override;

  const models::ModelInfo& info() const { return step_.info; }
  Program& program() { return *step_.program; }
  const std::vector<PassReport>& passes() const { return step_.passes; }
  uint64_t weight_bytes() const { return weights_->bytes(); }
  // The bucket that a step of `tokens` runs in.
  Bindings bucket(int32_t tokens) const { return step_.bucket(tokens); }
  // Seconds of each node in the steps since the last call; recording starts with the first call.
  std::vector<double> take_node_seconds();

 private:
  LocalRunner(std::shared_ptr<DeviceQueue> queue, RunnerOptions options)
      : queue_(std::move(queue)), options_(std::move(options)) {}
  Status build(const io::ModelSource& source);
  uint64_t set_blocks(std::vector<KvPool::GroupSpec>& groups, int64_t blocks) const;
  int64_t most_blocks(std::vector<KvPool::GroupSpec>& groups, int64_t wanted, uint64_t budget) const;
  Status place_kv(const std::vector<int>& group_of_layer);
  Status bind_inputs(const std::vector<int>& group_of_layer);
  void take_result(const StepHeader& header);

  struct InputSource {
    ValueId value;
    StepField field;
    int group;
  };

  std::shared_ptr<DeviceQueue> queue_;
  RunnerOptions options_;
  StepProgram step_;
  RunnerLimits limits_;
  std::unique_ptr<WeightStore> weights_;
  KvPool kv_;
  Buffer arena_;
  Buffer last_token_;
  ValueId tokens_output_ = kNone, logits_output_ = kNone, embeddings_output_ = kNone, logprobs_output_ = kNone,
          top_ids_output_ = kNone, top_logprobs_output_ = kNone;
  std::vector<InputSource> inputs_;
  std::vector<void*> input_data_;      // by value id
  std::vector<uint64_t> staging_;      // the plan's block, at an address that stays
  StepResult result_;                  // of the step that was submitted last
  bool pending_ = false;
  bool record_nodes_ = false;
  std::vector<double> node_seconds_, node_sum_;
};

}  // namespace headrace::runtime
