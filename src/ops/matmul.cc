#include "ops/matmul.h"

#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "ops/input_check.h"

namespace headrace::ops {
namespace {

// "f32 [T, 576]", for messages: the symbol's name is not known here.
std::string describe(const ValueType& type) {
  static constexpr std::string_view kSymbols = "?";
  const std::vector<std::string> names(kMaxSymbols, std::string(kSymbols));
  switch (type.kind) {
    case ValueType::Kind::tensor: return fmt::format("{} {}", dtype_name(type.dtype), type.shape.to_string(names));
    case ValueType::Kind::weight:
      return fmt::format("weight {} {}", format_info(type.format).name, type.shape.to_string(names));
    case ValueType::Kind::kv: return "a kv layer";
  }
  return "?";
}

Status want_tensor(std::string_view op, std::string_view name, const ValueType& type, DType dtype) {
  if (type.kind == ValueType::Kind::tensor && type.dtype == dtype && type.shape.rank() == 2 &&
      type.shape[1].is_constant()) {
    return Status();
  }
  return make_status(Code::invalid_argument, "{}: {}: want {} [rows, constant columns], got {}", op, name,
                     dtype_name(dtype), describe(type));
}

// The weight [N, columns] and the bias [N], if any, after `first` inputs. N, or what is wrong.
Result<int64_t> want_weights(std::string_view op, std::span<const ValueType> inputs, size_t first, int64_t columns) {
  if (inputs.size() != first + 1 && inputs.size() != first + 2) {
    return error(Code::invalid_argument, "{}: want {} or {} inputs, got {}", op, first + 1, first + 2, inputs.size());
  }
  const ValueType& weight = inputs[first];
  if (weight.kind != ValueType::Kind::weight || weight.shape.rank() != 2 || !weight.shape[0].is_constant() ||
      weight.shape[1] != Dim(columns)) {
    return error(Code::invalid_argument, "{}: weight: want [out features, {}], got {}", op, columns, describe(weight));
  }
  if (columns % format_info(weight.format).block_elements != 0) {
    return error(Code::unsupported, "{}: {} columns are not whole {} blocks of {}", op, columns,
                 format_info(weight.format).name, format_info(weight.format).block_elements);
  }
  const int64_t rows = weight.shape[0].constant();
  if (inputs.size() == first + 2) {
    const ValueType& bias = inputs[first + 1];
    if (bias.kind != ValueType::Kind::weight || bias.shape != Shape{rows}) {
      return error(Code::invalid_argument, "{}: bias: want a weight [{}], got {}", op, rows, describe(bias));
    }
  }
  return rows;
}

double stored_bytes(const ValueType& type, const Bindings& bindings) {
  const double elements = static_cast<double>(type.shape.elements(bindings));
  if (type.kind == ValueType::Kind::tensor) return elements * static_cast<double>(dtype_bytes(type.dtype));
  const FormatInfo& info = format_info(type.format);
  return elements / info.block_elements * info.block_bytes;
}

Cost cost_of(const NodeSizes& sizes, double flops) {
  Cost cost{flops, 0};
  for (const ValueType& type : sizes.inputs) cost.bytes += stored_bytes(type, sizes.bindings);
  for (const ValueType& type : sizes.outputs) cost.bytes += stored_bytes(type, sizes.bindings);
  return cost;
}

double product_flops(const NodeSizes& sizes) {
  return 2.0 * static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)) *
         static_cast<double>(sizes.inputs[0].shape[1].eval(sizes.bindings));
}

// Rounding of a float32 sum of K products of order 1: its error grows as sqrt(K) by chance and K at worst.
Tolerance product_tolerance(int64_t columns) { return {1e-6 * std::sqrt(static_cast<double>(columns)) + 1e-6, 1e-5}; }

