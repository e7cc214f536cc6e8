#include "core/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

// About 20 us on a 3 GHz core: longer than a kernel's imbalance, shorter than a scheduling quantum.
constexpr int kSpins = 2000;

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

void Team::release(uint32_t generation) {
  TeamState& state = *state_;
  state.arrived.store(0, std::memory_order_relaxed);
  state.next_tile.store(0, std::memory_order_relaxed);
  if (state.size == 1) return;
  // Sequentially consistent: notify_all() looks for sleepers, and a store that is still on its way to memory then would let one
  // fall asleep on the old value, for good.
  state.generation.store(generation + 1, std::memory_order_seq_cst);
  state.generation.notify_all();
}

void Team::wait(uint32_t generation) {
  TeamState& state = *state_;
  for (int spin = 0; spin < kSpins; ++spin) {
    if (state.generation.load(std::memory_order_acquire) != generation) return;
    pause();
  }
  while (state.generation.load(std::memory_order_acquire) == generation) state.generation.wait(generation);
}

}  // namespace headrace
