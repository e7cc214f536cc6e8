// Elementwise operators of one tensor, Clip and Dropout.
#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"

namespace headrace::onnx {
namespace {

// Output 0 gets op of each element, which is a T, as an R.
template <class T, class R, class Op>
Status map(OpContext& context, const Tensor& input, Op op) {
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DTypeOf<R>::value, input.dims()));
  const T* from = input.data<T>();
  R* to = output->data<R>();
  for (int64_t i = 0; i < input.elements(); ++i) to[i] = op(from[i]);
  return {};
}

// Float types alone: op is given a float or a double.
template <class Op>
Status map_float(OpContext& context, Op op) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  Status status;
  const bool known = dispatch_float(input->dtype(), [&]<class T>() {
    status = map<T, T>(context, *input, [&](T x) { return narrow<T>(static_cast<Wide<T>>(op(widen(x)))); });
  });
  return known ? status : unknown_type(input->dtype());
}

// All numbers: op is given the widened element.
template <class Op>
Status map_number(OpContext& context, Op op) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  Status status;
  const bool known = dispatch_number(input->dtype(), [&]<class T>() {
    status = map<T, T>(context, *input, [&](T x) { return narrow<T>(static_cast<Wide<T>>(op(widen(x)))); });
  });
  return known ? status : unknown_type(input->dtype());
}

template <class W>
W sigmoid(W x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const W e = std::exp(x);
  return e / (1 + e);
}
template <class W>
W softplus(W x) {
  return std::max(x, W{0}) + std::log1p(std::exp(-std::abs(x)));
}

#define HR_UNARY(name, expression) \
  Status name(OpContext& context) { return map_float(context, []<class W>(W x) -> W { return expression; }); }
HR_UNARY(acos, std::acos(x))
HR_UNARY(acosh, std::acosh(x))
HR_UNARY(asin, std::asin(x))
HR_UNARY(asinh, std::asinh(x))
HR_UNARY(atan, std::atan(x))
HR_UNARY(atanh, std::atanh(x))
HR_UNARY(ceil, std::ceil(x))
HR_UNARY(cos, std::cos(x))
HR_UNARY(cosh, std::cosh(x))
HR_UNARY(erf, std::erf(x))
HR_UNARY(exp, std::exp(x))
HR_UNARY(floor, std::floor(x))
HR_UNARY(hard_swish, x * std::clamp(x / 6 + W(0.5), W{0}, W{1}))
HR_UNARY(log, std::log(x))
HR_UNARY(mish, x * std::tanh(softplus(x)))
HR_UNARY(reciprocal, 1 / x)
HR_UNARY(round, std::nearbyint(x))
HR_UNARY(sigmoid, sigmoid<W>(x))
HR_UNARY(sin, std::sin(x))
HR_UNARY(sinh, std::sinh(x))
HR_UNARY(softplus, softplus<W>(x))
HR_UNARY(softsign, x / (1 + std::abs(x)))
HR_UNARY(sqrt, std::sqrt(x))
HR_UNARY(tan, std::tan(x))
HR_UNARY(tanh, std::tanh(x))
#undef HR_UNARY

Status abs(OpContext& context) {
  return map_number(context, []<class W>(W x) -> W {
    if constexpr (std::is_floating_point_v<W>) return std::abs(x);
    else if constexpr (std::is_signed_v<W>) return x < 0 ? wrap_sub(W{0}, x) : x;
    else return x;
  });
}

Status neg(OpContext& context) {
  return map_number(context, []<class W>(W x) -> W {
    if constexpr (std::is_floating_point_v<W>) return -x;
    else return wrap_sub(W{0}, x);
  });
}

Status relu(OpContext& context) {
  return map_number(context, []<class W>(W x) -> W { return x < 0 ? W{0} : x; });
}

Status sign(OpContext& context) {
  return map_number(context, []<class W>(W x) -> W { return is_nan(x) ? x : static_cast<W>((x > 0) - (x < 0)); });
}

