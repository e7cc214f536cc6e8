// What infer() refuses, and that a refusal names the op, the input, what was wanted and what was got.
#include <gmock/gmock.h>

#include "ops/add_q8.h"
#include "ops/attention.h"
#include "ops/conv_q8.h"
#include "ops/gemm_q8.h"
#include "ops/op_table.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/rows.h"
#include "ops/sample.h"

namespace headrace::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Dim kTokens = Dim::symbol(0);
const Dim kSeqs = Dim::symbol(1);

ValueType f32(Shape shape) {
  return ValueType::tensor(DType::f32, shape);
}
ValueType i32(Shape shape) {
  return ValueType::tensor(DType::i32, shape);
}

std::string refusal(const Op& op, std::vector<ValueType> inputs, const Attrs& attrs) {
  const auto types = op.infer(inputs, attrs);
  return types ? "accepted" : types.error().message();
}

TEST(Infer, NamesTheInputWhoseWidthIsWrong) {
  EXPECT_THAT(
      refusal(rms_norm, {f32({kTokens, 576}), ValueType::weight(Format::f32, {512})}, RmsNormAttrs{}),
      AllOf(HasSubstr("rms_norm: input 1 (weight)"), HasSubstr("576"), HasSubstr("weight f32 [512]")));
}

TEST(Infer, CountsInputs) {
  EXPECT_EQ(refusal(add_rms_norm, {f32({kTokens, 8})}, RmsNormAttrs{}), "add_rms_norm: want 3 inputs, got 1");
}

TEST(Infer, RefusesAQuantizedNorm) {
  EXPECT_THAT(refusal(rms_norm, {f32({kTokens, 32}), ValueType::weight(Format::q4_1, {32})}, RmsNormAttrs{}),
              HasSubstr("want a weight vector of f32, f16 or bf16"));
}

TEST(Infer, KeepsSymbolsApart) {
  EXPECT_THAT(refusal(rope, {f32({kTokens, 8}), i32({kSeqs}), f32({4})},
                      RopeAttrs{.heads = 1, .head_dim = 8, .rotary_dim = 8}),
              HasSubstr("rope: input 1 (positions): want axis 0 of s0"));
}

TEST(Infer, RefusesAnOddRotaryDimension) {
  EXPECT_THAT(refusal(rope, {f32({kTokens, 8}), i32({kTokens}), f32({3})},
                      RopeAttrs{.heads = 1, .head_dim = 8, .rotary_dim = 7}),
              HasSubstr("rotary_dim must be even"));
}

TEST(Infer, HoldsAttentionToItsPool) {
  const AttentionAttrs attrs{.heads = 4, .kv_heads = 2, .head_dim = 16, .scale = 0.25f};
  const auto inputs = [&](KvSpec spec) {
    return std::vector{f32({kTokens, 64}), ValueType::kv_layer(spec), i32({kSeqs + 1}), i32({kSeqs}),
                       i32({kSeqs, Dim::symbol(2)})};
  };
  EXPECT_EQ(refusal(attention, inputs({.heads = 2, .head_dim = 16}), attrs), "accepted");
  EXPECT_EQ(refusal(attention, inputs({.heads = 1, .head_dim = 16}), attrs),
            "attention: the pool has 1 heads of 16, want 2 of 16");
  EXPECT_THAT(refusal(attention, inputs({.heads = 2, .head_dim = 16}),
                      AttentionAttrs{.heads = 3, .kv_heads = 2, .head_dim = 16}),
              HasSubstr("multiple of kv_heads, got 3 and 2"));
}

TEST(Infer, RefusesColumnsOutsideTheValue) {
  EXPECT_THAT(refusal(slice_columns, {f32({kTokens, 10})}, SliceColumnsAttrs{4, 12}),
              HasSubstr("columns 4..12"));
}

