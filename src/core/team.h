#pragma once
// Kernels are SPMD: every thread of a team runs the same function and takes its share by rank or by claiming tiles.
// Team is one thread's handle. A single-threaded team costs nothing.

#include <atomic>
#include <cstdint>

namespace headrace {

// Shared by the threads of one team; owned by runtime/thread_team.h.
struct TeamState {
  explicit TeamState(int members) : size(members) {}
  const int size;
  alignas(64) std::atomic<int64_t> next_tile{0};
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<uint32_t> generation{0};
};

class Team {
 public:
  Team(TeamState& state, int rank) : state_(&state), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return state_->size; }

  // Waits until every member has arrived; what they wrote before is visible after. Restarts the tile counter.
  void barrier() {
    barrier([] {});
  }
  // The same, and the last member to arrive runs `serial` while the others wait: work too small to share costs no second wait.
  template <class F>
  void barrier(F&& serial) {
    const uint32_t generation = state_->generation.load(std::memory_order_acquire);
    if (state_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == state_->size) {
      serial();
      release(generation);
    } else {
      wait(generation);
    }
  }

  // The next unclaimed tile in [0, count), or -1 when all are taken. Tiles come in rising order. Valid once between
  // two barriers: the executor places one before and after every kernel.
  int64_t claim(int64_t count) {
    const int64_t tile = state_->next_tile.fetch_add(1, std::memory_order_relaxed);
    return tile < count ? tile : -1;
  }

  // This member's part [begin, end) of `count` items, split evenly by rank in multiples of `grain`.
  struct Range {
    int64_t begin, end;
  };
  Range share(int64_t count, int64_t grain = 1) const {
    const int64_t grains = (count + grain - 1) / grain;
    const int64_t begin = grains * rank_ / size() * grain;
    const int64_t end = grains * (rank_ + 1) / size() * grain;
    return {begin < count ? begin : count, end < count ? end : count};
  }

 private:
  void release(uint32_t generation);  // by the last to arrive
  void wait(uint32_t generation);     // by the others

  TeamState* state_;
  int rank_;
};

// How a library with threads of its own lends them: calls work(context, rank) for every rank below `size`, each on a thread of its own, and
// returns when all have ended. False where it has fewer threads: then nothing has run. Null: the process's own team.
using LentThreads = bool (*)(int size, void (*work)(void* context, int rank), void* context);

}  // namespace headrace
