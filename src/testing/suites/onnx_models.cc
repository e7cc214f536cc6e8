// Suites `onnx_ops` and `onnx_graph`: a model and its inputs -> outputs, or a refusal when it is read or run.
#include <fmt/core.h>
#include <sys/resource.h>

#include <map>
#include <optional>

#include "base/clock.h"
#include "onnx/file.h"
#include "testing/case_suite.h"
#include "testing/onnx_compare.h"
#include "testing/onnx_ways.h"

namespace headrace::testing {
namespace {

using nlohmann::json;
using onnx::Tensor;
using onnx::Value;
using Values = std::map<std::string, Value>;

constexpr OnnxTolerance kTolerance{1e-4, 1e-4};  // the suites' own
constexpr double kMaxSeconds = 1.0;              // and their limits for a file that must be refused
constexpr int64_t kMaxKilobytes = 64 << 10;

template <class T>
Tensor make_tensor(const json& row) {
  Tensor tensor(onnx::DTypeOf<T>::value, row.at("shape").get<onnx::Dims>());
  const json& data = row.at("data");
  if (static_cast<int64_t>(data.size()) != tensor.elements()) {
    throw std::runtime_error("a case whose data are not as many as its shape says");
  }
  for (size_t i = 0; i < data.size(); ++i) tensor.data<T>()[i] = data[i].get<T>();
  return tensor;
}

Values read_values(const json& rows) {
  using Make = Tensor (*)(const json&);
  static const std::map<std::string, Make> makers = {
      {"float32", make_tensor<float>}, {"float64", make_tensor<double>},   {"int8", make_tensor<int8_t>},   {"uint8", make_tensor<uint8_t>},
      {"int32", make_tensor<int32_t>}, {"int64", make_tensor<int64_t>}, {"bool", make_tensor<bool>}, {"string", make_tensor<std::string>},
  };
  Values values;
  for (const auto& [name, row] : rows.items()) values[name] = makers.at(row.at("dtype").get<std::string>())(row);
  return values;
}

int64_t peak_kilobytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

Result<Values> read_and_run(const std::string& path, const Values& inputs, const OnnxWay& way) {
  HR_ASSIGN_OR_RETURN(const onnx::Model model, onnx::read_model(path));
  return way.run(model, inputs);
}

CaseResult run_model(const CaseContext& context, const OnnxWay& way) {
  const std::string path = (context.suite_dir / context.input.at("model").get<std::string>()).string();
  const bool refuse = context.expected.contains("error");
  const int64_t before = peak_kilobytes();
  const TimePoint start = Clock::now();
  const Result<Values> outputs = read_and_run(path, read_values(context.input.at("inputs")), way);
  if (refuse) {
    const double seconds = seconds_between(start, Clock::now());
    const int64_t grown = peak_kilobytes() - before;
    if (outputs) return CaseResult::fail("loaded and run; want a refusal");
    if (outputs.error().message().empty()) return CaseResult::fail("refused without a word");
    if (seconds > kMaxSeconds) return CaseResult::fail(fmt::format("refused after {:.2f} s", seconds));
    if (grown > kMaxKilobytes) return CaseResult::fail(fmt::format("refused, but memory grew by {} kB", grown));
    return CaseResult::pass();
  }
  if (!outputs) return CaseResult::fail(outputs.error().to_string());
  const Values wanted = read_values(context.expected.at("outputs"));
  if (outputs->size() != wanted.size()) return CaseResult::fail(fmt::format("want {} outputs, got {}", wanted.size(), outputs->size()));
  for (const auto& [name, want] : wanted) {
    const auto got = outputs->find(name);
    if (got == outputs->end()) return CaseResult::fail("no output " + name);
    const std::string why = onnx_difference(got->second, want, kTolerance);
    if (!why.empty()) return CaseResult::fail(name + ": " + why);
  }
  return CaseResult::pass();
}

// In every way that there is.
CaseResult run_model(const CaseContext& context) {
  for (const OnnxWay& way : kOnnxWays) {
    CaseResult result = run_model(context, way);
    if (result.passed) continue;
    result.message = fmt::format("{}: {}", way.name, result.message);
    return result;
  }
  return CaseResult::pass();
}

}  // namespace

CaseResult run_onnx_ops(const CaseContext& context) { return run_model(context); }

CaseResult run_onnx_graph(const CaseContext& context) { return run_model(context); }

}  // namespace headrace::testing
