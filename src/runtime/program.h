#pragma once
// A graph made runnable on one device: a kernel per node, weights and constants in place, a memory plan per bucket of token
// counts. Immutable after create() but for the lazy plans; run() is called by one thread at a time.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/buffer.h"
#include "graph/graph.h"
#include "graph/memory_plan.h"
#include "ops/op_table.h"
#include "runtime/weight_store.h"

namespace headrace::runtime {

class Program {
 public:
  // Chooses kernels and lists the weights; nothing is packed yet. Errors: unsupported when a node has no kernel.
  static Result<std::unique_ptr<Program>> create(Graph graph, const KernelTarget& target, int team_size);

  const Graph& graph() const { return graph_; }
  const std::vector<const Kernel*>& kernels() const { return kernels_; }  // by node id; null for views
  std::vector<WeightRequest> weight_requests() const;

  // The memory plan of a bucket: made at the first call, kept. The reference lives as long as the program.
  const MemoryPlan& plan_for(const Bindings& bucket) { return bucket_plan(bucket).memory; }
  // Lets kernels that prepare do so for a bucket, as many at once as the team has threads; before run() where there are such kernels.
  // Errors: theirs, with the node's name.
  // `last`: no other bucket follows; the bytes of constants that no run reads are let go, each as soon as its last reader has packed it.
  Status prepare(const Bindings& bucket, PackedConstants& packed, bool last = false);
  // Shows a constant other bytes, equal to its own. Before the first run, which finds all that it reads in memory.
  void replace_constant(ValueId value, ConstantBytes bytes);
  // Threads that the team's work runs on from now on; null: the queue's own.
  void use_threads(LentThreads lent) { lent_ = lent; }

  // Binds what lives from step to step. Call once, before run().
  Status bind_weights(const WeightStore& store);
  void bind_state(ValueId value, const Arg& arg);
  void bind_arena(std::byte* arena, int64_t bytes);

  // Runs every node on the queue's team. `inputs[value]` holds the data of each input value; `sizes` the symbols' values,
  // each at most the bucket's. Resolved arguments are reused while sizes, bucket and input addresses stay the same.
  // `node_seconds`, when given, receives the seconds each node took on member 0, or on the member that ran it alone; a wait for
  // the others counts for the node before it.
  void run(DeviceQueue& queue, const Bindings& bucket, const Bindings& sizes, const std::vector<void*>& inputs,
           const StepContext& step, std::vector<double>* node_seconds = nullptr);

  // On an accelerator: launches every node's kernel on the stream of `step`, by the calling thread, in order.
  void launch(const Bindings& bucket, const Bindings& sizes, const std::vector<void*>& inputs, const StepContext& step);

  // A computed value or input of the last run.
  const TensorView& tensor(ValueId value) const { return args_[value].tensor; }

 private:
  Program(Graph graph, KernelTarget target, int team_size)
      : graph_(std::move(graph)), target_(target), team_size_(team_size) {}
  // What runs between two barriers: calls [begin, alone) on every member, then [alone, end) on the member that is last to end the
  // first part, while the others wait. A stage outside the team is one call.
  struct Stage {
    int32_t begin, alone, end;
    bool outside = false;
  };
  struct BucketPlan {
    Bindings bucket;
    std::vector<Stage> stages;
    MemoryPlan memory;
    std::vector<std::shared_ptr<const KernelState>> states;  // by node id; null where none
    bool prepared = false;
  };
  Status choose_kernels();
  class StagedConstants;
  Result<std::shared_ptr<const KernelState>> prepare_node(NodeId id, const Bindings& bucket, PackedConstants& packed,
                                                          StagedConstants& staged) const;
  BucketPlan& bucket_plan(const Bindings& bucket);
  std::vector<Stage> make_stages(const Bindings& bucket, std::vector<int32_t>& stage_of_node) const;
  void resolve(const BucketPlan& plan, const Bindings& sizes, const std::vector<void*>& inputs);
  void run_stages(std::span<const Stage> stages, DeviceQueue::Turn& turn, const StepContext& step, std::vector<double>* node_seconds);
  // Resolves the arguments where they are not those of the last run.
  const BucketPlan& resolve_for(const Bindings& bucket, const Bindings& sizes, const std::vector<void*>& inputs);
  // By the calling thread.
  void run_here(const Stage& stage, const StepContext& step, std::vector<double>* node_seconds);

  struct Call {
    const Kernel* kernel;
    NodeArgs args;
    NodeId node;
  };

  Graph graph_;
  KernelTarget target_;
  int team_size_;
  std::vector<const Kernel*> kernels_;
  bool prepares_ = false;  // some kernel does
  LentThreads lent_ = nullptr;
  std::vector<std::unique_ptr<BucketPlan>> plans_;
  std::byte* arena_ = nullptr;
  int64_t arena_bytes_ = 0;

  // The resolved step.
  std::vector<Arg> args_;       // by value id
  std::vector<Arg> call_args_;  // inputs and outputs of every call, in order
  std::vector<Call> calls_;
  const BucketPlan* resolved_plan_ = nullptr;
  Bindings resolved_sizes_;
  std::vector<void*> resolved_inputs_;
};

}  // namespace headrace::runtime