// out[t][n] = bias[n] + sum over k of x(t, k) * weight[n][k].
template <class X>
void product(const HostTensor& weight, const HostTensor* bias, HostTensor& out, const X& x) {
  const int64_t rows = weight.dims[0], columns = weight.dims[1];
  for (int64_t t = 0; t < out.dims[0]; ++t) {
    for (int64_t n = 0; n < rows; ++n) {
      double sum = bias == nullptr ? 0.0 : bias->values[n];
      for (int64_t k = 0; k < columns; ++k) sum += x(t, k) * weight.values[n * columns + k];
      out.values[t * rows + n] = sum;
    }
  }
}

// ---- matmul ----------------------------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_matmul(std::span<const ValueType> inputs, const Attrs&) {
  if (inputs.empty()) return error(Code::invalid_argument, "matmul: want 2 or 3 inputs, got none");
  if (Status bad = want_tensor("matmul", "x", inputs[0], DType::f32); !bad.ok()) return tl::unexpected(bad);
  const Result<int64_t> rows = want_weights("matmul", inputs, 1, inputs[0].shape[1].constant());
  if (!rows) return tl::unexpected(rows.error());
  return std::vector{ValueType::tensor(DType::f32, {inputs[0].shape[0], *rows})};
}

void reference_matmul(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& x = inputs[0].tensor;
  const int64_t columns = x.dims[1];
  product(inputs[1].tensor, inputs.size() > 2 ? &inputs[2].tensor : nullptr, outputs[0],
          [&](int64_t t, int64_t k) { return x.values[t * columns + k]; });
}

CaseInput activations(int64_t tokens, int64_t columns, bool strided = false) {
  return {.kind = ValueType::Kind::tensor, .dtype = DType::f32, .dims = {tokens, columns}, .strided = strided};
}
CaseInput matrix(Format format, int64_t rows, int64_t columns) {
  return {.kind = ValueType::Kind::weight,
          .format = format,
          .dims = {rows, columns},
          .scale = 1.0 / std::sqrt(static_cast<double>(columns))};
}
CaseInput vector(Format format, int64_t size) {
  return {.kind = ValueType::Kind::weight, .format = format, .dims = {size}};
}

std::string case_name(Format format, int64_t tokens, int64_t rows, int64_t columns, std::string_view more = "") {
  return fmt::format("{} T={} N={} K={}{}", format_info(format).name, tokens, rows, columns, more);
}

std::string phase_of(int64_t tokens) { return tokens >= 64 ? "prefill" : "decode"; }

// SmolLM2-135M's merged linears and its logits: rows, columns.
struct Size {
  int64_t rows, columns;
};
constexpr Size kRealSizes[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}, {49152, 576}};
constexpr int64_t kRealTokens[] = {1, 4, 16, 512};

// The formats whose blocks divide `columns`.
bool fits(Format format, int64_t columns) { return columns % format_info(format).block_elements == 0; }

// Calls add(format, tokens, rows, columns, bench): edges for each format, real shapes for the bench. The float64 reference
// of a 512-token case is slow, so few of them are tested; the logits are measured for one and four rows.
template <class Add>
void each_case(std::span<const Format> formats, std::span<const Format> bench_formats, const Add& add) {
  for (const Format format : formats) {
    const int64_t odd = fits(format, 33) ? 33 : fits(format, 96) ? 96 : 256;
    for (const int64_t tokens : {0, 1, 2, 3, 5, 17}) add(format, tokens, 40, odd, false);
    add(format, 50, 17, fits(format, 576) ? 576 : 512, false);
    add(format, 1, 1, fits(format, 32) ? 32 : 256, false);
    add(format, 80, 40, fits(format, 32) ? 32 : 256, false);  // many tokens, few tiles
  }
  for (const Format format : bench_formats) {
    for (const Size& size : kRealSizes) {
      for (const int64_t tokens : kRealTokens) {
        if (size.rows < 10000 || tokens <= 4) add(format, tokens, size.rows, size.columns, true);
      }
    }
  }
}