Status bitwise_not(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  Status status;
  const bool known = dispatch_integer(
      input->dtype(), [&]<class T>() { status = map<T, T>(context, *input, [](T x) { return static_cast<T>(~x); }); });
  return known ? status : unknown_type(input->dtype());
}

Status logical_not(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  if (input->dtype() != DType::boolean) return unknown_type(input->dtype());
  return map<bool, bool>(context, *input, [](bool x) { return !x; });
}

Status celu(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 1));
  return map_float(context,
                   [&]<class W>(W x) -> W { return std::max(x, W{0}) + std::min<W>(alpha * std::expm1(x / alpha), 0); });
}

Status elu(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 1));
  return map_float(context, [&]<class W>(W x) -> W { return x < 0 ? alpha * std::expm1(x) : x; });
}

Status selu(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 1.67326319217681884765625f));
  HR_ASSIGN_OR_RETURN(const float gamma, context.number("gamma", 1.05070102214813232421875f));
  return map_float(context, [&]<class W>(W x) -> W { return gamma * (x > 0 ? x : alpha * std::expm1(x)); });
}

Status gelu(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const std::string approximate, context.text("approximate", "none"));
  if (approximate == "tanh") {
    return map_float(context, []<class W>(W x) -> W {
      return W(0.5) * x * (1 + std::tanh(W(0.79788456080286535588) * (x + W(0.044715) * x * x * x)));
    });
  }
  if (approximate != "none") return make_status(Code::malformed, "approximate: want none or tanh, got {}", approximate);
  return map_float(context, []<class W>(W x) -> W { return W(0.5) * x * (1 + std::erf(x * W(0.70710678118654752440))); });
}

Status hard_sigmoid(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 0.2f));
  HR_ASSIGN_OR_RETURN(const float beta, context.number("beta", 0.5f));
  return map_float(context, [&]<class W>(W x) -> W { return std::clamp<W>(alpha * x + beta, 0, 1); });
}

Status leaky_relu(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 0.01f));
  return map_float(context, [&]<class W>(W x) -> W { return x < 0 ? alpha * x : x; });
}

Status swish(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 1));
  return map_float(context, [&]<class W>(W x) -> W { return x * sigmoid<W>(alpha * x); });
}

Status swiglu(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 1));
  HR_ASSIGN_OR_RETURN(const Tensor* gate, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* linear, context.input(1));
  HR_RETURN_IF_ERROR(same_type(*gate, *linear));
  HR_RETURN_IF_ERROR(want_dims(*linear, gate->dims(), "B"));
  Status status;
  const bool known = dispatch_float(gate->dtype(), [&]<class T>() {
    status = zip<T, T, T>(context, *gate, *linear, [&](T a, T b) {
      const Wide<T> x = widen(a);
      return narrow<T>(x * sigmoid<Wide<T>>(alpha * x) * widen(b));
    });
  });
  return known ? status : unknown_type(gate->dtype());
}

Status thresholded_relu(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 1));
  return map_float(context, [&]<class W>(W x) -> W { return x > alpha ? x : W{0}; });
}

Status shrink(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float bias, context.number("bias", 0));
  HR_ASSIGN_OR_RETURN(const float lambda, context.number("lambd", 0.5f));
  return map_number(context, [&]<class W>(W x) -> W {
    const int side = x < -static_cast<double>(lambda) ? 1 : x > static_cast<double>(lambda) ? -1 : 0;
    if (side == 0) return 0;
    if constexpr (std::is_floating_point_v<W>) return x + static_cast<W>(side * bias);
    else return bias == 0 ? x : saturated<W>(static_cast<double>(x) + side * static_cast<double>(bias));
  });
}

// Bit patterns of NaN and of infinity in floats of a byte.
bool code_is_nan(f8e4m3fn x) { return (x.bits & 0x7F) == 0x7F; }
bool code_is_nan(f8e4m3fnuz x) { return x.bits == 0x80; }
bool code_is_nan(f8e5m2 x) { return (x.bits & 0x7F) > 0x7C; }
bool code_is_nan(f8e5m2fnuz x) { return x.bits == 0x80; }

