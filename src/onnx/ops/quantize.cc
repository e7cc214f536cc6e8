// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

// Which scale an element has: one for all, one for each place along an axis, or one for a block along an axis.
struct Granularity {
  int64_t inner = 1, length = 1, scales = 1, block = 1;  // `inner`: elements behind the axis, `scales`: along it
  enum class Kind : uint8_t { tensor, axis, block } kind = Kind::tensor;

  size_t scale_of(int64_t element) const {
    const int64_t at = element / inner % length;
    if (kind == Kind::tensor) return 0;
    if (kind == Kind::axis) return static_cast<size_t>(at);
    return static_cast<size_t>((element / inner / length * scales + at / block) * inner + element % inner);
  }
};

Result<Granularity> granularity_of(const OpContext& context, const Tensor& x, const Tensor& scale) {
  HR_ASSIGN_OR_RETURN(const int64_t block, context.integer("block_size", 0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 1));
  Granularity granularity;
  if (block < 0) return error(Code::malformed, "block_size: want none below 0, got {}", block);
  if (block == 0 && scale.rank() <= 1 && scale.elements() == 1) return granularity;
  if (x.rank() == 0) return error(Code::malformed, "a scalar with scales [{}]", fmt::join(scale.dims(), ", "));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(x.rank() == 1 ? 0 : given, x.rank()));
  granularity.inner = std::max<int64_t>(product(x.dims(), axis + 1, x.rank()), 1);
  granularity.length = std::max<int64_t>(x.dim(axis), 1);
  if (block == 0) {
    granularity.kind = Granularity::Kind::axis;
    if (scale.rank() == 1 && scale.elements() == x.dim(axis)) return granularity;
    return error(Code::malformed, "scales: want one, or {} of them for axis {}, got [{}]", x.dim(axis), axis,
                 fmt::join(scale.dims(), ", "));
  }
  granularity.kind = Granularity::Kind::block;
  granularity.block = block;
  Dims wanted = x.dims();
  int64_t& along = wanted[static_cast<size_t>(axis)];
  along = along / block + (along % block != 0 ? 1 : 0);
  if (scale.dims() != wanted) {
    return error(Code::malformed, "scales for blocks of {} on axis {}: want [{}], got [{}]", block, axis,
                 fmt::join(wanted, ", "), fmt::join(scale.dims(), ", "));
  }
  granularity.scales = along;
  return granularity;
}

// What reads an element as double; none of the types that these operators take loses anything.
using Reader = double (*)(const Tensor&, int64_t);
Result<Reader> reader_of(const Tensor& tensor, const char* what) {
  Reader reader = nullptr;
  const bool known = dispatch<float, double, f16, bf16, int32_t, int16_t, uint16_t, int8_t, uint8_t, i4, u4, i2, u2, f8e4m3fn,
                              f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1>(tensor.dtype(), [&]<class T>() {
    reader = [](const Tensor& from, int64_t i) { return static_cast<double>(worth(from.data<T>()[i])); };
  });
  if (!known) return error(Code::malformed, "{}: does not take {}", what, dtype_name(tensor.dtype()));
  return reader;
}

Result<std::vector<double>> numbers_of(const Tensor& tensor, const char* what) {
  HR_ASSIGN_OR_RETURN(const Reader reader, reader_of(tensor, what));
  std::vector<double> numbers;
  for (int64_t i = 0; i < tensor.elements(); ++i) numbers.push_back(reader(tensor, i));
  return numbers;
}

// The scales, and the zero points under the same dims: zeros where the input is left out.
struct Parameters {
  Granularity granularity;
  std::vector<double> scales, zeros;
};
Result<Parameters> parameters_of(const OpContext& context, const Tensor& x) {
  HR_ASSIGN_OR_RETURN(const Tensor* scale, context.input(1));
  Parameters parameters;
  HR_ASSIGN_OR_RETURN(parameters.granularity, granularity_of(context, x, *scale));
  HR_ASSIGN_OR_RETURN(parameters.scales, numbers_of(*scale, "the scale"));
  parameters.zeros.assign(parameters.scales.size(), 0);
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(const Tensor* zero, context.input(2));
    if (zero->elements() != scale->elements() || (zero->rank() > 1 && zero->dims() != scale->dims())) {
      return error(Code::malformed, "zero points: want [{}], got [{}]", fmt::join(scale->dims(), ", "),
                   fmt::join(zero->dims(), ", "));
    }
    HR_ASSIGN_OR_RETURN(parameters.zeros, numbers_of(*zero, "the zero point"));
  }
  return parameters;
}

// The nearest value of a float type.
Result<double (*)(double)> rounding_to(DType dtype) {
  switch (dtype) {
    case DType::f64: return +[](double value) { return value; };
    case DType::f32: return +[](double value) { return static_cast<double>(static_cast<float>(value)); };
    case DType::f16: return +[](double value) { return static_cast<double>(to_float(from_double<f16>(value))); };
    case DType::bf16: return +[](double value) { return static_cast<double>(to_float(from_double<bf16>(value))); };
    default: return error(Code::malformed, "arithmetic in {}", dtype_name(dtype));
  }
}

bool is_quantized(DType dtype) {
  return dispatch<int8_t, uint8_t, int16_t, uint16_t, i4, u4, i2, u2, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f4e2m1>(
      dtype, []<class T>() {});
}