std::vector<OpCase> cases_matmul() {
  static constexpr Format kFormats[] = {Format::f32,  Format::f16,  Format::bf16, Format::q8_0, Format::q4_0, Format::q4_1,
                                        Format::q5_0, Format::q5_1, Format::q4_k, Format::q6_k, Format::fp8_e4m3};
  static constexpr Format kBench[] = {Format::f32, Format::bf16, Format::q4_1};
  std::vector<OpCase> cases;
  each_case(kFormats, kBench, [&](Format format, int64_t tokens, int64_t rows, int64_t columns, bool bench) {
    cases.push_back({case_name(format, tokens, rows, columns), MatmulAttrs{},
                     {activations(tokens, columns), matrix(format, rows, columns)}, bench, bench ? phase_of(tokens) : ""});
  });
  for (const Format format : {Format::f32, Format::q4_1}) {
    cases.push_back({case_name(format, 3, 35, 64, " bias"), MatmulAttrs{},
                     {activations(3, 64), matrix(format, 35, 64), vector(Format::f32, 35)}});
    cases.push_back({case_name(format, 5, 35, 64, " strided"), MatmulAttrs{},
                     {activations(5, 64, true), matrix(format, 35, 64)}});
  }
  return cases;
}

// ---- quantize_rows ---------------------------------------------------------------------------------------------

Status want_terms(std::string_view op, int32_t terms) {
  if (terms == 1 || terms == 2) return Status();
  return make_status(Code::invalid_argument, "{}: terms: want 1 or 2, got {}", op, terms);
}

Result<std::vector<ValueType>> infer_quantize(std::span<const ValueType> inputs, const Attrs& attrs) {
  const int32_t terms = attrs.as<Q8Attrs>().terms;
  if (Status bad = want_terms("quantize_rows", terms); !bad.ok()) return tl::unexpected(bad);
  if (inputs.size() != 1) return error(Code::invalid_argument, "quantize_rows: want 1 input, got {}", inputs.size());
  if (Status bad = want_tensor("quantize_rows", "x", inputs[0], DType::f32); !bad.ok()) return tl::unexpected(bad);
  const Dim rows = inputs[0].shape[0];
  const int64_t columns = inputs[0].shape[1].constant();
  if (columns % kActivationBlock != 0) {
    return error(Code::unsupported, "quantize_rows: want whole blocks of {} columns, got {}", kActivationBlock, columns);
  }
  return std::vector{ValueType::tensor(DType::i8, {rows, terms * columns}),
                     ValueType::tensor(DType::f32, {rows, columns / kActivationBlock}),
                     ValueType::tensor(DType::i32, {rows, columns / kActivationBlock})};
}

Cost cost_quantize(const NodeSizes& sizes) {
  return cost_of(sizes, 4.0 * static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)));
}

// The definition's own float32 steps: rounding is what this op does, so its outputs are compared exactly.
void reference_quantize(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const bool two = attrs.as<Q8Attrs>().terms == 2;
  const std::vector<double>& x = inputs[0].tensor.values;
  for (size_t block = 0; block < x.size() / kActivationBlock; ++block) {
    const size_t first = block * kActivationBlock;
    float peak = 0;
    for (int i = 0; i < kActivationBlock; ++i) peak = std::max(peak, std::fabs(static_cast<float>(x[first + i])));
    const bool zero = peak < kActivationFloor;
    const float inverse = zero ? 0.0f : 127.0f / peak;
    const float scale = zero ? 0.0f : peak / 127.0f;
    double sum = 0;
    for (int i = 0; i < kActivationBlock; ++i) {
      const float value = static_cast<float>(x[first + i]);
      const float code = std::nearbyint(value * inverse);
      outputs[0].values[two ? 2 * first + i : first + i] = code;
      sum += two ? 256 * code : code;
      if (!two) continue;
      const float product = scale * code;
      const float rest = (value - product) * (256.0f * inverse);
      const float second = std::nearbyint(std::clamp(rest, -127.0f, 127.0f));
      outputs[0].values[2 * first + kActivationBlock + i] = second;
      sum += second;
    }
    outputs[1].values[block] = two ? scale / 256.0f : scale;
    outputs[2].values[block] = sum;
  }
}