Status is_nan_op(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  Status status;
  const bool known =
      dispatch_float(input->dtype(),
                     [&]<class T>() { status = map<T, bool>(context, *input, [](T x) { return std::isnan(widen(x)); }); }) ||
      dispatch<f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz>(
          input->dtype(), [&]<class T>() { status = map<T, bool>(context, *input, [](T x) { return code_is_nan(x); }); });
  return known ? status : unknown_type(input->dtype());
}

Status is_inf(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const int64_t negative, context.integer("detect_negative", 1));
  HR_ASSIGN_OR_RETURN(const int64_t positive, context.integer("detect_positive", 1));
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  Status status;
  const bool known = dispatch_float(input->dtype(),
                                    [&]<class T>() {
                                      status = map<T, bool>(context, *input, [&](T x) {
                                        const auto value = widen(x);
                                        return std::isinf(value) && (value > 0 ? positive : negative) != 0;
                                      });
                                    }) ||
                     dispatch<f8e5m2>(input->dtype(),
                                      [&]<class T>() {
                                        status = map<T, bool>(context, *input, [&](T x) {
                                          return (x.bits == 0x7C && positive != 0) || (x.bits == 0xFC && negative != 0);
                                        });
                                      }) ||
                     dispatch<f8e4m3fn, f8e4m3fnuz, f8e5m2fnuz>(
                         input->dtype(), [&]<class T>() { status = map<T, bool>(context, *input, [](T) { return false; }); });
  return known ? status : unknown_type(input->dtype());
}

// Bounds in attributes.
Status clip_6(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const float low, context.number("min", std::numeric_limits<float>::lowest()));
  HR_ASSIGN_OR_RETURN(const float high, context.number("max", std::numeric_limits<float>::max()));
  return map_float(context, [&]<class W>(W x) -> W { return std::min<W>(std::max<W>(x, low), high); });
}

Status clip(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  const Tensor* bounds[2] = {};
  for (int i = 0; i < 2; ++i) {
    if (!context.has_input(i + 1)) continue;
    HR_ASSIGN_OR_RETURN(bounds[i], context.input(i + 1));
    HR_RETURN_IF_ERROR(same_type(*input, *bounds[i]));
    if (bounds[i]->elements() != 1) return make_status(Code::malformed, "input {}: want a scalar", i + 1);
  }
  Status status;
  const bool known = dispatch_number(input->dtype(), [&]<class T>() {
    status = map<T, T>(context, *input, [&](T x) {
      Wide<T> value = widen(x);
      if (bounds[0] != nullptr) value = std::max(value, widen(*bounds[0]->data<T>()));
      if (bounds[1] != nullptr) value = std::min(value, widen(*bounds[1]->data<T>()));
      return narrow<T>(value);
    });
  });
  return known ? status : unknown_type(input->dtype());
}

// Inference: the output is the input and nothing is masked.
Status dropout(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(const Tensor* training, context.input(2));
    if (training->dtype() != DType::boolean || training->elements() != 1) {
      return make_status(Code::malformed, "training_mode: want one bool");
    }
    double ratio = 0.5;
    if (context.has_input(1)) {
      HR_ASSIGN_OR_RETURN(const Tensor* given, context.input(1));
      if (given->elements() != 1) return make_status(Code::malformed, "ratio: want one number, got {}", given->elements());
      HR_ASSIGN_OR_RETURN(const Numbers<double> value, Numbers<double>::of(*given));
      ratio = value[0];
    }
    if (*training->data<bool>() && ratio != 0) return make_status(Code::unsupported, "Dropout in training");
  }
  context.set(0, *input);
  if (context.wants_output(1)) {
    // Before opset 10 the mask has the type of the data.
    const DType dtype = context.opset() < 10 ? input->dtype() : DType::boolean;
    HR_ASSIGN_OR_RETURN(Tensor* mask, context.make(1, dtype, input->dims()));
    if (dtype == DType::boolean) std::fill_n(mask->data<bool>(), mask->elements(), true);
    else
      return typed(dispatch_float(dtype, [&]<class T>() { std::fill_n(mask->data<T>(), mask->elements(), narrow<T>(1.0f)); }),
                   dtype);
  }
  return {};
}

