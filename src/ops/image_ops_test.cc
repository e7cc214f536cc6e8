// The references of convolutions and pools against onnxruntime 1.31 (CPU), on small integers: x[i] = 7 i mod 11 - 5 channels last,
// weight[i] = 5 i mod 7 - 3. And what infer() refuses.
#include <gmock/gmock.h>

#include "ops/conv.h"
#include "ops/gemm.h"
#include "ops/pool_2d.h"
#include "ops/sdpa.h"

namespace headrace::ops {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Pointwise;

HostValue series(std::vector<int64_t> dims, int64_t step, int64_t modulus, int64_t offset) {
  HostValue value{.tensor = {DType::f32, dims, {}}};
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  for (int64_t i = 0; i < count; ++i) value.tensor.values.push_back(static_cast<double>(i * step % modulus - offset));
  return value;
}
HostValue image(std::vector<int64_t> dims) { return series(std::move(dims), 7, 11, 5); }
HostValue weight(std::vector<int64_t> dims) { return series(std::move(dims), 5, 7, 3); }

HostTensor run(const Op& op, const std::vector<HostValue>& inputs, const Attrs& attrs) {
  std::vector<ValueType> types;
  for (const HostValue& input : inputs) {
    Shape shape;
    for (const int64_t dim : input.tensor.dims) shape.push_back(dim);
    types.push_back(ValueType::tensor(DType::f32, shape));
  }
  const auto outputs = op.infer(types, attrs);
  CHECK(outputs.has_value());
  HostTensor out;
  for (const Dim& dim : (*outputs)[0].shape) out.dims.push_back(dim.constant());
  out.values.resize(static_cast<size_t>((*outputs)[0].shape.elements(Bindings())));
  op.reference(attrs, inputs, {&out, 1});
  return out;
}

TEST(Conv, AgreesWithOnnxruntime) {
  const HostTensor out = run(conv, {image({1, 4, 5, 4}), weight({4, 2, 2, 3})},
                             ConvAttrs{.stride = {2, 1}, .dilation = {1, 2}, .pads = {1, 2, 0, 1}, .groups = 2});
  EXPECT_EQ(out.dims, (std::vector<int64_t>{1, 2, 4, 4}));
  EXPECT_THAT(out.values, ElementsAreArray({-14, 12, 14, 9,   5,   -10, -5, 0,  1, -4,  27, -36, 8,  7,  -20, 20,
                                            9,   -26, -14, 8, -43, 27,  19, -1, 7, -18, -8, 7,   6,  -1, 23,  -25}));
}

TEST(ConvTranspose, AgreesWithOnnxruntime) {
  const HostTensor out =
      run(conv_transpose, {image({1, 2, 3, 4}), weight({4, 1, 3, 2})},
          ConvAttrs{.stride = {2, 3}, .dilation = {1, 2}, .pads = {1, 0, 1, 2}, .output_pad = {1, 2}, .groups = 2});
  EXPECT_EQ(out.dims, (std::vector<int64_t>{1, 4, 9, 2}));
  EXPECT_THAT(out.values,
              ElementsAreArray({4,  1,   0,   0, 10, -19, -6, -12, 0,  0,  -2,  8,  6,  8,   0,  0,   8,  13, -23, 18, 0,  0,  11,  0,
                                14, -12, 0,   0, -26, -12, -26, -9, 0, 0,  14,  9,  -4, -16, 0,  0,   -4, 7,  8,   4,  0,  0,  6,   12,
                                -2, 13,  0,   0, -6, -16, 10, 2,   0,  0,  -4, -10, -17, -8, 0,  0,   9,  0,  11,  4,  0,  0,  0,   10}));
}

TEST(Pool2d, AgreesWithOnnxruntime) {
  const HostValue x = image({1, 5, 6, 2});
  const HostTensor largest =
      run(pool_2d, {x}, Pool2dAttrs{.window = {3, 2}, .stride = {2, 3}, .dilation = {1, 2}, .pads = {1, 0, 1, 1}, .ceil_mode = true});
  EXPECT_EQ(largest.dims, (std::vector<int64_t>{1, 3, 2, 2}));
  EXPECT_THAT(largest.values, ElementsAreArray({2, 4, 4, 2, 5, 5, 3, 5, 5, 3, 5, 5}));
  Pool2dAttrs average{.kind = Pool2dAttrs::Kind::average, .window = {2, 4}, .stride = {2, 3}, .pads = {1, 0, 1, 1}};
  EXPECT_THAT(run(pool_2d, {x}, average).values,
              Pointwise(::testing::DoubleNear(1e-5), std::vector<double>{-0.5, 1, -0.333333, -0.666667, 0.375, 0.5, -0.833333, -1.16667,
                                                                         0.625, -0.625, 0.333333, 0}));
  average.count_pads = true;
  EXPECT_THAT(run(pool_2d, {x}, average).values,
              ElementsAreArray({-0.25, 0.5, -0.125, -0.25, 0.375, 0.5, -0.625, -0.875, 0.625, -0.625, 0.25, 0.0}));
}

ValueType f32(Shape shape) { return ValueType::tensor(DType::f32, shape); }

std::string refusal(const Op& op, std::vector<ValueType> inputs, const Attrs& attrs) {
  const auto types = op.infer(inputs, attrs);
  return types ? "accepted" : types.error().message();
}

TEST(Conv, RefusesWhatDoesNotFit) {
  const ValueType x = f32({1, 4, 5, 6});
  EXPECT_THAT(refusal(conv, {x, f32({8, 5, 3, 3})}, ConvAttrs{}), HasSubstr("conv: input 0 (x): want axis 3 of 5, got f32 [1, 4, 5, 6]"));
  EXPECT_THAT(refusal(conv, {x, f32({8, 6, 5, 3})}, ConvAttrs{}), HasSubstr("axis 1 of x, 4 elements with pads 0 and 0, is shorter"));
  EXPECT_THAT(refusal(conv, {x, f32({8, 2, 3, 3})}, ConvAttrs{.groups = 3}), HasSubstr("groups must be above 0 and divide"));
  EXPECT_THAT(refusal(conv, {x, f32({8, 6, 3, 3})}, ConvAttrs{.stride = {0, 1}}), HasSubstr("stride: want 1 to 2^30"));
  EXPECT_THAT(refusal(conv, {x, f32({8, 6, 3, 3})}, ConvAttrs{.pads = {-1, 0, 0, 0}}), HasSubstr("pads: want 0 to 2^30"));
  EXPECT_THAT(refusal(conv, {x, f32({8, 6, 3, 3})}, ConvAttrs{.dilation = {int64_t{1} << 62, 1}}), HasSubstr("dilation: want 1 to"));
  EXPECT_THAT(refusal(conv, {x, f32({8, 6, 3, 3}), f32({7})}, ConvAttrs{.epilogue = {.bias = true}}), HasSubstr("input 2 (bias)"));
  EXPECT_THAT(refusal(conv_transpose, {x, f32({6, 8, 1, 1})}, ConvAttrs{.pads = {2, 0, 2, 0}}), HasSubstr("cut away the whole output"));
}

TEST(Gemm, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal(gemm, {f32({2, 3}), f32({4, 5})}, GemmAttrs{}), HasSubstr("a has 3 columns and b 4 rows"));
  EXPECT_THAT(refusal(gemm, {f32({2, 3}), f32({3})}, GemmAttrs{}), HasSubstr("input 1: want rank 2 or more"));
  EXPECT_THAT(refusal(gemm, {f32({2, 2, 3}), f32({3, 3, 5})}, GemmAttrs{}), HasSubstr("axis 0 of the batch: 2 and 3 do not broadcast"));
  EXPECT_THAT(refusal(gemm, {f32({2, 3}), f32({3, 5}), f32({2, 4})}, GemmAttrs{.epilogue = {.residual = true}}),
              HasSubstr("input 2 (residual): want axis 1 of 5"));
}

TEST(Sdpa, RefusesWhatDoesNotFit) {
  const SdpaAttrs two{.heads = 2, .kv_heads = 2, .mask = true};
  EXPECT_THAT(refusal(sdpa, {f32({1, 3, 8}), f32({1, 5, 8}), f32({1, 5, 8}), f32({1, 1, 3, 4})}, two),
              HasSubstr("sdpa: input 3 (mask): want axis 3 of 5"));
  EXPECT_THAT(refusal(sdpa, {f32({1, 3, 9}), f32({1, 5, 8}), f32({1, 5, 8}), f32({1, 1, 1, 1})}, two), HasSubstr("whole heads"));
  EXPECT_THAT(refusal(sdpa, {}, two), HasSubstr("want 4 inputs, got 0"));
}

}  // namespace
}  // namespace headrace::ops