TEST(Infer, HoldsQuantizationsToTheirTypes) {
  const auto of = [](DType dtype, Shape shape) { return ValueType::tensor(dtype, std::move(shape)); };
  const auto x = f32({2, 3}), one = f32({1}), three = f32({3});
  EXPECT_EQ(refusal(quantize_linear, {x, three, of(DType::i8, {3})}, QuantizeLinearAttrs{1}), "accepted");
  EXPECT_THAT(refusal(quantize_linear, {x, three, of(DType::i8, {3})}, QuantizeLinearAttrs{0}), HasSubstr("each place of axis 0"));
  EXPECT_THAT(refusal(quantize_linear, {x, three, of(DType::i8, {3})}, QuantizeLinearAttrs{2}), HasSubstr("axis 2: want 0 to 1"));
  EXPECT_THAT(refusal(quantize_linear, {x, one, one}, QuantizeLinearAttrs{}), HasSubstr("want u8 or i8, got f32 [1]"));
  EXPECT_THAT(refusal(dequantize_linear, {of(DType::u8, {2}), one, of(DType::i8, {1})}, QuantizeLinearAttrs{}), HasSubstr("want u8, as q"));
  EXPECT_THAT(refusal(dequantize_linear, {of(DType::u8, {2}), one, of(DType::u8, {2})}, QuantizeLinearAttrs{}),
              HasSubstr("as many zero points"));

  const std::vector gemm_inputs{of(DType::u8, {2, 3}), of(DType::i8, {3, 4}), f32({4})};
  const auto gemm = [&](Q8ProductAttrs q8) { return refusal(gemm_q8, gemm_inputs, GemmQ8Attrs{.q8 = std::move(q8)}); };
  EXPECT_EQ(gemm({.x_zero = 255}), "accepted");
  EXPECT_THAT(gemm({.x_zero = 256}), HasSubstr("x: a zero point of 256 in u8"));
  EXPECT_THAT(gemm({.y = Quantization{DType::u8, 0.0f, 0}}), HasSubstr("y: a scale of 0: want one above 0"));
  EXPECT_THAT(gemm({.y = Quantization{DType::f32, 1.0f, 0}}), HasSubstr("a quantization to f32"));
  EXPECT_THAT(refusal(gemm_q8, {x, of(DType::i8, {3, 4}), f32({4})}, GemmQ8Attrs{}), HasSubstr("input 0 (x): want u8 or i8, got f32"));
  EXPECT_THAT(refusal(gemm_q8, {of(DType::u8, {2, 3}), of(DType::i8, {4, 4}), f32({4})}, GemmQ8Attrs{}),
              HasSubstr("a has 3 columns and b 4"));
  EXPECT_THAT(refusal(gemm_q8, {of(DType::u8, {2, 3}), of(DType::i8, {3, 4}), f32({1})}, GemmQ8Attrs{}), HasSubstr("input 2 (scale)"));
  EXPECT_THAT(refusal(conv_q8, {of(DType::u8, {1, 2, 2, 3}), of(DType::i8, {4, 3, 3, 3}), f32({4})}, ConvQ8Attrs{}),
              AllOf(HasSubstr("conv_q8"), HasSubstr("shorter than the window")));
  EXPECT_THAT(refusal(add_q8, {of(DType::u8, {2}), of(DType::u8, {1})}, AddQ8Attrs{}), HasSubstr("want one shape, got [2] and [1]"));
  EXPECT_THAT(refusal(add_q8, {of(DType::u8, {2}), of(DType::u8, {2})}, AddQ8Attrs{.activation = UnaryAttrs{UnaryKind::tanh}}),
              HasSubstr("want relu or clip"));
}

TEST(Infer, GivesShapesInSymbols) {
  const auto types = rms_norm.infer(std::vector{f32({kTokens, 576}), ValueType::weight(Format::bf16, {576})},
                                    RmsNormAttrs{});
  ASSERT_TRUE(types.has_value());
  EXPECT_EQ((*types)[0], f32({kTokens, 576}));
}

TEST(OpTable, SelectsTheBestKernelThatTheTargetAllows) {
  const std::vector inputs{f32({kTokens, 576}), ValueType::weight(Format::f32, {576})};
  const std::vector outputs{f32({kTokens, 576})};
  const RmsNormAttrs attrs;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    const auto kernel = select_kernel(rms_norm, inputs, outputs, attrs, {.isa = isa});
    ASSERT_TRUE(kernel.has_value());
    EXPECT_EQ((*kernel)->isa, isa);
  }
}

}  // namespace
}  // namespace headrace::ops