// The type in which x / scale is computed: `precision`, or the scale's; scales that only are powers of two or integers leave it
// to x.
Result<DType> division_type(const OpContext& context, const Tensor& x) {
  HR_ASSIGN_OR_RETURN(const Tensor* scale, context.input(1));
  DType dtype = scale->dtype();
  if (dtype == DType::f8e8m0) dtype = x.dtype();
  if (dtype == DType::i32) dtype = DType::f32;
  return context.dtype_attribute("precision", dtype);
}

Status quantize_linear(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Parameters parameters, parameters_of(context, *x));
  HR_ASSIGN_OR_RETURN(const Reader number, reader_of(*x, "x"));
  HR_ASSIGN_OR_RETURN(const int64_t saturate, context.integer("saturate", 1));
  HR_ASSIGN_OR_RETURN(const DType division, division_type(context, *x));
  HR_ASSIGN_OR_RETURN(const auto round, rounding_to(division));
  const DType from_zero = context.has_input(2) ? context.value(2).tensor()->dtype() : DType::u8;
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("output_dtype", from_zero));
  if (context.has_input(2) && dtype != from_zero) {
    return make_status(Code::malformed, "output_dtype is {}, the zero point {}", dtype_name(dtype), dtype_name(from_zero));
  }
  if (!is_quantized(dtype)) return make_status(Code::malformed, "quantization to {}", dtype_name(dtype));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, dtype, x->dims()));
  dispatch_real(dtype, [&]<class T>() {
    for (int64_t i = 0; i < output->elements(); ++i) {
      const size_t s = parameters.granularity.scale_of(i);
      const double quotient = round(round(number(*x, i)) / round(parameters.scales[s]));
      const double whole = kIsCode<T> ? quotient : std::nearbyint(quotient);
      output->data<T>()[i] = from_double<T>(whole + parameters.zeros[s], saturate != 0);
    }
  });
  return {};
}

Status dequantize_linear(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* scale, context.input(1));
  HR_ASSIGN_OR_RETURN(const Parameters parameters, parameters_of(context, *x));
  if (context.has_input(2) && context.value(2).tensor()->dtype() != x->dtype()) {
    return make_status(Code::malformed, "zero point: want {}, got {}", dtype_name(x->dtype()),
                       dtype_name(context.value(2).tensor()->dtype()));
  }
  if (!is_quantized(x->dtype()) && x->dtype() != DType::i32) return wrong_type(x->dtype());
  HR_ASSIGN_OR_RETURN(const Reader number, reader_of(*x, "x"));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("output_dtype", scale->dtype()));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, dtype, x->dims()));
  // The difference in float, the product rounded once: an f16 would overflow before its scale.
  const bool known = dispatch<float, f16, bf16>(dtype, [&]<class T>() {
    for (int64_t i = 0; i < output->elements(); ++i) {
      const size_t s = parameters.granularity.scale_of(i);
      const auto difference = static_cast<float>(number(*x, i) - parameters.zeros[s]);
      output->data<T>()[i] = from_double<T>(static_cast<double>(difference) * parameters.scales[s]);
    }
  });
  return known ? Status() : make_status(Code::malformed, "dequantization to {}", dtype_name(dtype));
}

Status dynamic_quantize_linear(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  if (x->dtype() != DType::f32) return wrong_type(x->dtype());
  float low = 0, high = 0;
  for (const float value : x->values<float>()) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const float scale = (high - low) / 255;
  const auto zero =
      saturated<uint8_t>(std::nearbyint(static_cast<double>(-low / scale)));  // nothing but zeros: 0 / 0, which becomes 0
  HR_ASSIGN_OR_RETURN(Tensor output, make_numbers(context, DType::u8, x->dims()));
  for (int64_t i = 0; i < x->elements(); ++i) {
    output.data<uint8_t>()[i] =
        saturated<uint8_t>(static_cast<double>(std::nearbyint(x->data<float>()[i] / scale) + static_cast<float>(zero)));
  }
  context.set(0, std::move(output));
  context.set(1, Tensor::scalar(scale));
  context.set(2, Tensor::scalar(zero));
  return {};
}

// ---- types

Status infer_quantize_linear(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const TensorFact scale, context.input(1));
  std::optional<DType> dtype = DType::u8;
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(const TensorFact zero, context.input(2));
    dtype = zero.dtype;
  }
  if (context.has("output_dtype")) {
    HR_ASSIGN_OR_RETURN(dtype, context.dtype_attribute("output_dtype", dtype.value_or(DType::u8)));
  }
  context.set(0, dtype, x.shape);
  return {};
}

Status infer_dequantize_linear(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact scale, context.input(1));
  std::optional<DType> dtype = scale.dtype;
  if (context.has("output_dtype")) {
    HR_ASSIGN_OR_RETURN(dtype, context.dtype_attribute("output_dtype", dtype.value_or(DType::f32)));
  }
  context.set(0, dtype, x.shape);
  return {};
}

Status infer_dynamic_quantize_linear(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_dtype(x, DType::f32, "x"));
  context.set(0, DType::u8, x.shape);
  context.set(1, DType::f32, Shape());
  context.set(2, DType::u8, Shape());
  return {};
}

constexpr OpRow kRows[] = {
    {"DequantizeLinear", 10, dequantize_linear, infer_dequantize_linear},
    {"DynamicQuantizeLinear", 11, dynamic_quantize_linear, infer_dynamic_quantize_linear},
    {"QuantizeLinear", 10, quantize_linear, infer_quantize_linear},
};

}  // namespace

std::span<const OpRow> ops_quantize() { return kRows; }

}  // namespace headrace::onnx
