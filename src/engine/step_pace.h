#pragma once
// How many prompt tokens a step may take beside decodes, so that running streams keep their pace. Learns what a step costs as
// seconds = a + b * tokens from the steps that were run, the recent ones counting most. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace headrace::engine {

class StepPace {
 public:
  // `target_seconds`: what a step with decodes should take at most; 0: no limit.
  explicit StepPace(double target_seconds) : target_(target_seconds) {}

  void note(int32_t tokens, double seconds) {
    constexpr double kMemory = 0.95;  // of a step's weight is left when the next has come
    const double n = tokens;
    weight_ = kMemory * weight_ + 1;
    n_ = kMemory * n_ + n;
    s_ = kMemory * s_ + seconds;
    nn_ = kMemory * nn_ + n * n;
    ns_ = kMemory * ns_ + n * seconds;
  }

  // Beside `num_decodes` tokens. A step may always take half as long again as the decodes alone, so that prompts advance where the
  // target cannot be met; and at least a block of KV goes on.
  int32_t prefill_budget(size_t num_decodes) const {
    constexpr int32_t kLeast = 16;
    if (target_ <= 0) return std::numeric_limits<int32_t>::max();
    if (weight_ <= 0) return kFirst;
    const double mean_n = n_ / weight_, mean_s = s_ / weight_;
    const double spread = nn_ / weight_ - mean_n * mean_n;
    // With steps of one size only, all of their cost is taken for the tokens': the chunk then grows step by step.
    const double per_token = spread > 1e-3 * mean_n * mean_n ? std::max(0.0, (ns_ / weight_ - mean_n * mean_s) / spread) : mean_s / mean_n;
    const double decodes = std::max(0.0, mean_s + per_token * (static_cast<double>(num_decodes) - mean_n));
    const double room = std::max(target_ - decodes, 0.5 * decodes);
    if (!(per_token > 0)) return std::numeric_limits<int32_t>::max();
    return static_cast<int32_t>(std::clamp(room / per_token, static_cast<double>(kLeast), 1e9));
  }

 private:
  static constexpr int32_t kFirst = 64;  // before any step has run
  const double target_;
  double weight_ = 0, n_ = 0, s_ = 0, nn_ = 0, ns_ = 0;  // decayed sums
};

}  // namespace headrace::engine