Tolerance exact(std::span<const ValueType>, const Attrs&) { return {0, 0}; }

std::vector<OpCase> cases_quantize() {
  // Ties, signed zeros, a block below the floor, one of a single spike and the largest floats.
  CaseInput edges = activations(1, 160);
  edges.values.assign(160, 0.0);
  for (int i = 0; i < 32; ++i) {
    edges.values[i] = i == 0 ? 127.0 : i - 15.5;
    edges.values[32 + i] = 0x1p-120 * i;
    edges.values[64 + i] = i == 9 ? -3e38 : 1.0;
    edges.values[96 + i] = (i % 2 == 0 ? 1 : -1) * 1e-20;
    edges.values[128 + i] = i % 2 == 0 ? -0.0 : 0.0;
  }
  std::vector<OpCase> cases;
  for (const int32_t terms : {1, 2}) {
    const Q8Attrs attrs{terms};
    const std::string more = terms == 1 ? "" : " terms=2";
    for (const int64_t tokens : {0, 1, 2, 3, 17}) {
      for (const int64_t columns : {32, 96, 576}) {
        cases.push_back({fmt::format("T={} K={}{}", tokens, columns, more), attrs, {activations(tokens, columns)}});
      }
    }
    cases.push_back({"strided" + more, attrs, {activations(5, 96, true)}});
    cases.push_back({"edges" + more, attrs, {edges}});
    for (const int64_t columns : {576, 1536}) {
      for (const int64_t tokens : {1, 512}) {
        cases.push_back({fmt::format("T={} K={} bench{}", tokens, columns, more), attrs, {activations(tokens, columns)},
                         true, phase_of(tokens)});
      }
    }
  }
  return cases;
}

// ---- matmul_q8 -------------------------------------------------------------------------------------------------

constexpr Format kQ8Formats[] = {Format::q4_0, Format::q4_1, Format::q5_0, Format::q5_1,
                                 Format::q8_0, Format::q4_k, Format::q5_k, Format::q6_k};

Result<std::vector<ValueType>> infer_matmul_q8(std::span<const ValueType> inputs, const Attrs& attrs) {
  const int32_t terms = attrs.as<Q8Attrs>().terms;
  if (Status bad = want_terms("matmul_q8", terms); !bad.ok()) return tl::unexpected(bad);
  if (inputs.size() < 4) return error(Code::invalid_argument, "matmul_q8: want 4 or 5 inputs, got {}", inputs.size());
  if (Status bad = want_tensor("matmul_q8", "q", inputs[0], DType::i8); !bad.ok()) return tl::unexpected(bad);
  const Dim tokens = inputs[0].shape[0];
  const int64_t columns = inputs[0].shape[1].constant() / terms;
  const Shape per_block{tokens, columns / kActivationBlock};
  if (inputs[0].shape[1].constant() % (terms * kActivationBlock) != 0 || inputs[1] != ValueType::tensor(DType::f32, per_block) ||
      inputs[2] != ValueType::tensor(DType::i32, per_block)) {
    return error(Code::invalid_argument, "matmul_q8: want the outputs of quantize_rows with {} term(s), got {}, {}, {}",
                 terms, describe(inputs[0]), describe(inputs[1]), describe(inputs[2]));
  }
  const Result<int64_t> rows = want_weights("matmul_q8", inputs, 3, columns);
  if (!rows) return tl::unexpected(rows.error());
  const Format format = inputs[3].format;
  if (!matmul_q8_takes(format)) {
    std::string names;
    for (const Format known : kQ8Formats) names += fmt::format("{}{}", names.empty() ? "" : ", ", format_info(known).name);
    return error(Code::unsupported, "matmul_q8: want a weight of {}, got {}", names, format_info(format).name);
  }
  return std::vector{ValueType::tensor(DType::f32, {tokens, *rows})};
}