// ---- types

Status infer_not(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_dtype(x, DType::boolean, "input 0"));
  return infer_bool(context);
}

Status infer_swiglu(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact gate, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact linear, context.input(1));
  HR_ASSIGN_OR_RETURN(const auto dtype, same_dtype(gate, linear));
  std::optional<Shape> shape = gate.shape ? gate.shape : linear.shape;
  if (gate.shape && linear.shape) {
    HR_ASSIGN_OR_RETURN(shape, agreed(*gate.shape, *linear.shape, "B"));
  }
  context.set(0, dtype, std::move(shape));
  return {};
}

Status infer_clip(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  for (int i = 1; i <= 2; ++i) {
    if (!context.has_input(i)) continue;
    HR_ASSIGN_OR_RETURN(const TensorFact bound, context.input(i));
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const auto dtype, same_dtype(x, bound));
  }
  return infer_same(context);
}

Status infer_dropout(InferContext& context) {
  HR_RETURN_IF_ERROR(infer_same(context));
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  context.set(1, context.opset() < 10 ? x.dtype : DType::boolean, x.shape);
  return {};
}

constexpr OpRow kRows[] = {
    {"Abs", 6, abs, infer_same},
    {"Acos", 7, acos, infer_same},
    {"Acosh", 9, acosh, infer_same},
    {"Asin", 7, asin, infer_same},
    {"Asinh", 9, asinh, infer_same},
    {"Atan", 7, atan, infer_same},
    {"Atanh", 9, atanh, infer_same},
    {"BitwiseNot", 18, bitwise_not, infer_same},
    {"Ceil", 6, ceil, infer_same},
    {"Celu", 12, celu, infer_same},
    {"Clip", 6, clip_6, infer_same},
    {"Clip", 11, clip, infer_clip},
    {"Cos", 7, cos, infer_same},
    {"Cosh", 9, cosh, infer_same},
    {"Dropout", 7, dropout, infer_dropout},
    {"Elu", 6, elu, infer_same},
    {"Erf", 9, erf, infer_same},
    {"Exp", 6, exp, infer_same},
    {"Floor", 6, floor, infer_same},
    {"Gelu", 20, gelu, infer_same},
    {"HardSigmoid", 6, hard_sigmoid, infer_same},
    {"HardSwish", 14, hard_swish, infer_same},
    {"IsInf", 10, is_inf, infer_bool},
    {"IsNaN", 9, is_nan_op, infer_bool},
    {"LeakyRelu", 6, leaky_relu, infer_same},
    {"Log", 6, log, infer_same},
    {"Mish", 18, mish, infer_same},
    {"Neg", 6, neg, infer_same},
    {"Not", 1, logical_not, infer_not},
    {"Reciprocal", 6, reciprocal, infer_same},
    {"Relu", 6, relu, infer_same},
    {"Round", 11, round, infer_same},
    {"Selu", 6, selu, infer_same},
    {"Shrink", 9, shrink, infer_same},
    {"Sigmoid", 6, sigmoid, infer_same},
    {"Sign", 9, sign, infer_same},
    {"Sin", 7, sin, infer_same},
    {"Sinh", 9, sinh, infer_same},
    {"Softplus", 1, softplus, infer_same},
    {"Softsign", 1, softsign, infer_same},
    {"Sqrt", 6, sqrt, infer_same},
    {"SwiGLU", 28, swiglu, infer_swiglu},
    {"Swish", 24, swish, infer_same},
    {"Tan", 7, tan, infer_same},
    {"Tanh", 6, tanh, infer_same},
    {"ThresholdedRelu", 10, thresholded_relu, infer_same},
};

}  // namespace

std::span<const OpRow> ops_unary() { return kRows; }

}  // namespace headrace::onnx
