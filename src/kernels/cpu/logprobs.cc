// logprobs: one member takes a row and reads it twice, or three times where ids are to be listed. Exponentials are added in
// float32 over blocks of 1024, block sums in float64, in an order that the row's length alone fixes.
#include "ops/logprobs.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

using ops::kMaxLogprobs;

constexpr int64_t kBlock = 1024;

double sum_of_powers(const float* x, int64_t count, float peak) {
  const Lanes top = broadcast(peak);
  double total = 0;
  for (int64_t at = 0; at < count; at += kBlock) {
    total += static_cast<double>(sum_of_row(x + at, at + kBlock < count ? kBlock : count - at, [&](Lanes v, int n, Lanes chain) {
      // Beyond the row the logit reads as 0, which is no part of the sum.
      const Lanes power = exp(v - top);
      return chain + (n == kLanes ? power : keep_range(power, 0, n, 0.0f));
    }));
  }
  return total;
}

// The best ids of a row without NaN, best first. Ids come in rising order, so that one that only equals the last is no better.
struct Best {
  int32_t wanted;
  int32_t count = 0;
  float value[kMaxLogprobs];
  int32_t id[kMaxLogprobs];

  float threshold() const { return value[wanted - 1]; }  // once `count` is `wanted`
  void insert(float x, int32_t at) {
    int32_t place = count < wanted ? count++ : wanted - 1;
    for (; place > 0 && value[place - 1] < x; --place) {
      value[place] = value[place - 1];
      id[place] = id[place - 1];
    }
    value[place] = x;
    id[place] = at;
  }
};

// Four registers at a time are compared with the worst that is listed; few of them hold anything better.
void find_best(const float* x, int64_t count, Best& best) {
  int64_t i = 0;
  for (; i < count && best.count < best.wanted; ++i) best.insert(x[i], static_cast<int32_t>(i));
  const auto look_at = [&](int64_t end) __attribute__((always_inline)) {
    for (; i < end; ++i) {
      if (x[i] > best.threshold()) best.insert(x[i], static_cast<int32_t>(i));
    }
  };
  while (i + kStride <= count) {
    const Lanes a = max(load(x + i), load(x + i + kLanes));
    const Lanes b = max(load(x + i + 2 * kLanes), load(x + i + 3 * kLanes));
    if (largest(max(a, b)) > best.threshold()) {
      look_at(i + kStride);
    } else {
      i += kStride;
    }
  }
  look_at(count);
}

void run_logprobs(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& logits = args.inputs[0].tensor;
  const auto* tokens = args.inputs[1].tensor.as<int32_t>();
  const auto* target = args.inputs[2].tensor.as<int32_t>();
  const auto* num_logprobs = args.inputs[3].tensor.as<int32_t>();
  const int64_t count = logits.dims[1];
  for (int64_t row = team.claim(logits.dims[0]); row >= 0; row = team.claim(logits.dims[0])) {
    float& logprob = args.outputs[0].tensor.as<float>()[row];
    auto* top_id = args.outputs[1].tensor.row<int32_t>(row);
    auto* top_logprob = args.outputs[2].tensor.row<float>(row);
    logprob = 0.0f;
    for (int i = 0; i < kMaxLogprobs; ++i) {
      top_id[i] = -1;
      top_logprob[i] = 0.0f;
    }
    if (num_logprobs[row] < 0) continue;
    const auto* x = logits.row<float>(row);
    const Peak peak = find_peak(x, count);
    if (!peak.usable) {
      logprob = __builtin_nanf("");
      continue;
    }
    const double log_total = __builtin_log(sum_of_powers(x, count, peak.value));
    const auto logprob_of = [&](int32_t id) {
      return static_cast<float>(static_cast<double>(x[id]) - static_cast<double>(peak.value) - log_total);
    };
    const int32_t id = target[row] >= 0 ? target[row] : tokens[row];
    if (id >= 0 && id < count) logprob = logprob_of(id);
    if (num_logprobs[row] == 0) continue;
    Best best{.wanted = num_logprobs[row] < kMaxLogprobs ? num_logprobs[row] : kMaxLogprobs};
    find_best(x, count, best);
    for (int i = 0; i < best.count; ++i) {
      top_id[i] = best.id[i];
      top_logprob[i] = logprob_of(best.id[i]);
    }
  }
}

constexpr Kernel kLogprobs{.op = &ops::logprobs, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_logprobs};

}  // namespace

const KernelList kernels_logprobs = {&kLogprobs, 1};
HR_END_KERNELS
