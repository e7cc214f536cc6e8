#pragma once
// How many prompt tokens a step may take beside decodes, so that running streams keep their pace. Learns from the steps that were
// run what decodes cost by themselves and what a prompt's token adds; both drift with contexts, so recent steps count most. Not
// thread-safe.

#include <algorithm>
#include <cstdint>
#include <limits>

namespace headrace::engine {

class StepPace {
 public:
  // `target_seconds`: what a step with decodes should take at most; 0: no limit.
  explicit StepPace(double target_seconds) : target_(target_seconds) {}

  // A step of `decodes` tokens that decode and `prefill` of prompts.
  void note(int32_t decodes, int32_t prefill, double seconds) {
    if (prefill == 0) {
      blend(decode_step_, seconds);
    } else if (prefill >= kLeast) {  // a prompt's last few tokens say little about what the next will cost
      // Where decodes are dearer than they were known to be, a part of the step is still the prompt's.
      const double rest = std::max(seconds - (decodes > 0 ? decode_step_ : 0.0), 0.25 * seconds);
      blend(prefill_token_, rest / prefill);
      prefill_token_ = std::max(prefill_token_, rest / prefill);  // it rises at once and falls slowly
    }
  }

  // Prompt tokens of the next step, if it has decodes. It may always take half as long again as the decodes alone, so that prompts
  // advance where the target cannot be met; and at least a block of KV goes on.
  int32_t prefill_budget() const {
    constexpr double kMost = std::numeric_limits<int32_t>::max();
    if (target_ <= 0) return std::numeric_limits<int32_t>::max();
    if (prefill_token_ <= 0) return kFirst;
    constexpr double kMargin = 0.85;  // a prompt's next tokens are dearer than its last: they see more
    const double room = std::max(kMargin * (target_ - decode_step_), 0.5 * decode_step_);
    return static_cast<int32_t>(std::clamp(room / prefill_token_, static_cast<double>(kLeast), kMost));
  }

 private:
  static constexpr int32_t kLeast = 16;  // a block of KV
  static constexpr int32_t kFirst = 64;  // before any prompt has been seen
  static void blend(double& mean, double value) { mean = mean == 0 ? value : 0.5 * mean + 0.5 * value; }

  const double target_;
  double decode_step_ = 0, prefill_token_ = 0;  // seconds; 0: not known
};

}  // namespace headrace::engine
