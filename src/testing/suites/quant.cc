// Suite `quant`: packed weights -> values; FP8 codes; integer dot products.
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "quant/format.h"
#include "quant/fp8_e4m3.h"
#include "quant/fp8_e5m2.h"
#include "quant/int4_group.h"
#include "quant/int8.h"
#include "testing/case_suite.h"

namespace headrace::testing {
namespace {

using nlohmann::json;

double number(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return text == "-Infinity" ? -std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::infinity();
}

// The suite prints seven significant digits (six decimals for matrices): `tolerance` is that of the printing.
CaseResult compare(const std::vector<double>& want, const std::vector<float>& got, double relative,
                   double absolute) {
  if (want.size() != got.size())
    return CaseResult::fail(fmt::format("want {} values, got {}", want.size(), got.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    const bool same = std::isnan(want[i]) ? std::isnan(got[i])
                      : std::isinf(want[i]) || want[i] == 0.0
                          ? want[i] == got[i] && std::signbit(want[i]) == std::signbit(got[i])
                          : std::fabs(want[i] - got[i]) <= absolute + relative * std::fabs(want[i]);
    if (!same) return CaseResult::fail(fmt::format("value {}: want {}, got {}", i, want[i], got[i]));
  }
  return CaseResult::pass();
}

std::vector<double> numbers(const json& list) {
  std::vector<double> out;
  for (const json& value : list) out.push_back(number(value));
  return out;
}

template <class T>
std::vector<T> flat(const json& matrix) {
  std::vector<T> out;
  for (const json& row : matrix) {
    for (const json& value : row) out.push_back(value.get<T>());
  }
  return out;
}

CaseResult run_ggml(const json& in, const json& expected) {
  std::string name = in.at("type");
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  const std::optional<Format> format = format_from_name(name);
  if (!format) return CaseResult::fail("no format " + name);
  const FormatInfo& info = format_info(*format);
  const std::string hex = in.at("blocks");
  std::vector<std::byte> blocks;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    blocks.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  if (blocks.size() % info.block_bytes != 0) return CaseResult::fail("blocks are cut short");
  std::vector<float> values(blocks.size() / info.block_bytes * info.block_elements);
  info.decode(blocks.data(), static_cast<int64_t>(values.size()), values.data());
  return compare(numbers(expected.at("values")), values, 1e-6, 0.0);
}

CaseResult run_group(const json& in, const json& expected, bool gptq) {
  const std::vector<int32_t> qweight = flat<int32_t>(in.at("qweight"));
  const std::vector<int32_t> qzeros = flat<int32_t>(in.at("qzeros"));
  const std::vector<float> scales = flat<float>(in.at("scales"));
  const std::vector<int32_t> g_idx = in.value("g_idx", std::vector<int32_t>{});
  GroupQuantized matrix{.bits = in.at("bits")};
  const int64_t packed_rows = static_cast<int64_t>(in.at("qweight").size());
  matrix.in_features = gptq ? packed_rows * 32 / matrix.bits : packed_rows;
  matrix.groups = static_cast<int64_t>(in.at("scales").size());
  matrix.out_features = static_cast<int64_t>(scales.size()) / matrix.groups;
  matrix.group_size = in.at("group_size");
  matrix.qweight = qweight;
  matrix.qzeros = qzeros;
  matrix.scales = scales;
  matrix.g_idx = g_idx;
  const GptqZeros zeros =
      in.value("checkpoint_format", "gptq") == "gptq_v2" ? GptqZeros::plain : GptqZeros::minus_one;
  const Result<std::vector<float>> values = gptq ? unpack_gptq(matrix, zeros) : unpack_awq(matrix);
  if (!values) return CaseResult::fail(values.error().message());
  // A zero here may be printed with either sign.
  std::vector<double> want = flat<double>(expected.at("matrix"));
  std::vector<float> got = *values;
  for (double& value : want) value += 0.0;
  for (float& value : got) value += 0.0f;
  return compare(want, got, 1e-6, 1e-6);
}

CaseResult run_fp8_decode(const json& in, const json& expected) {
  const bool e4m3 = in.at("kind") == "e4m3fn";
  std::vector<float> values;
  for (const uint8_t code : in.at("codes").get<std::vector<uint8_t>>()) {
    values.push_back(e4m3 ? fp8_e4m3_to_float(code) : fp8_e5m2_to_float(code));
  }
  return compare(numbers(expected.at("values")), values, 0.0, 0.0);
}

CaseResult run_fp8_encode(const json& in, const json& expected) {
  const bool e4m3 = in.at("kind") == "e4m3fn";
  const bool saturate = in.at("saturate");
  const json& codes = expected.at("codes");
  const std::vector<double> values = numbers(in.at("values"));
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = static_cast<float>(values[i]);
    const uint8_t code = e4m3 ? float_to_fp8_e4m3(value, saturate) : float_to_fp8_e5m2(value, saturate);
    const float back = e4m3 ? fp8_e4m3_to_float(code) : fp8_e5m2_to_float(code);
    const bool same = codes[i].is_string() ? std::isnan(back) : codes[i] == code;
    if (!same) return CaseResult::fail(fmt::format("{}: want code {}, got {}", value, codes[i].dump(), code));
  }
  return CaseResult::pass();
}

}  // namespace

CaseResult run_quant(const CaseContext& context) {
  const json& in = context.input;
  const std::string op = in.at("op");
  if (op == "ggml") return run_ggml(in, context.expected);
  if (op == "gptq" || op == "awq") return run_group(in, context.expected, op == "gptq");
  if (op == "fp8_decode") return run_fp8_decode(in, context.expected);
  if (op == "fp8_encode") return run_fp8_encode(in, context.expected);
  if (op == "dot_u8s8") {
    const auto a = in.at("a").get<std::vector<uint8_t>>();
    const auto b = in.at("b").get<std::vector<int8_t>>();
    const int32_t sum = dot_u8s8(a, b);
    return context.expected.at("sum") == sum ? CaseResult::pass()
                                             : CaseResult::fail(fmt::format("got {}", sum));
  }
  return CaseResult::not_covered("op " + op);
}

}  // namespace headrace::testing
