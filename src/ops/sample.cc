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

// The inputs that have one number a row, or one more.
constexpr int kRowFloats[] = {kTemperature, kTopP, kMinP, kTypicalP, kRepetitionPenalty, kFrequencyPenalty, kPresencePenalty};
constexpr int kRowInts[] = {kTopK, kSeedLo, kSeedHi, kStream, kSamplePos, kSampleSlot, kOutputStart};
constexpr int kStarts[] = {kBiasStart, kHistoryStart};

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("sample", inputs,
                   {"logits", "temperature", "top_p", "min_p", "typical_p", "repetition_penalty", "frequency_penalty",
                    "presence_penalty", "top_k", "seed_lo", "seed_hi", "stream", "sample_pos", "sample_slot", "bias_start",
                    "bias_token", "bias_value", "history_start", "output_start", "history", "last_token"});
  check.tensor(kLogits, DType::f32, 2);
  for (const int index : kRowFloats) check.tensor(index, DType::f32, 1).same_dim(index, 0, kLogits, 0);
  for (const int index : kRowInts) check.tensor(index, DType::i32, 1).same_dim(index, 0, kLogits, 0);
  if (!check.ok()) return check.outputs({});
  for (const int index : kStarts) check.tensor(index, DType::i32, 1).dim(index, 0, inputs[kLogits].shape[0] + 1);
  check.tensor(kBiasToken, DType::i32, 1).tensor(kBiasValue, DType::f32, 1).same_dim(kBiasValue, 0, kBiasToken, 0);
  check.tensor(kHistory, DType::i32, 1).tensor(kLastToken, DType::i32, 1);
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

ListPart part_of(std::span<const HostValue> inputs, int starts, int list, int64_t row) {
  const std::vector<double>& start = inputs[starts].tensor.values;
  return ListPart::of(static_cast<int64_t>(start[row]), static_cast<int64_t>(start[row + 1]), inputs[list].tensor.dims[0]);
}

