// Suite `sampling`: the distribution through sampling_distribution, and 4000 draws of every sample kernel of this machine: all
// within the support, each token as often as its probability says.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/op_table.h"
#include "ops/sample.h"
#include "ops/sampling_distribution.h"
#include "testing/case_suite.h"
#include "testing/op_case_data.h"

namespace headrace::testing {
namespace {

using nlohmann::json;

constexpr int64_t kDraws = 4000;

double read_number(const json& value) {
  if (value.is_number()) return value;
  const std::string text = value;
  return text == "nan" ? std::nan("") : text == "inf" ? HUGE_VAL : -HUGE_VAL;
}

ops::SamplingParameters read_parameters(const json& params) {
  ops::SamplingParameters p;
  const auto number = [&](const char* name, double& field) {
    if (params.contains(name)) field = read_number(params.at(name));
  };
  number("temperature", p.temperature);
  number("top_p", p.top_p);
  number("min_p", p.min_p);
  number("typical_p", p.typical_p);
  number("repetition_penalty", p.repetition_penalty);
  number("frequency_penalty", p.frequency_penalty);
  number("presence_penalty", p.presence_penalty);
  p.top_k = params.value("top_k", int64_t{0});
  if (params.contains("logit_bias")) {
    for (const auto& [token, bias] : params.at("logit_bias").items())
      p.logit_bias.emplace_back(std::stoll(token), bias);
  }
  return p;
}

std::string check_distribution(const std::vector<double>& got, const json& expected) {
  const auto support = expected.at("support").get<std::vector<int64_t>>();
  const auto probs = expected.at("probs").get<std::vector<double>>();
  std::vector<double> want(got.size(), 0.0);
  for (size_t i = 0; i < support.size(); ++i) want.at(support[i]) = probs[i];
  for (size_t i = 0; i < got.size(); ++i) {
    const bool in_support =
        std::find(support.begin(), support.end(), static_cast<int64_t>(i)) != support.end();
    if (in_support != (got[i] > 0) || std::fabs(got[i] - want[i]) > 1e-5) {
      return fmt::format("token {}: want probability {}, got {}", i, want[i], got[i]);
    }
  }
  return {};
}

// The case's logits and history in kDraws rows that differ in position alone.
OpCase draws_case(const std::vector<double>& logits, const ops::SamplingParameters& p, const std::vector<int32_t>& prompt,
                  const std::vector<int32_t>& output) {
  const auto list = [](DType dtype, std::vector<double> values) {
    return CaseInput{.dtype = dtype, .dims = {static_cast<int64_t>(values.size())}, .values = std::move(values)};
  };
  const auto column = [&](DType dtype, double first, double step = 0, int64_t rows = kDraws) {
    std::vector<double> values;
    for (int64_t row = 0; row < rows; ++row) values.push_back(first + step * static_cast<double>(row));
    return list(dtype, std::move(values));
  };
  CaseInput rows{.dims = {kDraws, static_cast<int64_t>(logits.size())}};
  std::vector<double> bias_token, bias_value, history;
  for (int64_t row = 0; row < kDraws; ++row) {
    rows.values.insert(rows.values.end(), logits.begin(), logits.end());
    for (const auto& [token, bias] : p.logit_bias) {
      bias_token.push_back(static_cast<double>(token));
      bias_value.push_back(bias);
    }
    history.insert(history.end(), prompt.begin(), prompt.end());
    history.insert(history.end(), output.begin(), output.end());
  }
  const auto num_biases = static_cast<double>(p.logit_bias.size());
  const auto num_prompt = static_cast<double>(prompt.size());
  const double num_history = num_prompt + static_cast<double>(output.size());
  OpCase made{.name = "suite", .attrs = ops::SampleAttrs{}};
  made.inputs = {std::move(rows),
                 column(DType::f32, p.temperature),
                 column(DType::f32, p.top_p),
                 column(DType::f32, p.min_p),
                 column(DType::f32, p.typical_p),
                 column(DType::f32, p.repetition_penalty),
                 column(DType::f32, p.frequency_penalty),
                 column(DType::f32, p.presence_penalty),
                 column(DType::i32, static_cast<double>(p.top_k)),
                 column(DType::i32, 42),                                      // seed
                 column(DType::i32, 0),
                 column(DType::i32, 0),                                       // stream
                 column(DType::i32, 0, 1),                                    // sample_pos
                 column(DType::i32, -1),                                      // sample_slot
                 column(DType::i32, 0, num_biases, kDraws + 1),
                 list(DType::i32, std::move(bias_token)),
                 list(DType::f32, std::move(bias_value)),
                 column(DType::i32, 0, num_history, kDraws + 1),
                 column(DType::i32, num_prompt, num_history),
                 list(DType::i32, std::move(history)),
                 {.dtype = DType::i32, .dims = {1}}};
  return made;
}

std::string check_draws(const Kernel& kernel, const CaseData& data,
                        const std::vector<double>* probabilities) {
  const Result<std::vector<HostTensor>> outputs = output_tensors(data, data.inputs);
  if (!outputs) return outputs.error().to_string();
  const KernelMemory memory(data, kernel, data.inputs, *outputs, {});
  TeamState state(1);
  Team team(state, 0);
  kernel.run({}, memory.args(), team);
  std::vector<int64_t> counts(probabilities == nullptr ? 0 : probabilities->size(), 0);
  for (const double token : memory.output(0).values) {
    if (probabilities == nullptr) {
      if (token != -1) return fmt::format("kernel {}: want -1, got token {}", kernel.name, token);
      continue;
    }
    if (token < 0 || token >= static_cast<double>(counts.size()))
      return fmt::format("kernel {}: drew {}", kernel.name, token);
    ++counts[static_cast<size_t>(token)];
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const double p = (*probabilities)[i];
    const double share = static_cast<double>(counts[i]) / kDraws;
    if ((p == 0 && counts[i] != 0) || std::fabs(share - p) > 5 * std::sqrt(p * (1 - p) / kDraws) + 1e-3) {
      return fmt::format("kernel {}: token {} has probability {} and was {} of {} draws", kernel.name, i, p,
                         counts[i], kDraws);
    }
  }
  return {};
}

}  // namespace

CaseResult run_sampling(const CaseContext& context) {
  std::vector<double> logits;
  for (const json& value : context.input.at("logits")) logits.push_back(read_number(value));
  const ops::SamplingParameters parameters = read_parameters(context.input.at("params"));
  const auto prompt = context.input.at("prompt_tokens").get<std::vector<int32_t>>();
  const auto output = context.input.at("output_tokens").get<std::vector<int32_t>>();
  const auto distribution = ops::sampling_distribution(logits, parameters, prompt, output);
  if (distribution.has_value() == context.expected.value("error", false)) {
    return CaseResult::fail(distribution ? "want an error, got a distribution"
                                         : distribution.error().to_string());
  }
  if (distribution) {
    if (const std::string what = check_distribution(*distribution, context.expected); !what.empty())
      return CaseResult::fail(what);
  }
  const OpCase declared = draws_case(logits, parameters, prompt, output);
  const Result<CaseData> data = make_case_data(ops::sample, declared);
  if (!data) return CaseResult::fail(data.error().to_string());
  for (const Kernel* kernel : kernels_of(ops::sample)) {
    if (kernel->device != DeviceKind::cpu || kernel->isa > detect_isa()) continue;
    const std::string what = check_draws(*kernel, *data, distribution ? &*distribution : nullptr);
    if (!what.empty()) return CaseResult::fail(what);
  }
  return CaseResult::pass();
}

}  // namespace headrace::testing
