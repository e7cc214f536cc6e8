#include "runtime/thread_team.h"

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace::runtime {
namespace {

// A decode step follows the last within a few hundred microseconds: workers spin about that long before they sleep.
constexpr int kSpins = 20000;

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Waits until `value` differs from `old`.
template <class T>
void wait_change(std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(int size) : state_(size) {
  CHECK(size >= 1);
  for (int rank = 1; rank < size; ++rank) threads_.emplace_back([this, rank] { worker(rank); });
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::run(const std::function<void(Team&)>& work) {
  const int others = state_.size - 1;
  state_.next_tile.store(0, std::memory_order_relaxed);
  if (others > 0) {
    work_ = &work;
    running_.store(others, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    epoch_.notify_all();
  }
  Team self(state_, 0);
  work(self);
  for (int left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    wait_change(running_, left);
  }
}

void ThreadTeam::worker(int rank) {
  uint32_t seen = 0;
  while (true) {
    while (epoch_.load(std::memory_order_acquire) == seen) wait_change(epoch_, seen);
    ++seen;  // runs come one at a time: none is missed
    if (stop_.load(std::memory_order_relaxed)) return;
    Team self(state_, rank);
    (*work_)(self);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace headrace::runtime