void reference_matmul_q8(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& q = inputs[0].tensor;
  const HostTensor& scale = inputs[1].tensor;
  const int32_t terms = attrs.as<Q8Attrs>().terms;
  const int64_t blocks = scale.dims[1];
  product(inputs[3].tensor, inputs.size() > 4 ? &inputs[4].tensor : nullptr, outputs[0], [&](int64_t t, int64_t k) {
    const int64_t block = t * blocks + k / kActivationBlock;
    const double* codes = q.values.data() + block * terms * kActivationBlock + k % kActivationBlock;
    return (terms == 1 ? codes[0] : 256 * codes[0] + codes[kActivationBlock]) * scale.values[block];
  });
}

// The three outputs of quantize_rows for random rows: `sum` must be that of `q`, so the values are given. `code(i)` makes them.
template <class Code>
std::vector<CaseInput> quantized(int64_t tokens, int64_t columns, int32_t terms, bool strided, const Code& code) {
  const int64_t blocks = tokens * columns / kActivationBlock;
  CaseInput q{.dtype = DType::i8, .dims = {tokens, terms * columns}, .strided = strided};
  CaseInput scale{.dtype = DType::f32, .dims = {tokens, columns / kActivationBlock}, .strided = strided};
  CaseInput sum{.dtype = DType::i32, .dims = scale.dims, .strided = strided};
  for (int64_t i = 0; i < terms * tokens * columns; ++i) q.values.push_back(code(i));
  for (int64_t block = 0; block < blocks; ++block) {
    const double* codes = q.values.data() + block * terms * kActivationBlock;
    double total = 0;
    for (int i = 0; i < kActivationBlock; ++i) {
      total += terms == 1 ? codes[i] : 256 * codes[i] + codes[kActivationBlock + i];
    }
    sum.values.push_back(total);
    scale.values.push_back(static_cast<float>((1.0 + static_cast<double>(block % 7)) / (terms == 1 ? 512.0 : 131072.0)));
  }
  return {q, scale, sum};
}

double random_code(int64_t i) {
  const uint64_t mixed = (static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u;
  return static_cast<double>((mixed >> 33) % 255) - 127.0;
}

void add_q8_cases(const Q8Attrs& attrs, std::vector<OpCase>& cases) {
  static constexpr Format kBench[] = {Format::q4_0, Format::q4_1, Format::q8_0, Format::q5_0};
  const std::string more = attrs.terms == 1 ? "" : " terms=2";
  each_case(kQ8Formats, kBench, [&](Format format, int64_t tokens, int64_t rows, int64_t columns, bool bench) {
    // Two terms serve q, k, v and the logits alone.
    if (bench && attrs.terms == 2 && rows != kRealSizes[0].rows && rows < 10000) return;
    std::vector<CaseInput> inputs = quantized(tokens, columns, attrs.terms, false, random_code);
    inputs.push_back(matrix(format, rows, columns));
    cases.push_back({case_name(format, tokens, rows, columns, more), attrs, std::move(inputs), bench,
                     bench ? phase_of(tokens) : ""});
  });
  for (const Format format : kQ8Formats) {
    const int64_t columns = fits(format, 64) ? 64 : 256;
    std::vector<CaseInput> inputs = quantized(3, columns, attrs.terms, true, random_code);
    inputs.push_back(matrix(format, 35, columns));
    inputs.push_back(vector(Format::f32, 35));
    cases.push_back({case_name(format, 3, 35, columns, " bias strided" + more), attrs, std::move(inputs)});
    if (format_info(format).encode == nullptr) continue;  // its weights cannot be chosen
    // Every product at its largest: what a 16-bit partial sum would saturate on.
    for (const double extreme : {127.0, -127.0}) {
      inputs = quantized(2, columns, attrs.terms, false, [&](int64_t) { return extreme; });
      inputs.push_back(matrix(format, 16, columns));
      inputs.back().values.assign(16 * columns, 1.0);
      for (int n = 8; n < 16; ++n) std::fill_n(inputs.back().values.begin() + n * columns, columns, -1.0);
      cases.push_back({case_name(format, 2, 16, columns, (extreme > 0 ? " largest" : " smallest") + more), attrs,
                       std::move(inputs)});
    }
  }
}

std::vector<OpCase> cases_matmul_q8() {
  std::vector<OpCase> cases;
  for (const int32_t terms : {1, 2}) add_q8_cases(Q8Attrs{terms}, cases);
  return cases;
}

// ---- round_bf16, matmul_bf16 -----------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_round(std::span<const ValueType> inputs, const Attrs&) {
  if (inputs.size() != 1) return error(Code::invalid_argument, "round_bf16: want 1 input, got {}", inputs.size());
  if (Status bad = want_tensor("round_bf16", "x", inputs[0], DType::f32); !bad.ok()) return tl::unexpected(bad);
  return std::vector{ValueType::tensor(DType::bf16, inputs[0].shape)};
}

