// Quantized numbers. Operators on them become what they mean: dequantized operands, an operator of floats, its result quantized. The pass
// fuse_qdq then makes 8-bit arithmetic of it.
#include <algorithm>

#include "onnx/lower.h"
#include "onnx/ops/window.h"
#include "ops/gemm.h"
#include "ops/quantize_linear.h"

namespace headrace::onnx {
namespace {

// The operands of a quantize_linear or dequantize_linear behind its first one.
struct Parameters {
  int32_t axis = 0;
  ValueId scale = kNone, zero = kNone;
};

// Scale and zero point at these inputs, for `x_dims`: one, or one for each place of `axis`. A zero point that is left out is 0 in `dtype`.
std::optional<Parameters> parameters_of(LowerContext& context, int scale, int zero, int64_t axis, const Dims& x_dims, DType dtype) {
  if (context.dtype(scale) != DType::f32 || context.rank(scale) > 1) return std::nullopt;
  const int64_t count = context.rank(scale) == 0 ? 1 : context.dims(scale)[0];
  if (count != 1) {
    const Result<int> at = normalize_axis(x_dims.size() == 1 ? 0 : axis, static_cast<int>(x_dims.size()));
    if (!at || x_dims[static_cast<size_t>(*at)] != count) return std::nullopt;
    axis = *at;
  }
  Parameters parameters{.axis = count == 1 ? 0 : static_cast<int32_t>(axis), .scale = context.reshape(context.input(scale), {count})};
  if (context.has_input(zero)) {
    const Dims dims = context.dims(zero);
    if (context.dtype(zero) != dtype || dims.size() > 1 || (dims.empty() ? 1 : dims[0]) != count) return std::nullopt;
    parameters.zero = context.reshape(context.input(zero), {count});
  } else {
    const std::vector<double> zeros(static_cast<size_t>(count), 0.0);
    parameters.zero = context.builder().graph.add_constant("zero", dtype, {count}, zeros);
  }
  return parameters;
}

ValueId emit(LowerContext& context, const Op& op, ValueId x, const Parameters& parameters) {
  return context.emit(op, ops::QuantizeLinearAttrs{parameters.axis}, {x, parameters.scale, parameters.zero});
}

// The axis of a node without blocks; nothing for others.
std::optional<int64_t> axis_of(const LowerContext& context) {
  const Result<int64_t> axis = context.integer("axis", 1), block = context.integer("block_size", 0);
  return axis && block && *block == 0 ? std::optional(*axis) : std::nullopt;
}

bool quantize(LowerContext& context) {
  const auto axis = axis_of(context);
  const DType dtype = context.output_dtype(0);
  const Result<DType> precision = context.dtype_attribute("precision", DType::f32);
  if (!axis || !precision || *precision != DType::f32 || context.dtype(0) != DType::f32 || !ops::is_8_bit(dtype)) return false;
  const auto parameters = parameters_of(context, 1, 2, *axis, context.dims(0), dtype);
  if (!parameters) return false;
  context.set(0, emit(context, ops::quantize_linear, context.input(0), *parameters));
  return true;
}

bool dequantize(LowerContext& context) {
  const auto axis = axis_of(context);
  const DType dtype = context.dtype(0);
  if (!axis || context.output_dtype(0) != DType::f32 || (!ops::is_8_bit(dtype) && dtype != DType::i32)) return false;
  const auto parameters = parameters_of(context, 1, 2, *axis, context.dims(0), dtype);
  if (!parameters) return false;
  context.set(0, emit(context, ops::dequantize_linear, context.input(0), *parameters));
  return true;
}

// Input `index` and the two behind it, its scale and zero point, as floats.
ValueId operand(LowerContext& context, int index, int64_t axis) {
  if (!ops::is_8_bit(context.dtype(index))) return kNone;
  const auto parameters = parameters_of(context, index + 1, index + 2, axis, context.dims(index), context.dtype(index));
  return parameters ? emit(context, ops::dequantize_linear, context.input(index), *parameters) : kNone;
}

bool has_one(const LowerContext& context, std::initializer_list<int> inputs) {
  return std::ranges::all_of(inputs, [&](int index) { return context.rank(index) == 0 || context.dims(index) == Dims{1}; });
}

// `y`, quantized by inputs 6 and 7, is output 0.
bool set_quantized(LowerContext& context, ValueId y) {
  const auto parameters = parameters_of(context, 6, 7, 0, context.output_dims(0), context.output_dtype(0));
  if (!parameters) return false;
  context.set(0, emit(context, ops::quantize_linear, y, *parameters));
  return true;
}

bool qlinear_matmul(LowerContext& context) {
  // Scales by row and column, of batches too: the host knows them.
  if (!has_one(context, {1, 2, 4, 5, 6, 7}) || context.rank(0) < 2 || context.rank(3) < 2) return false;
  if (!ops::is_8_bit(context.output_dtype(0))) return false;
  const ValueId a = operand(context, 0, 0), b = operand(context, 3, 0);
  return a != kNone && b != kNone && set_quantized(context, context.emit(ops::gemm, ops::GemmAttrs{}, {a, b}));
}

// i32 of the scale of x times that of w, both constants: what a sum of products is in.
std::optional<ValueId> bias_of(LowerContext& context) {
  if (!context.has_input(8)) return kNone;
  const Tensor *bias = context.constant(8), *x_scale = context.constant(1), *w_scale = context.constant(4);
  if (bias == nullptr || bias->dtype() != DType::i32 || bias->rank() != 1 || x_scale == nullptr || w_scale == nullptr) return std::nullopt;
  if (w_scale->elements() != 1 && w_scale->elements() != bias->elements()) return std::nullopt;  // the host says what is wrong
  std::vector<double> values;
  for (int64_t i = 0; i < bias->elements(); ++i) {
    const float w = w_scale->data<float>()[w_scale->elements() == 1 ? 0 : i];
    const double scale = static_cast<double>(x_scale->data<float>()[0]) * static_cast<double>(w);
    values.push_back(static_cast<double>(bias->data<int32_t>()[i]) * scale);
  }
  return context.constant_f32({bias->elements()}, values);
}

bool qlinear_conv(LowerContext& context) {
  if (!has_one(context, {1, 2, 6, 7}) || !ops::is_8_bit(context.output_dtype(0))) return false;
  const ValueId x = operand(context, 0, 0), weight = operand(context, 3, 0);
  if (x == kNone || weight == kNone) return false;
  const auto bias = bias_of(context);
  if (!bias) return false;
  const ValueId y = emit_conv(context, x, weight, *bias);
  return y != kNone && set_quantized(context, y);
}

constexpr LowerRow kRows[] = {
    {"DequantizeLinear", dequantize},
    {"QLinearConv", qlinear_conv},
    {"QLinearMatMul", qlinear_matmul},
    {"QuantizeLinear", quantize},
};

}  // namespace

std::span<const LowerRow> lower_quantize();
std::span<const LowerRow> lower_quantize() { return kRows; }

}  // namespace headrace::onnx
