#include "ops/sample.h"

#include <cmath>

#include "ops/input_check.h"
#include "ops/sampling_distribution.h"

namespace headrace::ops {

// Philox4x32-10 (Salmon et al. 2011): ten rounds of two 32x32 -> 64 bit products, the key stepped by Weyl
// constants.
std::array<uint32_t, 4> Philox::block(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

namespace {

using namespace sample_input;

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("sample", inputs,
                   {"logits", "temperature", "top_p", "min_p", "top_k", "seed_lo", "seed_hi", "stream",
                    "sample_pos", "sample_slot", "last_token"});
  check.tensor(kLogits, DType::f32, 2);
  for (const int index : {kTemperature, kTopP, kMinP})
    check.tensor(index, DType::f32, 1).same_dim(index, 0, kLogits, 0);
  for (const int index : {kTopK, kSeedLo, kSeedHi, kStream, kSamplePos, kSampleSlot}) {
    check.tensor(index, DType::i32, 1).same_dim(index, 0, kLogits, 0);
  }
  check.tensor(kLastToken, DType::i32, 1);
  if (!check.ok()) return check.outputs({});
  const Dim& vocabulary = inputs[kLogits].shape[1];
  check.require(vocabulary.is_constant() && vocabulary.constant() > 0,
                "the vocabulary must be a positive constant");
  return check.outputs({ValueType::tensor(DType::i32, {inputs[kLogits].shape[0]})});
}

// An exponential in float64 a logit, when the row is not greedy.
Cost cost(const NodeSizes& sizes) {
  const double logits = static_cast<double>(sizes.inputs[kLogits].shape.elements(sizes.bindings));
  return {.flops = 30 * logits, .bytes = value_bytes(sizes.inputs[kLogits], sizes.bindings)};
}

uint32_t bits_of(double value) {
  return static_cast<uint32_t>(static_cast<int64_t>(value));
}

int64_t sample_row(std::span<const HostValue> inputs, int64_t row) {
  const auto at = [&](int index) { return inputs[index].tensor.values[row]; };
  const int64_t vocabulary = inputs[kLogits].tensor.dims[1];
  SamplingParameters parameters;
  parameters.temperature = at(kTemperature);
  parameters.top_p = at(kTopP);
  parameters.min_p = at(kMinP);
  parameters.top_k = static_cast<int64_t>(at(kTopK));
  const auto distribution = sampling_distribution(
      std::span(inputs[kLogits].tensor.values).subspan(row * vocabulary, vocabulary), parameters);
  if (!distribution) return -1;
  const auto random = Philox::block({bits_of(at(kSamplePos)), bits_of(at(kStream)), 0, 0},
                                    {bits_of(at(kSeedLo)), bits_of(at(kSeedHi))});
  return draw(*distribution, (random[0] + 0.5) / 4294967296.0);
}

void reference(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  HostTensor& last = *inputs[kLastToken].state;
  for (int64_t row = 0; row < outputs[0].dims[0]; ++row) {
    const double token = static_cast<double>(sample_row(inputs, row));
    outputs[0].values[row] = token;
    const double slot = inputs[kSampleSlot].tensor.values[row];
    if (slot >= 0 && slot < static_cast<double>(last.values.size()))
      last.values[static_cast<size_t>(slot)] = token;
  }
}

Tolerance tolerance(std::span<const ValueType>, const Attrs&) {
  return {0, 0};
}

// ---- cases --------------------------------------------------------------------------------------

struct RowParameters {
  double temperature = 1, top_p = 1, min_p = 0;
  int top_k = 0;
};

OpCase make(std::string name, CaseInput logits, const std::vector<RowParameters>& rows, bool stored = true) {
  const auto count = static_cast<int64_t>(rows.size());
  const auto column = [&](DType dtype, auto value_of) {
    CaseInput input{.dtype = dtype, .dims = {count}};
    for (int64_t row = 0; row < count; ++row) input.values.push_back(static_cast<double>(value_of(row)));
    return input;
  };
  OpCase made{.name = std::move(name), .attrs = SampleAttrs{}};
  made.inputs = {std::move(logits),
                 column(DType::f32, [&](int64_t row) { return rows[row].temperature; }),
                 column(DType::f32, [&](int64_t row) { return rows[row].top_p; }),
                 column(DType::f32, [&](int64_t row) { return rows[row].min_p; }),
                 column(DType::i32, [&](int64_t row) { return rows[row].top_k; }),
                 column(DType::i32, [](int64_t row) { return 1234567 + row; }),
                 column(DType::i32, [](int64_t row) { return -77 - row; }),
                 column(DType::i32, [](int64_t row) { return row % 3; }),
                 column(DType::i32, [](int64_t row) { return 100 + 13 * row; }),
                 column(DType::i32, [&](int64_t row) { return stored && row % 4 != 3 ? row : -1; }),
                 {.dtype = DType::i32, .dims = {count + 2}, .scale = 100}};
  return made;
}

CaseInput normal_logits(int64_t rows, int64_t vocabulary, double scale, bool strided = false) {
  return {.dims = {rows, vocabulary}, .scale = scale, .strided = strided};
}

CaseInput given_logits(int64_t rows, std::vector<double> values) {
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  return {.dims = {rows, columns}, .values = std::move(values)};
}

std::vector<OpCase> cases() {
  const double inf = HUGE_VAL;
  const double nan = std::nan("");
  const std::vector<RowParameters> mixed = {
      {0},    {1},    {0.7, 0.9}, {1.3, 1, 0.05},     {1, 1, 0, 40}, {0.8, 0.5, 0.1, 5},
      {1e-5}, {1, 0}, {1, 1, 1},  {2, 0.999, 0, 1000}};
  const auto ten = static_cast<int64_t>(mixed.size());
  std::vector<OpCase> all = {
      make("one_logit", given_logits(2, {0.5, -3}), {{0}, {1}}),
      make("ties_take_the_lowest", given_logits(3, {1, 3, 3, 2, -inf, -inf, -inf, 7, 5, 5, 5, 5}),
           {{0}, {0}, {0}}),
      make("ties_at_the_kth", given_logits(4, {1, 2, 2, 2, 3, 1, 2, 2, 2, 3, 1, 2, 2, 2, 3, 1, 2, 2, 2, 3}),
           std::vector<RowParameters>(4, {1, 1, 0, 2})),
      make("uniform_top_p", given_logits(4, std::vector<double>(40, 0.25)),
           std::vector<RowParameters>(4, {1, 0.5})),
      make("not_finite",
           given_logits(6, {1, nan, 0, -inf, -inf, -inf, 1, inf, 0, -inf, 0.3, -inf, 1, nan, 0, inf, 0, 0}),
           {{1}, {0}, {0}, {0.7, 0.9, 0, 5}, {0}, {1}}),
      make("mixed_rows", normal_logits(ten, 1000, 3), mixed),
      make("mixed_rows_strided", normal_logits(ten, 333, 2, true), mixed),
      make("flat_vocabulary", normal_logits(ten, 5000, 0.01), mixed),
      make("peaked_vocabulary", normal_logits(ten, 5000, 30), mixed, false),
      make("no_rows", normal_logits(0, 50, 1), {}),
      make("smollm2_greedy", normal_logits(1, 49152, 4), {{0}}),
      make("smollm2_sampled", normal_logits(1, 49152, 4), {{1}}),
      make("smollm2_top_p", normal_logits(1, 49152, 4), {{0.7, 0.95}}),
      make("smollm2_top_k", normal_logits(1, 49152, 4), {{0.7, 1, 0, 40}}),
  };
  for (OpCase& one : all) {
    one.bench = one.name.starts_with("smollm2");
    if (one.bench) one.phase = "decode";
  }
  return all;
}

std::vector<HostValue> row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  return slice_rows(
      inputs,
      {kLogits, kTemperature, kTopP, kMinP, kTopK, kSeedLo, kSeedHi, kStream, kSamplePos, kSampleSlot}, row);
}

}  // namespace

const Op sample{
    .name = "sample",
    .effects = {.writes_state = true, .random = true},
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = tolerance,
    .cases = cases,
    .row_alone = row_alone,
};

}  // namespace headrace::ops