void reference_round(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const std::vector<double>& x = inputs[0].tensor.values;
  for (size_t i = 0; i < x.size(); ++i) outputs[0].values[i] = to_float(to_bf16(static_cast<float>(x[i])));
}

std::vector<OpCase> cases_round() {
  CaseInput edges = activations(1, 48);
  edges.values.assign(48, 0.0);
  // Ties to both sides, the largest values that stay finite and that do not, signed zero.
  const double values[] = {1.0 + 0x1p-8, 1.0 + 3 * 0x1p-8, 1.0 + 0x1p-8 + 0x1p-20, -1.0 - 0x1p-8, 0x1.fefffep127,
                           -0x1.fffffep127, 0x1p-126, 0x1.8p-130, -0.0};
  std::copy(std::begin(values), std::end(values), edges.values.begin());
  std::vector<OpCase> cases = {{"edges", MatmulAttrs{}, {edges}}, {"strided", MatmulAttrs{}, {activations(5, 33, true)}}};
  for (const int64_t tokens : {0, 1, 3, 17}) {
    for (const int64_t columns : {1, 31, 64}) {
      cases.push_back({fmt::format("T={} K={}", tokens, columns), MatmulAttrs{}, {activations(tokens, columns)}});
    }
  }
  cases.push_back({"T=512 K=576", MatmulAttrs{}, {activations(512, 576)}, true, "prefill"});
  return cases;
}

Result<std::vector<ValueType>> infer_matmul_bf16(std::span<const ValueType> inputs, const Attrs& attrs) {
  const DType out = attrs.as<MatmulAttrs>().out;
  if (out != DType::f32 && out != DType::bf16) {
    return error(Code::invalid_argument, "matmul_bf16: out: want f32 or bf16, got {}", dtype_name(out));
  }
  if (inputs.empty()) return error(Code::invalid_argument, "matmul_bf16: want 2 or 3 inputs, got none");
  if (Status bad = want_tensor("matmul_bf16", "x", inputs[0], DType::bf16); !bad.ok()) return tl::unexpected(bad);
  const Result<int64_t> rows = want_weights("matmul_bf16", inputs, 1, inputs[0].shape[1].constant());
  if (!rows) return tl::unexpected(rows.error());
  if (!matmul_bf16_takes(inputs[1])) {
    return error(Code::unsupported, "matmul_bf16: want a weight of bf16 with an even number of columns, got {}",
                 describe(inputs[1]));
  }
  return std::vector{ValueType::tensor(out, {inputs[0].shape[0], *rows})};
}

