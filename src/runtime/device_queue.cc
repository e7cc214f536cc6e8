#include "runtime/device_queue.h"

namespace headrace::runtime {

Result<std::shared_ptr<DeviceQueue>> DeviceQueue::cpu(int threads, uint64_t memory_limit) {
  static std::mutex mutex;
  static std::weak_ptr<DeviceQueue> instance;
  const std::lock_guard lock(mutex);
  const int wanted = threads > 0 ? threads : usable_cpus();
  if (auto queue = instance.lock()) {
    if (queue->threads() == wanted && queue->ledger().limit() == memory_limit) return queue;
    return error(Code::invalid_argument,
                 "threads and memory belong to the process: it runs {} threads with a limit of {} bytes, a second model "
                 "asked for {} and {}",
                 queue->threads(), queue->ledger().limit(), wanted, memory_limit);
  }
  auto queue = std::make_shared<DeviceQueue>(wanted, memory_limit);
  instance = queue;
  return queue;
}

Result<std::shared_ptr<DeviceQueue>> DeviceQueue::cuda(int index, int threads, uint64_t memory_limit) {
  HR_ASSIGN_OR_RETURN(std::shared_ptr<Accelerator> accelerator, Accelerator::cuda(index));
  HR_ASSIGN_OR_RETURN(const uint64_t free, accelerator->free_memory());
  const uint64_t limit = memory_limit > 0 ? memory_limit : free - free / 10;
  return std::make_shared<DeviceQueue>(std::move(accelerator), threads > 0 ? threads : usable_cpus(), limit);
}

void DeviceQueue::Turn::run(const std::function<void(Team&)>& work, LentThreads lent) {
  struct Context {
    const std::function<void(Team&)>& work;
    TeamState state;
  } context{work, TeamState(queue_.threads())};
  const bool ran = lent != nullptr && lent(
      queue_.threads(),
      [](void* at, int rank) {
        auto& shared = *static_cast<Context*>(at);
        Team self(shared.state, rank);
        shared.work(self);
      },
      &context);
  if (!ran) queue_.team_.run(work);
}

}  // namespace headrace::runtime
