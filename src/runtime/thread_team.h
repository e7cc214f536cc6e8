#pragma once
// The threads behind Team: the caller is member 0, the others wait for work, spinning briefly and then asleep. One team per
// device per process (device_queue.h leases it); tests make their own.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/team.h"

namespace headrace::runtime {

class ThreadTeam {
 public:
  explicit ThreadTeam(int size);  // at least 1
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return state_.size; }
  // Runs `work` on every member and returns when all have ended. One call at a time.
  void run(const std::function<void(Team&)>& work);

 private:
  void worker(int rank);

  TeamState state_;
  std::vector<std::thread> threads_;
  const std::function<void(Team&)>* work_ = nullptr;  // published by epoch_
  alignas(64) std::atomic<uint32_t> epoch_{0};        // rises with every run()
  alignas(64) std::atomic<int> running_{0};           // members still inside the current run()
  std::atomic<bool> stop_{false};
};

}  // namespace headrace::runtime
