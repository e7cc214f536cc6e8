// token_logprob: one member takes a row and reads it twice. Exponentials are added in float32 over blocks of 1024, block sums
// in float64, in an order that the row's length alone fixes.
#include "ops/token_logprob.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

constexpr int64_t kBlock = 1024;

float logprob_of(const float* x, int64_t count, int32_t target) {
  const Peak peak = find_peak(x, count);
  if (!peak.usable) return __builtin_nanf("");
  if (target < 0 || target >= count) return 0.0f;
  const Lanes top = broadcast(peak.value);
  double total = 0;
  for (int64_t at = 0; at < count; at += kBlock) {
    total += static_cast<double>(sum_of_row(x + at, at + kBlock < count ? kBlock : count - at, [&](Lanes v, int n, Lanes chain) {
      // Beyond the row the logit reads as 0, which is no part of the sum.
      const Lanes power = exp(v - top);
      return chain + (n == kLanes ? power : keep_range(power, 0, n, 0.0f));
    }));
  }
  return static_cast<float>(static_cast<double>(x[target]) - static_cast<double>(peak.value) - __builtin_log(total));
}

void run_token_logprob(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& logits = args.inputs[0].tensor;
  const int32_t* target = args.inputs[1].tensor.as<int32_t>();
  float* out = args.outputs[0].tensor.as<float>();
  for (int64_t row = team.claim(logits.dims[0]); row >= 0; row = team.claim(logits.dims[0])) {
    out[row] = logprob_of(logits.row<float>(row), logits.dims[1], target[row]);
  }
}

constexpr Kernel kTokenLogprob{
    .op = &ops::token_logprob, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_token_logprob};

}  // namespace

const KernelList kernels_token_logprob = {&kTokenLogprob, 1};
HR_END_KERNELS
