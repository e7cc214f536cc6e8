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

std::string refusal(const Op& op, const std::vector<ValueType>& inputs) {
  const auto types = op.infer(inputs, Attrs(MatmulAttrs{}));
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
  const auto quantized = quantize_rows.infer(std::vector{kX}, Attrs());
  ASSERT_TRUE(quantized.has_value());
  EXPECT_EQ(*quantized, (std::vector{kQ, kScale, kSum}));
  EXPECT_EQ(refusal(matmul_q8, {kQ, kScale, kSum, kWeight}), "");
  EXPECT_THAT(refusal(matmul_q8, {kQ, kSum, kScale, kWeight}), HasSubstr("outputs of quantize_rows"));
  EXPECT_THAT(refusal(matmul_q8, {kQ, kScale, kSum, ValueType::weight(Format::f32, {48, 64})}), HasSubstr("got f32"));
}

TEST(QuantizeRows, WantsWholeBlocks) {
  EXPECT_THAT(refusal(quantize_rows, {ValueType::tensor(DType::f32, {3, 40})}), HasSubstr("blocks of 32 columns, got 40"));
}

struct Quantized {
  HostTensor q, scale, sum;
};
Quantized quantize(const std::vector<double>& row) {
  const int64_t columns = static_cast<int64_t>(row.size());
  HostValue x;
  x.tensor = {DType::f32, {1, columns}, row};
  HostTensor out[3] = {{DType::i8, {1, columns}, std::vector<double>(row.size())},
                       {DType::f32, {1, columns / 32}, std::vector<double>(row.size() / 32)},
                       {DType::i32, {1, columns / 32}, std::vector<double>(row.size() / 32)}};
  quantize_rows.reference(Attrs(), std::span(&x, 1), std::span(out));
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
  matmul_q8.reference(Attrs(), std::span(inputs), std::span(&out, 1));
  EXPECT_EQ(out.values[0], 10.0 + 32 * 2 * 3 * 0.5 + 32 * 2 * 3 * 4.0);
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