std::vector<OpCase> cases_matmul_bf16() {
  static constexpr Format kFormat[] = {Format::bf16};
  const auto input = [](int64_t tokens, int64_t columns, bool strided = false) {
    CaseInput x = activations(tokens, columns, strided);
    x.dtype = DType::bf16;
    return x;
  };
  std::vector<OpCase> cases;
  each_case(kFormat, kFormat, [&](Format format, int64_t tokens, int64_t rows, int64_t columns, bool bench) {
    columns += columns % 2;
    cases.push_back({case_name(format, tokens, rows, columns), MatmulAttrs{},
                     {input(tokens, columns), matrix(format, rows, columns)}, bench, bench ? phase_of(tokens) : ""});
  });
  cases.push_back({case_name(Format::bf16, 3, 35, 64, " bias"), MatmulAttrs{},
                   {input(3, 64), matrix(Format::bf16, 35, 64), vector(Format::f32, 35)}});
  cases.push_back({case_name(Format::bf16, 26, 50, 34, " strided"), MatmulAttrs{},
                   {input(26, 34, true), matrix(Format::bf16, 50, 34)}});
  // A bf16 output, with sizes that a device's tiles like and others.
  for (const auto& [tokens, rows, columns] : {std::tuple{1, 256, 512}, {3, 40, 34}, {8, 384, 1024}, {17, 128, 576}, {70, 136, 128}}) {
    cases.push_back({case_name(Format::bf16, tokens, rows, columns, " to bf16"), MatmulAttrs{DType::bf16},
                     {input(tokens, columns, tokens == 17), matrix(Format::bf16, rows, columns)}});
  }
  return cases;
}

}  // namespace

bool matmul_bf16_takes(const ValueType& weight) {
  return weight.kind == ValueType::Kind::weight && weight.format == Format::bf16 && weight.shape.rank() == 2 &&
         weight.shape[1].constant() % 2 == 0;
}

std::string Q8Attrs::describe() const { return terms == 1 ? std::string() : fmt::format("terms={}", terms); }

bool matmul_q8_takes(Format format) { return std::ranges::find(kQ8Formats, format) != std::end(kQ8Formats); }

constinit const Op matmul = {
    .name = "matmul",
    .infer = infer_matmul,
    .cost = [](const NodeSizes& sizes) { return cost_of(sizes, product_flops(sizes)); },
    .reference = reference_matmul,
    .tolerance = [](std::span<const ValueType> inputs, const Attrs&) {
      return product_tolerance(inputs[0].shape[1].constant());
    },
    .cases = cases_matmul,
};

constinit const Op quantize_rows = {
    .name = "quantize_rows",
    .infer = infer_quantize,
    .cost = cost_quantize,
    .reference = reference_quantize,
    .tolerance = exact,
    .cases = cases_quantize,
};

constinit const Op matmul_q8 = {
    .name = "matmul_q8",
    .infer = infer_matmul_q8,
    // The columns of q are those of every term: two terms count as twice the work.
    .cost = [](const NodeSizes& sizes) { return cost_of(sizes, product_flops(sizes)); },
    .reference = reference_matmul_q8,
    .tolerance = [](std::span<const ValueType> inputs, const Attrs&) {
      return product_tolerance(inputs[1].shape[1].constant() * kActivationBlock);
    },
    .cases = cases_matmul_q8,
};

constinit const Op round_bf16 = {
    .name = "round_bf16",
    .infer = infer_round,
    .cost = [](const NodeSizes& sizes) {
      return cost_of(sizes, static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)));
    },
    .reference = reference_round,
    .tolerance = exact,
    .cases = cases_round,
};

constinit const Op matmul_bf16 = {
    .name = "matmul_bf16",
    .infer = infer_matmul_bf16,
    .cost = [](const NodeSizes& sizes) { return cost_of(sizes, product_flops(sizes)); },
    .reference = reference_matmul,
    .tolerance = [](std::span<const ValueType> inputs, const Attrs& attrs) {
      return rounded_to(attrs.as<MatmulAttrs>().out, product_tolerance(inputs[0].shape[1].constant()));
    },
    .cases = cases_matmul_bf16,
};

}  // namespace headrace::ops
