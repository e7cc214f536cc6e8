#include "ops/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/input_check.h"

namespace headrace::ops {
namespace {

enum { kLogits, kTokens, kTarget, kNumLogprobs };

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("logprobs", inputs, {"logits", "tokens", "target", "num_logprobs"});
  check.tensor(kLogits, DType::f32, 2);
  for (const int index : {kTokens, kTarget, kNumLogprobs}) check.tensor(index, DType::i32, 1).same_dim(index, 0, kLogits, 0);
  if (!check.ok()) return check.outputs({});
  const Dim& rows = inputs[kLogits].shape[0];
  const Dim& vocabulary = inputs[kLogits].shape[1];
  check.require(vocabulary.is_constant() && vocabulary.constant() > 0, "the vocabulary must be a positive constant");
  return check.outputs({ValueType::tensor(DType::f32, {rows}), ValueType::tensor(DType::i32, {rows, kMaxLogprobs}),
                        ValueType::tensor(DType::f32, {rows, kMaxLogprobs})});
}

// An exponential a logit.
Cost cost(const NodeSizes& sizes) {
  const double logits = static_cast<double>(sizes.inputs[kLogits].shape.elements(sizes.bindings));
  return {.flops = 20 * logits, .bytes = all_bytes(sizes)};
}

void reference(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& logits = inputs[kLogits].tensor;
  const int64_t vocabulary = logits.dims[1];
  for (int64_t row = 0; row < logits.dims[0]; ++row) {
    double& logprob = outputs[0].values[row] = 0;
    double* top_id = outputs[1].values.data() + row * kMaxLogprobs;
    double* top_logprob = outputs[2].values.data() + row * kMaxLogprobs;
    std::fill_n(top_id, kMaxLogprobs, -1);
    std::fill_n(top_logprob, kMaxLogprobs, 0);
    const double wanted = inputs[kNumLogprobs].tensor.values[row];
    if (wanted < 0) continue;
    const double* x = logits.values.data() + row * vocabulary;
    if (!std::all_of(x, x + vocabulary, [](double v) { return v < HUGE_VAL; }) ||
        !std::any_of(x, x + vocabulary, [](double v) { return std::isfinite(v); })) {
      logprob = std::nan("");
      continue;
    }
    const double peak = *std::max_element(x, x + vocabulary);
    double sum = 0;
    for (int64_t i = 0; i < vocabulary; ++i) sum += std::exp(x[i] - peak);
    const auto logprob_of = [&](int64_t id) { return x[id] - peak - std::log(sum); };
    const double target = inputs[kTarget].tensor.values[row];
    const double id = target >= 0 ? target : inputs[kTokens].tensor.values[row];
    if (id >= 0 && id < static_cast<double>(vocabulary)) logprob = logprob_of(static_cast<int64_t>(id));
    std::vector<int64_t> order(vocabulary);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x[a] > x[b]; });
    for (int64_t i = 0; i < std::min({static_cast<int64_t>(wanted), vocabulary, int64_t{kMaxLogprobs}}); ++i) {
      top_id[i] = static_cast<double>(order[i]);
      top_logprob[i] = logprob_of(order[i]);
    }
  }
}

// Exponentials within 3e-7, summed in blocks; differences of logits round once.
Tolerance tolerance(std::span<const ValueType>, const Attrs&) { return {4e-6, 2e-7}; }

// `sampled` is what stands in `tokens`; empty: some id that is not the target.
OpCase make(std::string name, CaseInput logits, std::vector<double> targets, std::vector<double> nums = {},
            std::vector<double> sampled = {}) {
  const auto column = [rows = static_cast<int64_t>(targets.size())](std::vector<double> values, double other) {
    if (values.empty()) values.assign(rows, other);
    return CaseInput{.dtype = DType::i32, .dims = {rows}, .values = std::move(values)};
  };
  return {.name = std::move(name),
          .attrs = LogprobsAttrs{},
          .inputs = {std::move(logits), column(std::move(sampled), 2), column(targets, 0), column(std::move(nums), 0)}};
}

std::vector<OpCase> cases() {
  const double inf = HUGE_VAL, nan = std::nan("");
  std::vector<double> spread, rising, falling;
  for (int i = 0; i < 128; ++i) spread.push_back(i * 383 % 49152);
  for (int i = 0; i < 2000; ++i) rising.push_back(i * 0.01);
  falling.assign(rising.rbegin(), rising.rend());
  rising.insert(rising.end(), falling.begin(), falling.end());
  std::vector<double> ties(300, -2);
  for (const int at : {7, 100, 101, 299}) ties[at] = 3;
  for (const int at : {0, 64, 290}) ties[at] = 5;
  std::vector<OpCase> all = {
      make("one_logit", {.dims = {2, 1}, .values = {0.5, -300}}, {0, 0}, {20, 1}),
      make("uniform", {.dims = {1, 1000}, .values = std::vector<double>(1000, -7.5)}, {999}, {20}),
      make("not_finite", {.dims = {5, 3}, .values = {1, nan, 0, -inf, -inf, -inf, 1, inf, 0, -inf, 0.3, 0.2, -inf, 0.3, 0.2}},
           {0, 0, 1, 1, 0}, {3, 2, 0, 3, 1}),
      make("outside_the_vocabulary", {.dims = {5, 20}}, {-1, 20, 19, -1, -1}, {0, 3, 0, 0, 30}, {20, 0, 0, -1, 7}),
      make("the_sample_or_a_target", {.dims = {4, 50}, .scale = 2}, {-1, 3, -1, 0}, {}, {11, 12, 49, 14}),
      make("nothing_asked", {.dims = {4, 50}, .values = [&] {
                               std::vector<double> values(200, nan);
                               std::fill(values.begin() + 100, values.begin() + 150, 1.0);
                               return values;
                             }()},
           {-1, 3, 5, 6}, {-1, -1, 2, -7}),
      make("far_from_the_peak", {.dims = {2, 4}, .values = {200, 0, -200, 1, -1e30, 0, 1e30, 3}}, {2, 2}, {4, 4}),
      make("tails_strided", {.dims = {3, 333}, .scale = 3, .strided = true}, {0, 332, 331}, {20, 1, 7}),
      make("fewer_ids_than_asked", {.dims = {3, 7}}, {1, 2, 3}, {20, 7, 6}),
      make("ties_take_the_lower_id", {.dims = {1, 300}, .values = ties}, {7}, {12}),
      make("rising_and_falling", {.dims = {2, 2000}, .values = rising}, {0, 0}, {20, 20}),
      make("flat_vocabulary", {.dims = {4, 5000}, .scale = 0.01}, {0, 1, 4998, 4999}, {20, 0, -1, 5}),
      make("peaked_vocabulary", {.dims = {4, 5000}, .scale = 30}, {0, 1, 4998, 4999}, {3, 10, 20, 1}),
      make("no_rows", {.dims = {0, 50}}, {}),
      make("smollm2", {.dims = {128, 49152}, .scale = 4}, spread),
      make("smollm2_top", {.dims = {1, 49152}, .scale = 4}, {-1}, {20}),
  };
  for (OpCase& one : all) {
    one.bench = one.name.starts_with("smollm2");
    if (one.bench) one.phase = one.name == "smollm2" ? "prefill" : "decode";
  }
  return all;
}

}  // namespace

const Op logprobs{
    .name = "logprobs",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = tolerance,
    .cases = cases,
};

}  // namespace headrace::ops
