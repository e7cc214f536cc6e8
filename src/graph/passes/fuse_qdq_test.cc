#include "graph/dense_testing.h"
#include "ops/add_q8.h"
#include "ops/conv_q8.h"
#include "ops/gemm_q8.h"
#include "ops/pool_2d.h"

namespace headrace {
namespace {

using namespace pass_testing;
using ops::Epilogue;
using ops::Quantization;
using ops::UnaryAttrs;

// One quantum of the outputs, whose rounding may fall on the other side: the rest is exact.
constexpr double kQuantum = 0.0501;

struct Quantized : Dense {
  ValueId zero(double value, DType dtype) { return constant({1}, {value}, dtype); }
  ValueId quantize(ValueId x, double scale = 0.05, double zero_point = 120, DType dtype = DType::u8) {
    return add(ops::quantize_linear, ops::QuantizeLinearAttrs{}, {x, constant({1}, {scale}), zero(zero_point, dtype)});
  }
  ValueId dequantize(ValueId q, double scale = 0.05, double zero_point = 120) {
    return add(ops::dequantize_linear, ops::QuantizeLinearAttrs{}, {q, constant({1}, {scale}), zero(zero_point, dtype(q))});
  }
  // In 8 bits and back.
  ValueId rounded(ValueId x, double scale = 0.05, double zero_point = 120) {
    return dequantize(quantize(x, scale, zero_point), scale, zero_point);
  }
  // A dequantized constant with a scale for each place of `axis`.
  ValueId weight(const Dims& dims, int32_t axis, DType type = DType::i8, double zero_point = 0) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::vector<double> codes, scales, zeros(static_cast<size_t>(dims[static_cast<size_t>(axis)]), zero_point);
    for (int64_t i = 0; i < count; ++i) codes.push_back(static_cast<double>(i * 37 % 253) - 126 + zero_point);
    for (int64_t i = 0; i < dims[static_cast<size_t>(axis)]; ++i) scales.push_back(0.002 + 0.001 * static_cast<double>(i % 3));
    return add(ops::dequantize_linear, ops::QuantizeLinearAttrs{axis},
               {constant(dims, codes, type), constant({static_cast<int64_t>(scales.size())}, scales),
                constant({static_cast<int64_t>(zeros.size())}, zeros, type)});
  }
  DType dtype(ValueId value) const { return graph.values[static_cast<size_t>(value)].type.dtype; }
};

TEST(FuseQdq, MakesAConvolutionOfEightBits) {
  Quantized g;
  const ValueId x = g.rounded(g.input({1, 6, 5, 4}));
  const ops::ConvAttrs conv{.pads = {1, 1, 1, 1}, .epilogue = {.bias = true, .activation = UnaryAttrs{UnaryKind::relu}}};
  g.output(g.rounded(g.add(ops::conv, conv, {x, g.weight({8, 4, 3, 3}, 0), g.noise({8})})));
  EXPECT_EQ(g.run("fuse_qdq", kQuantum), 2);
  const auto& attrs = g.only(ops::conv_q8).attrs.as<ops::ConvQ8Attrs>();
  EXPECT_EQ(attrs.q8, (ops::Q8ProductAttrs{120, conv.epilogue, Quantization{DType::u8, 0.05f, 120}}));
  EXPECT_EQ(attrs.conv, (ops::ConvAttrs{.pads = {1, 1, 1, 1}}));
  EXPECT_EQ(g.num(ops::quantize_linear), 1);
  EXPECT_EQ(g.num(ops::dequantize_linear), 1);
}

TEST(FuseQdq, GivesFloatsWhereNothingQuantizes) {
  Quantized g;
  const ValueId x = g.rounded(g.input({3, 12})), residual = g.input({3, 7});
  g.output(g.add(ops::gemm, ops::GemmAttrs{.scale = 0.5f, .epilogue = {.residual = true}}, {x, g.weight({12, 7}, 1), residual}));
  g.output(g.add(ops::gemm, ops::GemmAttrs{.trans_b = true}, {x, g.weight({7, 12}, 0)}));
  EXPECT_EQ(g.run("fuse_qdq"), 2);
  EXPECT_EQ(g.num(ops::gemm_q8), 2);
  EXPECT_EQ(g.num(ops::dequantize_linear), 0) << g.graph.to_string();
}

TEST(FuseQdq, TakesUnsignedWeightsAroundTheirMiddle) {
  Quantized g;
  g.output(g.gemm(g.rounded(g.input({3, 12})), g.weight({12, 7}, 1, DType::u8, 127)));
  EXPECT_EQ(g.run("fuse_qdq"), 1);
  EXPECT_EQ(g.num(ops::gemm_q8), 1);
}

TEST(FuseQdq, AddsTwoQuantizedBranches) {
  Quantized g;
  const ValueId a = g.rounded(g.input({2, 3, 5})), b = g.rounded(g.input({2, 3, 5}), 0.03, 100);
  g.output(g.rounded(g.unary(UnaryKind::relu, g.plus(a, b)), 0.05, 0));
  EXPECT_EQ(g.run("fuse_qdq", kQuantum), 1);
  EXPECT_EQ(g.only(ops::add_q8).attrs.as<ops::AddQ8Attrs>().activation, UnaryAttrs{UnaryKind::relu});
}

TEST(FuseQdq, MovesElementsInEightBits) {
  Quantized g;
  const ValueId x = g.rounded(g.input({1, 4, 6, 8})), y = g.rounded(g.input({1, 4, 6, 8}));
  const ops::Pool2dAttrs largest{.window = {2, 2}, .stride = {2, 2}};
  const ValueId joined = g.concat({x, y}, 3);
  const ValueId moved = g.transpose(g.slice(g.add(ops::pool_2d, largest, {joined}), 3, 2, 11), {0, 3, 1, 2});
  g.output(g.rounded(g.reshape(moved, {9, 6})));
  EXPECT_EQ(g.run("fuse_qdq"), 6);  // five movements, and the pair behind them
  for (const Node& node : g.graph.nodes) {
    if (node.op == &ops::dequantize_linear || node.op == &ops::quantize_linear) continue;
    EXPECT_EQ(g.dtype(node.outputs[0]), DType::u8) << g.graph.to_string();
  }
  EXPECT_EQ(g.num(ops::dequantize_linear), 1);
  EXPECT_EQ(g.num(ops::quantize_linear), 2);
}

TEST(FuseQdq, LeavesOtherScalesComputedWeightsAndSharedProducts) {
  Quantized g;
  const ValueId x = g.rounded(g.input({3, 12}));
  g.output(g.rounded(x, 0.03, 120));                                            // another scale
  g.output(g.gemm(x, g.dequantize(g.quantize(g.input({12, 7})))));              // no constant
  g.output(g.concat({x, g.rounded(g.input({3, 12}), 0.02, 120)}, 0));           // two scales
  g.output(g.gemm(x, g.weight({12, 7}, 0)));                                    // scales by row
  g.output(g.gemm(x, g.weight({12, 7}, 1, DType::u8, 20)));                     // beyond i8
  EXPECT_EQ(g.run("fuse_qdq"), 2);  // the two weights become floats
  EXPECT_EQ(g.num(ops::gemm_q8), 0);

  Quantized h;
  const ValueId product = h.gemm(h.rounded(h.input({3, 12})), h.weight({12, 7}, 1));
  h.output(product);
  h.output(h.rounded(product));
  EXPECT_EQ(h.run("fuse_qdq", kQuantum), 1);
  EXPECT_FALSE(h.only(ops::gemm_q8).attrs.as<ops::GemmQ8Attrs>().q8.y);
}

TEST(FuseQdq, SeesThroughTransposesWhenTheyHaveMoved) {
  Quantized g;
  ValueId x = g.rounded(g.input({1, 4, 6, 5}));  // [N, C, H, W]
  for (int layer = 0; layer < 2; ++layer) {
    const ValueId conv = g.add(ops::conv, ops::ConvAttrs{}, {g.transpose(x, {0, 2, 3, 1}), g.weight({4, 4, 1, 1}, 0)});
    x = g.rounded(g.transpose(conv, {0, 3, 1, 2}));
  }
  g.output(x);
  g.run("propagate_transposes", kQuantum);
  g.run("fuse_qdq", kQuantum);
  EXPECT_EQ(g.num(ops::conv_q8), 2) << g.graph.to_string();
  EXPECT_LE(g.num(ops::transpose), 2) << g.graph.to_string();
}

TEST(ConstantFolding, LeavesWeightsOfEightBits) {
  Quantized g;
  g.output(g.gemm(g.input({3, 12}), g.weight({12, 7}, 1)));
  EXPECT_EQ(g.run("constant_folding"), 0);
  EXPECT_EQ(g.run("fuse_qdq"), 1);
  EXPECT_EQ(g.num(ops::dequantize_linear), 0);
}

}  // namespace
}  // namespace headrace
