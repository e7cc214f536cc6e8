// Golden values: worked by hand from the definitions in matmul.h. What kernels compute is the op driver's business.
#include "ops/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::ops {
namespace {

using ::testing::HasSubstr;

const ValueType kX = ValueType::tensor(DType::f32, {Dim::symbol(0), 64});
const ValueType kWeight = ValueType::weight(Format::q4_1, {48, 64});
const ValueType kQ = ValueType::tensor(DType::i8, {Dim::symbol(0), 64});
const ValueType kScale = ValueType::tensor(DType::f32, {Dim::symbol(0), 2});
const ValueType kSum = ValueType::tensor(DType::i32, {Dim::symbol(0), 2});

std::string refusal(const Op& op, const std::vector<ValueType>& inputs, const Attrs& attrs = Q8Attrs{}) {
  const auto types = op.infer(inputs, attrs);
  return types ? "" : types.error().message();
}

TEST(Matmul, GivesOneColumnForEveryRowOfTheWeight) {
  const auto types = matmul.infer(std::vector{kX, kWeight}, Attrs());
  ASSERT_TRUE(types.has_value());
  EXPECT_EQ(types->at(0), ValueType::tensor(DType::f32, {Dim::symbol(0), 48}));
  EXPECT_EQ(refusal(matmul, {kX, kWeight, ValueType::weight(Format::f32, {48})}), "");
}

TEST(Matmul, SaysWhichInputIsWrong) {
  EXPECT_THAT(refusal(matmul, {kX}), HasSubstr("2 or 3 inputs"));
  EXPECT_THAT(refusal(matmul, {kQ, kWeight}), HasSubstr("x: want f32"));
  EXPECT_THAT(refusal(matmul, {kX, ValueType::weight(Format::q4_1, {48, 32})}), HasSubstr("weight: want [out features, 64]"));
  EXPECT_THAT(refusal(matmul, {kX, ValueType::weight(Format::q4_k, {48, 64})}), HasSubstr("not whole q4_k blocks of 256"));
  EXPECT_THAT(refusal(matmul, {kX, kWeight, ValueType::weight(Format::f32, {47})}), HasSubstr("bias: want a weight [48]"));
}

TEST(MatmulQ8, TakesTheOutputsOfQuantizeRows) {
  const auto quantized = quantize_rows.infer(std::vector{kX}, Q8Attrs{});
  ASSERT_TRUE(quantized.has_value());
  EXPECT_EQ(*quantized, (std::vector{kQ, kScale, kSum}));
  EXPECT_EQ(refusal(matmul_q8, {kQ, kScale, kSum, kWeight}), "");
  EXPECT_THAT(refusal(matmul_q8, {kQ, kSum, kScale, kWeight}), HasSubstr("outputs of quantize_rows"));
  EXPECT_THAT(refusal(matmul_q8, {kQ, kScale, kSum, ValueType::weight(Format::f32, {48, 64})}), HasSubstr("got f32"));
}

TEST(MatmulQ8, TakesBlocksOfAsManyTermsAsItWasToldOf) {
  const auto quantized = quantize_rows.infer(std::vector{kX}, Q8Attrs{2});
  ASSERT_TRUE(quantized.has_value());
  const ValueType two = ValueType::tensor(DType::i8, {Dim::symbol(0), 128});
  EXPECT_EQ(*quantized, (std::vector{two, kScale, kSum}));
  EXPECT_EQ(refusal(matmul_q8, {two, kScale, kSum, kWeight}, Q8Attrs{2}), "");
  EXPECT_THAT(refusal(matmul_q8, {kQ, kScale, kSum, kWeight}, Q8Attrs{2}), HasSubstr("quantize_rows with 2 term(s)"));
  EXPECT_THAT(refusal(matmul_q8, {two, kScale, kSum, kWeight}, Q8Attrs{3}), HasSubstr("want 1 or 2, got 3"));
  EXPECT_THAT(refusal(quantize_rows, {kX}, Q8Attrs{0}), HasSubstr("want 1 or 2, got 0"));
}

TEST(QuantizeRows, WantsWholeBlocks) {
  EXPECT_THAT(refusal(quantize_rows, {ValueType::tensor(DType::f32, {3, 40})}), HasSubstr("blocks of 32 columns, got 40"));
}

struct Quantized {
  HostTensor q, scale, sum;
};
Quantized quantize(const std::vector<double>& row, int32_t terms = 1) {
  const int64_t columns = static_cast<int64_t>(row.size());
  HostValue x;
  x.tensor = {DType::f32, {1, columns}, row};
  HostTensor out[3] = {{DType::i8, {1, terms * columns}, std::vector<double>(terms * row.size())},
                       {DType::f32, {1, columns / 32}, std::vector<double>(row.size() / 32)},
                       {DType::i32, {1, columns / 32}, std::vector<double>(row.size() / 32)}};
  quantize_rows.reference(Q8Attrs{terms}, std::span(&x, 1), std::span(out));
  return {out[0], out[1], out[2]};
}

TEST(QuantizeRows, RoundsHalvesToEvenAndKeepsTheSum) {
  std::vector<double> row(64, 0.0);
  row[0] = 127.0;  // the first block's scale is 1
  row[1] = 0.5;
  row[2] = 1.5;
  row[3] = -2.5;
  row[4] = -126.75;
  row[32] = -254.0;  // the second's is 2
  row[33] = 3.0;
  const Quantized got = quantize(row);
  EXPECT_EQ(got.scale.values, (std::vector{1.0, 2.0}));
  EXPECT_EQ(std::vector(got.q.values.begin(), got.q.values.begin() + 5), (std::vector{127.0, 0.0, 2.0, -2.0, -127.0}));
  EXPECT_EQ(got.q.values[32], -127.0);
  EXPECT_EQ(got.q.values[33], 2.0);
  EXPECT_EQ(got.sum.values, (std::vector{0.0, -125.0}));
}

TEST(QuantizeRows, WithTwoTermsKeepsWhatTheFirstLeftIn256thsOfItsStep) {
  std::vector<double> row(64, 0.0);
  row[0] = 127.0;                 // scale 1, a step of 1/256
  row[1] = 3.25;                  // 3 + 64 / 256
  row[2] = -2.75;                 // -3 + 64 / 256
  row[3] = 0.5;                   // 0 + 128 / 256, and 127 is the most
  row[4] = 1.5;                   // 2 - 128 / 256, and -127 the least
  row[5] = 10.0 + 1.5 / 256;      // a half: to the even 2
  row[6] = 10.0 + 2.5 / 256;      // to the even 2
  row[32] = -254.0;               // the second block's scale is 2
  row[33] = 3.0;                  // 2 codes, less 128 / 256 of one: at most 127
  const Quantized got = quantize(row, 2);
  EXPECT_EQ(got.scale.values, (std::vector{1.0 / 256, 2.0 / 256}));
  ASSERT_EQ(got.q.values.size(), 128u);
  EXPECT_EQ(std::vector(got.q.values.begin(), got.q.values.begin() + 7), (std::vector<double>{127, 3, -3, 0, 2, 10, 10}));
  EXPECT_EQ(std::vector(got.q.values.begin() + 32, got.q.values.begin() + 39),
            (std::vector<double>{0, 64, 64, 127, -127, 2, 2}));
  EXPECT_EQ(got.q.values[64 + 1], 2.0);
  EXPECT_EQ(got.q.values[96 + 1], -127.0);
  EXPECT_EQ(got.sum.values, (std::vector{256.0 * 149 + 132, 256.0 * -125 - 127}));
}

TEST(QuantizeRows, TakesABlockTooSmallToInvertAsZeros) {
  const Quantized got = quantize(std::vector<double>(32, 0x1p-101));
  EXPECT_EQ(got.scale.values[0], 0.0);
  EXPECT_EQ(got.q.values[0], 0.0);
  EXPECT_NE(quantize(std::vector<double>(32, 0x1p-100)).scale.values[0], 0.0);
}

TEST(MatmulQ8, MultipliesEachBlockByItsScale) {
  HostValue inputs[5];
  inputs[0].tensor = {DType::i8, {1, 64}, std::vector<double>(64, 2.0)};
  inputs[1].tensor = {DType::f32, {1, 2}, {0.5, 4.0}};
  inputs[2].tensor = {DType::i32, {1, 2}, {64.0, 64.0}};
  inputs[3].tensor = {DType::f32, {1, 64}, std::vector<double>(64, 3.0)};
  inputs[4].tensor = {DType::f32, {1}, {10.0}};
  HostTensor out{DType::f32, {1, 1}, {0.0}};
  matmul_q8.reference(Q8Attrs{}, std::span(inputs), std::span(&out, 1));
  EXPECT_EQ(out.values[0], 10.0 + 32 * 2 * 3 * 0.5 + 32 * 2 * 3 * 4.0);
}

TEST(MatmulQ8, AddsTheSecondTermIn256thsOfTheFirst) {
  HostValue inputs[4];
  inputs[0].tensor = {DType::i8, {1, 64}, std::vector<double>(64, 2.0)};
  std::fill_n(inputs[0].tensor.values.begin() + 32, 32, -1.0);
  inputs[1].tensor = {DType::f32, {1, 1}, {0.5}};
  inputs[2].tensor = {DType::i32, {1, 1}, {32.0 * 511}};
  inputs[3].tensor = {DType::f32, {1, 32}, std::vector<double>(32, 3.0)};
  HostTensor out{DType::f32, {1, 1}, {0.0}};
  matmul_q8.reference(Q8Attrs{2}, std::span(inputs), std::span(&out, 1));
  EXPECT_EQ(out.values[0], 32 * 511 * 3 * 0.5);
}

TEST(Matmul, CountsTheBytesThatMemoryMustMove) {
  Bindings bindings;
  bindings.set(0, 7);
  const std::vector<ValueType> inputs{kX, kWeight};
  const std::vector<ValueType> outputs{ValueType::tensor(DType::f32, {Dim::symbol(0), 48})};
  const Attrs attrs;
  const Cost cost = matmul.cost({inputs, outputs, attrs, bindings});
  EXPECT_EQ(cost.flops, 2.0 * 7 * 48 * 64);
  EXPECT_EQ(cost.bytes, 7 * 64 * 4 + 48 * 2 * 20 + 7 * 48 * 4);
}

}  // namespace
}  // namespace headrace::ops
