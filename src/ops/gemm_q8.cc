#include "ops/gemm_q8.h"

#include "ops/shapes.h"

namespace headrace::ops {
namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& g = attrs.as<GemmQ8Attrs>();
  auto floats = gemm.infer(float_operands(inputs), GemmAttrs{.trans_b = g.trans_b});
  if (!floats) return tl::unexpected(floats.error().with_context("gemm_q8"));
  if (inputs[1].shape.rank() != 2) return error(Code::invalid_argument, "gemm_q8: want one matrix, got {}", describe(inputs[1]));
  return infer_q8("gemm_q8", inputs, g.q8, (*floats)[0].shape);
}

Cost cost(const NodeSizes& sizes) { return gemm.cost(sizes); }

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& g = attrs.as<GemmQ8Attrs>();
  gemm.reference(GemmAttrs{.trans_b = g.trans_b}, float_operands(inputs, g.q8), outputs);
  finish_q8(g.q8, inputs, outputs[0]);
}

OpCase make_case(std::string name, std::vector<int64_t> x, int64_t columns, const GemmQ8Attrs& attrs, DType dtype = DType::u8,
                 bool bench = false) {
  const int64_t terms = x.back();
  std::vector<int64_t> out = x, weight = {terms, columns};
  out.back() = columns;
  if (attrs.trans_b) std::swap(weight[0], weight[1]);
  OpCase one{.name = std::move(name), .attrs = attrs, .bench = bench};
  one.inputs.push_back({.dtype = dtype, .dims = std::move(x), .scale = dtype == DType::u8 ? 256.0 : 128.0});
  one.inputs.push_back({.dtype = DType::i8, .dims = std::move(weight), .scale = 128});
  // Both ends of the range meet, again and again: sums of 16 bits would overflow.
  for (CaseInput& input : one.inputs) {
    for (int64_t i = 0; i < elements_of(input.dims) && !bench; ++i) {
      const int64_t mixed = i * 2654435761 / 16;
      const auto value = static_cast<double>(mixed % 7 == 0 ? 255 : mixed % 256);
      input.values.push_back(input.dtype == DType::u8 ? value : value - 128);
    }
  }
  add_q8_inputs(one, attrs.q8, terms, out);
  return one;
}

std::vector<OpCase> cases() {
  const Quantization u8{DType::u8, 0.02f, 120};
  const Q8ProductAttrs plain{.x_zero = 128}, bias_u8{.x_zero = 128, .epilogue = {.bias = true}, .y = u8};
  std::vector<OpCase> cases = {
      make_case("one_element", {1, 1}, 1, {.q8 = plain}),
      make_case("empty_rows", {0, 5}, 7, {.q8 = bias_u8}),
      make_case("empty_columns", {3, 5}, 0, {.q8 = plain}),
      make_case("no_terms", {3, 0}, 20, {.q8 = bias_u8}),
      make_case("odd", {7, 33}, 50, {.q8 = plain}),
      make_case("odd_trans_b", {7, 33}, 50, {.trans_b = true, .q8 = bias_u8}),
      make_case("whole_words", {13, 64}, 48, {.q8 = plain}),
      make_case("one_row", {1, 100}, 70, {.q8 = bias_u8}),
      make_case("one_column", {13, 40}, 1, {.q8 = bias_u8}),
      make_case("long_sums", {5, 1500}, 20, {.q8 = plain}),
      make_case("rank_3", {3, 5, 20}, 18, {.trans_b = true, .q8 = bias_u8}),
      make_case("signed", {9, 44}, 35, {.q8 = {.x_zero = -9}}, DType::i8),
      make_case("signed_odd", {9, 43}, 35, {.trans_b = true, .q8 = {.x_zero = -128, .y = Quantization{DType::i8, 0.03f, 4}}}, DType::i8),
  };
  for (const auto& [name, q8] : q8_cases()) cases.push_back(make_case(name, {5, 18}, 37, {.q8 = q8}));
  const auto real = [&](std::string name, int64_t rows, int64_t terms, int64_t columns) {
    cases.push_back(make_case(std::move(name), {rows, terms}, columns, {.q8 = bias_u8}, DType::u8, true));
  };
  real("bert_up_128x768x3072", 128, 768, 3072);
  real("bert_down_128x3072x768", 128, 3072, 768);
  real("classifier_1x2048x1000", 1, 2048, 1000);
  return cases;
}

}  // namespace

const Op gemm_q8{
    .name = "gemm_q8",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = [](std::span<const ValueType>, const Attrs& attrs) { return q8_tolerance(attrs.as<GemmQ8Attrs>().q8); },
    .cases = cases,
};

}  // namespace headrace::ops
