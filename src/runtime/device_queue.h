#pragma once
// One per device and process: the order in which steps of all engines run there. On the CPU it leases the one thread team;
// a lease lasts a step, so that two models share the cores by turns and never oversubscribe them. An accelerator's queue has a team
// too, which packs the weights; its steps are ordered by the device's streams.

#include <functional>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "core/device.h"
#include "core/memory_ledger.h"
#include "core/team.h"
#include "runtime/accelerator.h"
#include "runtime/thread_team.h"

namespace headrace::runtime {

class DeviceQueue {
 public:
  // A queue of its own, for tests and benches. `memory_limit` 0: none.
  DeviceQueue(int threads, uint64_t memory_limit) : team_(threads), ledger_(memory_limit) {}

  // The process's queue for the CPU, made at the first call. threads 0: usable_cpus(). Errors: invalid_argument when the
  // process already runs another number of threads or another limit.
  static Result<std::shared_ptr<DeviceQueue>> cpu(int threads, uint64_t memory_limit);
  // A queue for CUDA device `index`, of its own. `memory_limit` 0: what is free there now but for a tenth. Errors: those of
  // Accelerator::cuda.
  static Result<std::shared_ptr<DeviceQueue>> cuda(int index, int threads, uint64_t memory_limit);
  // Of any accelerator, for tests.
  DeviceQueue(std::shared_ptr<Accelerator> accelerator, int threads, uint64_t memory_limit)
      : accelerator_(std::move(accelerator)), team_(threads), ledger_(memory_limit, accelerator_.get()) {}

  int threads() const { return team_.size(); }
  Accelerator* accelerator() const { return accelerator_.get(); }  // null: the CPU
  MemoryLedger& ledger() { return ledger_; }

  // One's turn: while it lives nothing else runs on the device.
  class Turn {
   public:
    // Runs `work` on every thread of the team (`lent`: on as many of a library's, so that two sets of threads do not spin beside each
    // other) and returns when all are done.
    void run(const std::function<void(Team&)>& work, LentThreads lent = nullptr);

   private:
    friend class DeviceQueue;
    explicit Turn(DeviceQueue& queue) : queue_(queue), lock_(queue.mutex_) {}
    DeviceQueue& queue_;
    std::unique_lock<std::mutex> lock_;
  };
  // Waits for it.
  Turn turn() { return Turn(*this); }
  // A turn of one piece of work.
  void run(const std::function<void(Team&)>& work) { turn().run(work); }

 private:
  const std::shared_ptr<Accelerator> accelerator_;
  std::mutex mutex_;
  ThreadTeam team_;  // used under mutex_
  MemoryLedger ledger_;
};

}  // namespace headrace::runtime