int64_t sample_row(std::span<const HostValue> inputs, int64_t row) {
  const auto at = [&](int index) { return inputs[index].tensor.values[row]; };
  const int64_t vocabulary = inputs[kLogits].tensor.dims[1];
  SamplingParameters parameters;
  parameters.temperature = at(kTemperature);
  parameters.top_p = at(kTopP);
  parameters.min_p = at(kMinP);
  parameters.typical_p = at(kTypicalP);
  parameters.repetition_penalty = at(kRepetitionPenalty);
  parameters.frequency_penalty = at(kFrequencyPenalty);
  parameters.presence_penalty = at(kPresencePenalty);
  parameters.top_k = static_cast<int64_t>(at(kTopK));
  const ListPart biases = part_of(inputs, kBiasStart, kBiasToken, row);
  for (int64_t i = biases.begin; i < biases.end; ++i) {
    parameters.logit_bias.emplace_back(static_cast<int64_t>(inputs[kBiasToken].tensor.values[i]),
                                       inputs[kBiasValue].tensor.values[i]);
  }
  const std::vector<double>& last = inputs[kLastToken].tensor.values;
  const ListPart history = part_of(inputs, kHistoryStart, kHistory, row);
  std::vector<int32_t> prompt, output;
  for (int64_t i = history.begin; i < history.end; ++i) {
    double id = inputs[kHistory].tensor.values[i];
    if (id < 0) id = -id - 1 < static_cast<double>(last.size()) ? last[static_cast<size_t>(-id - 1)] : -1;
    (static_cast<double>(i) < at(kOutputStart) ? prompt : output).push_back(static_cast<int32_t>(id));
  }
  const auto distribution = sampling_distribution(
      std::span(inputs[kLogits].tensor.values).subspan(row * vocabulary, vocabulary), parameters, prompt, output);
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

using Biases = std::vector<std::pair<int, double>>;

struct RowParameters {
  double temperature = 1, top_p = 1, min_p = 0;
  int top_k = 0;
  double typical_p = 1, repetition = 1, frequency = 0, presence = 0;
  Biases biases = {};
  std::vector<double> prompt = {}, output = {};  // ids, or -(slot + 1)
};

OpCase make(std::string name, CaseInput logits, const std::vector<RowParameters>& rows, bool stored = true) {
  const auto count = static_cast<int64_t>(rows.size());
  const auto column = [&](DType dtype, auto value_of) {
    CaseInput input{.dtype = dtype, .dims = {count}};
    for (int64_t row = 0; row < count; ++row) input.values.push_back(static_cast<double>(value_of(row)));
    return input;
  };
  const auto list = [](DType dtype, std::vector<double> values) {
    return CaseInput{.dtype = dtype, .dims = {static_cast<int64_t>(values.size())}, .values = std::move(values)};
  };
  std::vector<double> bias_start = {0}, bias_token, bias_value, history_start = {0}, output_start, history;
  for (const RowParameters& row : rows) {
    for (const auto& [token, value] : row.biases) {
      bias_token.push_back(token);
      bias_value.push_back(value);
    }
    bias_start.push_back(static_cast<double>(bias_token.size()));
    history.insert(history.end(), row.prompt.begin(), row.prompt.end());
    output_start.push_back(static_cast<double>(history.size()));
    history.insert(history.end(), row.output.begin(), row.output.end());
    history_start.push_back(static_cast<double>(history.size()));
  }
  OpCase made{.name = std::move(name), .attrs = SampleAttrs{}};
  made.inputs = {std::move(logits),
                 column(DType::f32, [&](int64_t row) { return rows[row].temperature; }),
                 column(DType::f32, [&](int64_t row) { return rows[row].top_p; }),
                 column(DType::f32, [&](int64_t row) { return rows[row].min_p; }),
                 column(DType::f32, [&](int64_t row) { return rows[row].typical_p; }),
                 column(DType::f32, [&](int64_t row) { return rows[row].repetition; }),
                 column(DType::f32, [&](int64_t row) { return rows[row].frequency; }),
                 column(DType::f32, [&](int64_t row) { return rows[row].presence; }),
                 column(DType::i32, [&](int64_t row) { return rows[row].top_k; }),
                 column(DType::i32, [](int64_t row) { return 1234567 + row; }),
                 column(DType::i32, [](int64_t row) { return -77 - row; }),
                 column(DType::i32, [](int64_t row) { return row % 3; }),
                 column(DType::i32, [](int64_t row) { return 100 + 13 * row; }),
                 column(DType::i32, [&](int64_t row) { return stored && row % 4 != 3 ? row : -1; }),
                 list(DType::i32, bias_start),
                 list(DType::i32, bias_token),
                 list(DType::f32, bias_value),
                 list(DType::i32, history_start),
                 list(DType::i32, output_start),
                 list(DType::i32, history),
                 {.dtype = DType::i32, .dims = {count + 2}, .scale = 100}};
  return made;
}

// `count` ids below `vocabulary`, some of them again and again.
std::vector<double> ids(int count, int vocabulary, int seed) {
  std::vector<double> made;
  for (int i = 0; i < count; ++i) made.push_back((i % 3 == 0 ? seed * 7 : seed + i * i) % vocabulary);
  return made;
}

// Each feature alone, then mixtures. A vocabulary of 1000.
std::vector<RowParameters> penalized_rows() {
  const double inf = HUGE_VAL;
  return {
      {.temperature = 0, .biases = {{3, 2.5}, {17, -1.5}, {3, 0.25}}},
      {.temperature = 0.8, .biases = {{0, -inf}, {999, 100}, {998, 100.5}}},
      {.temperature = 0, .repetition = 1.8, .prompt = ids(40, 1000, 5), .output = ids(7, 1000, 11)},
      {.temperature = 1, .repetition = 0.4, .prompt = ids(300, 1000, 1)},
      {.temperature = 0.5, .frequency = 1.5, .prompt = ids(20, 1000, 2), .output = ids(200, 1000, 3)},
      {.temperature = 0.5, .presence = 2, .output = ids(500, 1000, 4)},
      {.temperature = 0.9, .frequency = -2, .presence = -2, .prompt = ids(9, 1000, 3), .output = ids(30, 1000, 6)},
      {.temperature = 0.9, .repetition = 1.3, .frequency = 0.3, .presence = -0.7, .prompt = ids(64, 1000, 8),
       .output = ids(64, 1000, 8)},
      {.temperature = 0.7, .top_p = 0.9, .min_p = 0.01, .top_k = 50, .typical_p = 0.8, .repetition = 1.2, .frequency = 0.5,
       .presence = 0.5, .biases = {{1, 4}, {2, -inf}, {5, 3}, {5, 1}}, .prompt = ids(30, 1000, 9), .output = ids(40, 1000, 10)},
      {.temperature = 1, .repetition = 1.5, .frequency = 1, .presence = 1},                       // nothing to penalize
      {.temperature = 1, .prompt = ids(30, 1000, 9), .output = ids(40, 1000, 10)},                // no penalty
      {.temperature = 0, .frequency = 2, .presence = 2, .prompt = ids(5, 1000, 12)},              // no output
  };
}

// Histories that hold most of a vocabulary of 12, so that every row's draw hangs on them.
std::vector<RowParameters> many_penalized_rows() {
  std::vector<RowParameters> rows;
  for (int i = 0; i < 64; ++i) {
    rows.push_back({.temperature = i % 4 == 0 ? 0.0 : 1.0,
                    .typical_p = i % 5 == 0 ? 0.7 : 1,
                    .repetition = i % 3 == 0 ? 1.0 : 0.5 + 0.05 * i,
                    .frequency = 0.25 * (i % 7) - 0.5,
                    .presence = 0.5 * (i % 5) - 1,
                    .prompt = ids(i % 9, 12, i + 1),
                    .output = ids(3 * (i % 6), 12, 2 * i + 1)});
    if (i % 2 == 0) rows.back().biases = {{i % 12, 0.5}, {(i + 5) % 12, -0.75}};
  }
  return rows;
}

// A history's entries that stand for the token sampled last, its own row's among them, and some that stand for nothing.
std::vector<RowParameters> rows_with_last_tokens() {
  const std::vector<double> outside = {1000, 2000000, -200, -2147483648.0};
  return {
      {.temperature = 0, .frequency = 2, .output = {-1, -1, -1}},
      {.temperature = 0.6, .repetition = 3, .prompt = {7, -2}, .output = {}},
      {.temperature = 0.6, .presence = -2, .output = {-3}},
      {.temperature = 0.6, .frequency = -2, .prompt = {5}, .output = {-6, -6, 40}},  // a slot that no row stores into
      {.temperature = 1, .repetition = 2, .frequency = 1, .prompt = outside, .output = outside},
  };
}

CaseInput normal_logits(int64_t rows, int64_t vocabulary, double scale, bool strided = false) {
  return {.dims = {rows, vocabulary}, .scale = scale, .strided = strided};
}

CaseInput given_logits(int64_t rows, std::vector<double> values) {
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  return {.dims = {rows, columns}, .values = std::move(values)};
}

// Starts that fall, and that lie before and behind their lists.
OpCase starts_outside_the_lists() {
  const RowParameters row = {.temperature = 0.7, .frequency = 1.5, .biases = {{4, 2}}, .prompt = {1}, .output = {2, 4}};
  OpCase made = make("starts_outside_the_lists", normal_logits(4, 30, 1), std::vector<RowParameters>(4, row));
  made.inputs[kBiasStart].values = {-5, 3, 1, 100, 200};
  made.inputs[kHistoryStart].values = {2, -4, 6, 5, 1000};
  made.inputs[kOutputStart].values = {-3, 500, 5, 8};
  return made;
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
      make("typical", normal_logits(6, 1000, 3),
           {{.typical_p = 0.9}, {.typical_p = 0.2}, {.typical_p = 0}, {.temperature = 0.5, .typical_p = 0.5},
            {.top_p = 0.7, .typical_p = 0.6}, {.temperature = 0, .typical_p = 0.1}}),
      make("typical_drops_the_likeliest", given_logits(3, {5, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,  //
                                                           3, 5, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,  //
                                                           3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 5}),
           std::vector<RowParameters>(3, {.typical_p = 0.2})),
      make("typical_of_equals_keeps_all", given_logits(4, std::vector<double>(40, 0.25)),
           std::vector<RowParameters>(4, {.typical_p = 0.1})),
      make("typical_flat_and_peaked", normal_logits(4, 5000, 0.01),
           {{.typical_p = 0.9}, {.temperature = 1e-3, .typical_p = 0.5}, {.temperature = 1e-5, .typical_p = 0.9},
            {.typical_p = 0.01}}),
      make("penalized", normal_logits(12, 1000, 3), penalized_rows()),
      make("penalized_strided", normal_logits(12, 1000, 3, true), penalized_rows(), false),
      make("last_tokens_in_the_history", normal_logits(5, 100, 1), rows_with_last_tokens()),
      make("repetition_by_sign", given_logits(3, {2, 1.5, 0, -1, 2, 1.5, 0, -1, -1, -0.5, -0.25, -0.5}),
           {{.temperature = 0, .repetition = 1.5, .prompt = {0, 0, 0}}, {.temperature = 0, .repetition = 1.25, .output = {0}},
            {.temperature = 0, .repetition = 4, .prompt = {2}}}),
      make("counts_are_of_the_output", given_logits(4, {3, 2.9, 2.8, 2, 3, 2.5, 1, 0, 3, 2.5, 1, 0, 3, 2.9, 2.8, 2}),
           {{.temperature = 0, .frequency = 0.5, .prompt = {1, 1, 1, 1}, .output = {0, 0}},
            {.temperature = 0, .frequency = 0.125, .output = {0, 0, 0}},
            {.temperature = 0, .presence = 0.25, .output = {0, 0, 0}},
            {.temperature = 0, .presence = 0.5, .prompt = {1, 2}, .output = {0}}}),
      make("penalized_small_vocabulary", normal_logits(64, 12, 1), many_penalized_rows()),
      make("bans", given_logits(4, {3, 2, 1, 3, 2, 1, 3, 2, 1, 3, 2, 1}),
           {{.temperature = 0, .biases = {{0, -inf}}}, {.biases = {{0, -inf}, {2, -inf}}},
            {.biases = {{0, -inf}, {1, -inf}, {2, -inf}}}, {.temperature = 0, .biases = {{0, -inf}, {0, 50}}}}),
      make("biased_not_finite",
           given_logits(6, {1, nan, 0, -inf, -inf, -inf, 1, inf, 0, -inf, 0.3, -inf, 1, 2, 3, 1, 2, 3}),
           {{.biases = {{1, -inf}}}, {.biases = {{1, 5}}}, {.biases = {{1, -inf}}}, {.biases = {{0, 5}}},
            {.biases = {{0, inf}}}, {.biases = {{0, nan}}}}),
      make("out_of_range", normal_logits(13, 20, 1),
           {{.typical_p = 1.5}, {.typical_p = -0.1}, {.typical_p = nan}, {.repetition = 0}, {.repetition = -1},
            {.repetition = inf}, {.frequency = 2.5}, {.frequency = nan}, {.presence = -2.5}, {.presence = nan},
            {.biases = {{20, 1}}}, {.biases = {{-1, 1}}}, {.temperature = 0, .biases = {{19, 9}}}}),
      starts_outside_the_lists(),
      make("smollm2_greedy", normal_logits(1, 49152, 4), {{0}}),
      make("smollm2_sampled", normal_logits(1, 49152, 4), {{1}}),
      make("smollm2_top_p", normal_logits(1, 49152, 4), {{0.7, 0.95}}),
      make("smollm2_top_k", normal_logits(1, 49152, 4), {{0.7, 1, 0, 40}}),
      make("smollm2_typical", normal_logits(1, 49152, 4), {{.typical_p = 0.95}}),
      make("smollm2_penalties", normal_logits(1, 49152, 4),
           {{.temperature = 0, .repetition = 1.1, .frequency = 0.5, .prompt = ids(1000, 49152, 3),
             .output = ids(500, 49152, 5)}}),
  };
  for (OpCase& one : all) {
    one.bench = one.name.starts_with("smollm2");
    if (one.bench) one.phase = "decode";
  }
  return all;
}

// The row with its own parts of the lists.
std::vector<HostValue> row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  std::vector<HostValue> alone = slice_rows(
      inputs, {kLogits, kTemperature, kTopP, kMinP, kTypicalP, kRepetitionPenalty, kFrequencyPenalty, kPresencePenalty, kTopK,
               kSeedLo, kSeedHi, kStream, kSamplePos, kSampleSlot, kOutputStart},
      row);
  const auto cut = [&](int starts, std::initializer_list<int> lists) {
    const ListPart part = part_of(inputs, starts, *lists.begin(), row);
    for (const int list : lists) {
      HostTensor& tensor = alone[list].tensor;
      tensor.values = {tensor.values.begin() + part.begin, tensor.values.begin() + part.end};
      tensor.dims = {part.end - part.begin};
    }
    alone[starts].tensor.dims = {2};
    alone[starts].tensor.values = {0, static_cast<double>(part.end - part.begin)};
    return part.begin;
  };
  cut(kBiasStart, {kBiasToken, kBiasValue});
  alone[kOutputStart].tensor.values[0] -= static_cast<double>(cut(kHistoryStart, {kHistory}));
  return alone;
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
