#include "ops/token_logprob.h"

#include <algorithm>
#include <cmath>

#include "ops/input_check.h"

namespace headrace::ops {
namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("token_logprob", inputs, {"logits", "target"});
  check.tensor(0, DType::f32, 2).tensor(1, DType::i32, 1).same_dim(1, 0, 0, 0);
  if (!check.ok()) return check.outputs({});
  const Dim& vocabulary = inputs[0].shape[1];
  check.require(vocabulary.is_constant() && vocabulary.constant() > 0, "the vocabulary must be a positive constant");
  return check.outputs({ValueType::tensor(DType::f32, {inputs[0].shape[0]})});
}

// An exponential a logit.
Cost cost(const NodeSizes& sizes) {
  return {.flops = 20 * static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

void reference(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& logits = inputs[0].tensor;
  const int64_t vocabulary = logits.dims[1];
  for (int64_t row = 0; row < logits.dims[0]; ++row) {
    const double* x = logits.values.data() + row * vocabulary;
    const double target = inputs[1].tensor.values[row];
    double& out = outputs[0].values[row];
    const bool usable = std::all_of(x, x + vocabulary, [](double v) { return v < HUGE_VAL; }) &&
                        std::any_of(x, x + vocabulary, [](double v) { return std::isfinite(v); });
    if (!usable || target < 0 || target >= static_cast<double>(vocabulary)) {
      out = usable ? 0.0 : std::nan("");
      continue;
    }
    const double peak = *std::max_element(x, x + vocabulary);
    double sum = 0;
    for (int64_t i = 0; i < vocabulary; ++i) sum += std::exp(x[i] - peak);
    out = x[static_cast<int64_t>(target)] - peak - std::log(sum);
  }
}

// Exponentials within 3e-7, summed in blocks; differences of logits round once.
Tolerance tolerance(std::span<const ValueType>, const Attrs&) { return {4e-6, 2e-7}; }

OpCase make(std::string name, CaseInput logits, std::vector<double> targets) {
  CaseInput target{.dtype = DType::i32, .dims = {static_cast<int64_t>(targets.size())}, .values = std::move(targets)};
  return {.name = std::move(name), .attrs = TokenLogprobAttrs{}, .inputs = {std::move(logits), std::move(target)}};
}

std::vector<OpCase> cases() {
  const double inf = HUGE_VAL, nan = std::nan("");
  std::vector<double> spread;
  for (int i = 0; i < 128; ++i) spread.push_back(i * 383 % 49152);
  std::vector<OpCase> all = {
      make("one_logit", {.dims = {2, 1}, .values = {0.5, -300}}, {0, 0}),
      make("uniform", {.dims = {1, 1000}, .values = std::vector<double>(1000, -7.5)}, {999}),
      make("not_finite", {.dims = {5, 3}, .values = {1, nan, 0, -inf, -inf, -inf, 1, inf, 0, -inf, 0.3, 0.2, -inf, 0.3, 0.2}},
           {0, 0, 1, 1, 0}),
      make("outside_the_vocabulary", {.dims = {3, 20}}, {-1, 20, 19}),
      make("far_from_the_peak", {.dims = {2, 4}, .values = {200, 0, -200, 1, -1e30, 0, 1e30, 3}}, {2, 2}),
      make("tails_strided", {.dims = {3, 333}, .scale = 3, .strided = true}, {0, 332, 331}),
      make("flat_vocabulary", {.dims = {4, 5000}, .scale = 0.01}, {0, 1, 4998, 4999}),
      make("peaked_vocabulary", {.dims = {4, 5000}, .scale = 30}, {0, 1, 4998, 4999}),
      make("no_rows", {.dims = {0, 50}}, {}),
      make("smollm2", {.dims = {128, 49152}, .scale = 4}, spread),
  };
  all.back().bench = true;
  all.back().phase = "prefill";
  return all;
}

}  // namespace

const Op token_logprob{
    .name = "token_logprob",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = tolerance,
    .cases = cases,
};

}  // namespace headrace::ops
