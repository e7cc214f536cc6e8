// Fourier transforms, windows and the mel scale.
#include <algorithm>
#include <numbers>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"
#include "onnx/tensor_proto.h"

namespace headrace::onnx {
namespace {

using Complex = std::complex<double>;

// The transform of `count` elements, `step` apart, by their smallest factor first. roots[i] = exp(-+2 pi i / roots.size()).
void transform(const Complex* from, size_t count, size_t step, const std::vector<Complex>& roots, Complex* to) {
  if (count == 1) {
    *to = *from;
    return;
  }
  size_t factor = 2;
  while (factor * factor <= count && count % factor != 0) ++factor;
  if (count % factor != 0) factor = count;
  const size_t part = count / factor, turn = roots.size() / count;
  std::vector<Complex> parts(count);
  for (size_t f = 0; f < factor; ++f) transform(from + f * step, part, step * factor, roots, parts.data() + f * part);
  for (size_t k = 0; k < count; ++k) {
    Complex sum = 0;
    for (size_t f = 0; f < factor; ++f) sum += parts[f * part + k % part] * roots[f * k % count * turn];
    to[k] = sum;
  }
}

std::vector<Complex> roots_of(size_t count, bool inverse) {
  std::vector<Complex> roots(count);
  for (size_t i = 0; i < count; ++i) {
    roots[i] = std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(i) / static_cast<double>(count));
  }
  return roots;
}

Result<int64_t> one_integer(const OpContext& context, int index, std::string_view name) {
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> values, context.integers(index));
  if (values.size() != 1) return error(Code::malformed, "{}: want one integer, got {}", name, values.size());
  return values[0];
}

Status dft(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t inverse, context.integer("inverse", 0));
  HR_ASSIGN_OR_RETURN(const int64_t onesided, context.integer("onesided", 0));
  const int rank = input->rank();
  if (rank < 2 || (input->dims().back() != 1 && input->dims().back() != 2)) {
    return make_status(Code::malformed, "input: want [..., 1] or [..., 2], got [{}]", fmt::join(input->dims(), ", "));
  }
  int64_t given = -2;
  if (context.opset() < 20) {
    HR_ASSIGN_OR_RETURN(given, context.integer("axis", 1));
  } else if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(given, one_integer(context, 2, "axis"));
  }
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, rank));
  if (axis == rank - 1) return make_status(Code::malformed, "axis: the last one holds complex numbers");
  const bool complex = input->dims().back() == 2, to_real = inverse != 0 && onesided != 0;
  if (onesided != 0 && inverse == 0 && complex) return make_status(Code::malformed, "onesided: want a real input");
  if (to_real && !complex) return make_status(Code::malformed, "onesided and inverse: want a complex input");
  const std::span<const int64_t> dims = input->dims();
  const auto at_axis = static_cast<size_t>(axis);
  int64_t length = to_real ? 2 * (dims[at_axis] - 1) : dims[at_axis];
  if (context.has_input(1)) {
    HR_ASSIGN_OR_RETURN(length, one_integer(context, 1, "dft_length"));
  }
  if (length < 1 || length > kMaxElements) return make_status(Code::malformed, "dft_length: want 1 or more, got {}", length);
  Dims result = input->dims();
  result[at_axis] = onesided != 0 && inverse == 0 ? length / 2 + 1 : length;
  result.back() = to_real ? 1 : 2;
  const int64_t outer = product(dims.first(at_axis)), own = dims[at_axis],
                inner = product(dims.subspan(at_axis + 1, dims.size() - at_axis - 2));
  const int64_t parts = dims.back(), given_count = std::min(own, to_real ? length / 2 + 1 : length), results = result[at_axis];
  HR_ASSIGN_OR_RETURN(const Numbers<double> x, Numbers<double>::of(*input));
  HR_ASSIGN_OR_RETURN(std::vector<double> y, buffer<double>(context, result));
  if (y.empty()) return put(context, 0, input->dtype(), result, y);
  const std::vector<Complex> roots = roots_of(static_cast<size_t>(length), inverse != 0);
  std::vector<Complex> from(static_cast<size_t>(length)), to(from.size());
  const double factor = inverse != 0 ? 1 / static_cast<double>(length) : 1;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      std::ranges::fill(from, Complex(0));
      for (int64_t k = 0; k < given_count; ++k) {
        const int64_t at = ((o * own + k) * inner + i) * parts;
        from[static_cast<size_t>(k)] = Complex(x[at], complex ? x[at + 1] : 0);
        // The other half is the mirror image.
        if (to_real && k > 0 && 2 * k < length) from[static_cast<size_t>(length - k)] = std::conj(from[static_cast<size_t>(k)]);
      }
      if (to_real) {
        from[0] = from[0].real();
        if (length % 2 == 0) from[static_cast<size_t>(length / 2)] = from[static_cast<size_t>(length / 2)].real();
      }
      transform(from.data(), from.size(), 1, roots, to.data());
      for (int64_t k = 0; k < results; ++k) {
        double* out = y.data() + ((o * results + k) * inner + i) * result.back();
        out[0] = to[static_cast<size_t>(k)].real() * factor;
        if (!to_real) out[1] = to[static_cast<size_t>(k)].imag() * factor;
      }
    }
  }
  return put(context, 0, input->dtype(), result, y);
}

Status stft(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* signal, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t step, one_integer(context, 1, "frame_step"));
  HR_ASSIGN_OR_RETURN(const int64_t onesided, context.integer("onesided", 1));
  Dims dims = signal->dims();
  if (dims.size() == 2) dims.push_back(1);
  if (dims.size() != 3 || (dims[2] != 1 && dims[2] != 2)) {
    return make_status(Code::malformed, "signal: want [batch, length, 1 or 2], got [{}]", fmt::join(dims, ", "));
  }
  const bool complex = dims[2] == 2;
  const Tensor* window = nullptr;
  int64_t length = dims[1];
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(window, context.input(2));
    HR_RETURN_IF_ERROR(want_rank(*window, 1, "window"));
    length = window->dim(0);
  }
  if (context.has_input(3)) {
    HR_ASSIGN_OR_RETURN(length, one_integer(context, 3, "frame_length"));
    if (window != nullptr) HR_RETURN_IF_ERROR(want_dims(*window, {length}, "window"));
  }
  if (step < 1 || length < 1 || length > dims[1]) {
    return make_status(Code::malformed, "frames of {}, {} apart, of a signal of {}", length, step, dims[1]);
  }
  if (onesided != 0 && complex) return make_status(Code::malformed, "onesided: want a real signal");
  const int64_t frames = (dims[1] - length) / step + 1, bins = onesided != 0 ? length / 2 + 1 : length;
  const Dims result = {dims[0], frames, bins, 2};
  HR_ASSIGN_OR_RETURN(const Numbers<double> x, Numbers<double>::of(*signal));
  HR_ASSIGN_OR_RETURN(const Numbers<double> weights, numbers<double>(context, 2, true));
  HR_ASSIGN_OR_RETURN(std::vector<double> y, buffer<double>(context, result));
  if (y.empty()) return put(context, 0, signal->dtype(), result, y);
  const std::vector<Complex> roots = roots_of(static_cast<size_t>(length), false);
  std::vector<Complex> from(static_cast<size_t>(length)), to(from.size());
  double* out = y.data();
  for (int64_t b = 0; b < dims[0]; ++b) {
    for (int64_t f = 0; f < frames; ++f) {
      for (int64_t k = 0; k < length; ++k) {
        const int64_t at = (b * dims[1] + f * step + k) * dims[2];
        from[static_cast<size_t>(k)] = Complex(x[at], complex ? x[at + 1] : 0) * (weights.empty() ? 1 : weights[k]);
      }
      transform(from.data(), from.size(), 1, roots, to.data());
      for (int64_t k = 0; k < bins; ++k) {
        *out++ = to[static_cast<size_t>(k)].real();
        *out++ = to[static_cast<size_t>(k)].imag();
      }
    }
  }
  return put(context, 0, signal->dtype(), result, y);
}

// Doubles as the type that the attribute output_datatype numbers.
Status put_as(OpContext& context, const Dims& dims, const std::vector<double>& values) {
  HR_ASSIGN_OR_RETURN(const int64_t number, context.integer("output_datatype", 1));
  HR_ASSIGN_OR_RETURN(const DType dtype, read_dtype(number));
  if (dispatch_float(dtype, []<class T>() {})) return put(context, 0, dtype, dims, values);
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, dtype, dims));
  return typed(dispatch_integer(dtype, [&]<class T>() { std::ranges::transform(values, output->data<T>(), saturated<T>); }),
               dtype);
}

// a - b cos(2 pi i / n) + c cos(4 pi i / n)
template <class Coefficients>
Status cosine_window(OpContext& context, Coefficients coefficients) {
  HR_ASSIGN_OR_RETURN(const int64_t size, one_integer(context, 0, "size"));
  HR_ASSIGN_OR_RETURN(const int64_t periodic, context.integer("periodic", 1));
  HR_ASSIGN_OR_RETURN(std::vector<double> values, buffer<double>(context, {size}));
  const auto [a, b, c] = coefficients;
  const double period = static_cast<double>(periodic != 0 ? size : size - 1);
  for (int64_t i = 0; i < size; ++i) {
    const double angle = size == 1 ? 0 : 2 * std::numbers::pi * static_cast<double>(i) / period;
    values[static_cast<size_t>(i)] = a - b * std::cos(angle) + c * std::cos(2 * angle);
  }
  return put_as(context, {size}, values);
}

Status blackman_window(OpContext& context) { return cosine_window(context, std::array{0.42, 0.5, 0.08}); }
Status hamming_window(OpContext& context) { return cosine_window(context, std::array{25.0 / 46, 21.0 / 46, 0.0}); }
Status hann_window(OpContext& context) { return cosine_window(context, std::array{0.5, 0.5, 0.0}); }

Status mel_weight_matrix(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const int64_t bands, one_integer(context, 0, "num_mel_bins"));
  HR_ASSIGN_OR_RETURN(const int64_t length, one_integer(context, 1, "dft_length"));
  HR_ASSIGN_OR_RETURN(const int64_t rate, one_integer(context, 2, "sample_rate"));
  double edges[2];
  for (int i = 0; i < 2; ++i) {
    HR_ASSIGN_OR_RETURN(const Numbers<double> edge, numbers<double>(context, i + 3));
    if (context.value(i + 3).tensor()->elements() != 1) return make_status(Code::malformed, "input {}: want one number", i + 3);
    edges[i] = 2595 * std::log10(1 + edge[0] / 700);
    if (!(edge[0] >= 0) || !std::isfinite(edges[i])) {
      return make_status(Code::malformed, "input {}: want a frequency, got {}", i + 3, edge[0]);
    }
  }
  if (bands < 0 || length < 1 || length > kMaxElements || rate < 1) {
    return make_status(Code::malformed, "num_mel_bins {}, dft_length {}, sample_rate {}", bands, length, rate);
  }
  const int64_t bins = length / 2 + 1;
  HR_ASSIGN_OR_RETURN(std::vector<double> values, buffer<double>(context, {bins, bands}));
  // The corners of the triangles, as bins of the spectrum.
  std::vector<int64_t> corners(static_cast<size_t>(bands) + 2);
  const double step = (edges[1] - edges[0]) / static_cast<double>(bands + 2);
  for (size_t i = 0; i < corners.size(); ++i) {
    const double hertz = 700 * (std::pow(10, (edges[0] + static_cast<double>(i) * step) / 2595) - 1);
    corners[i] = saturated<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate)));
    if (corners[i] < 0 || corners[i] > bins) {
      return make_status(Code::malformed, "a band at {} Hz of a spectrum up to {} Hz", hertz, static_cast<double>(rate) / 2);
    }
  }
  for (int64_t band = 0; band < bands; ++band) {
    const auto at = static_cast<size_t>(band);
    const int64_t low = corners[at], center = corners[at + 1], high = corners[at + 2];
    const auto set = [&](int64_t bin, double value) {
      if (bin < bins) values[static_cast<size_t>(bin * bands + band)] = value;
    };
    if (low == center) set(center, 1);
    for (int64_t bin = low; low != center && bin <= center; ++bin) {
      set(bin, static_cast<double>(bin - low) / static_cast<double>(center - low));
    }
    for (int64_t bin = center; bin < high; ++bin) {
      set(bin, static_cast<double>(high - bin) / static_cast<double>(high - center));
    }
  }
  return put_as(context, {bins, bands}, values);
}

// ---- types

Status infer_dft(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t inverse, context.integer("inverse", 0));
  HR_ASSIGN_OR_RETURN(const int64_t onesided, context.integer("onesided", 0));
  HR_RETURN_IF_ERROR(want_rank_from(x, 2, "input"));
  std::optional<Shape> shape = x.shape;
  if (shape) {
    std::optional<int64_t> given = -2;
    if (context.opset() < 20) {
      HR_ASSIGN_OR_RETURN(given, context.integer("axis", 1));
    } else if (context.has_input(2)) {
      HR_ASSIGN_OR_RETURN(given, context.integer_input(2));
    }
    const bool to_real = inverse != 0 && onesided != 0;
    if (!given) {
      shape = unknown_shape(shape->size());
    } else {
      HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(*given, static_cast<int>(shape->size())));
      Dim& dim = (*shape)[static_cast<size_t>(axis)];
      std::optional<int64_t> length;
      if (context.has_input(1)) {
        HR_ASSIGN_OR_RETURN(length, context.integer_input(1));
        if (!length) dim = {};
      } else if (is_known(dim)) {
        length = to_real ? 2 * (std::min(dim.value, kMaxElements) - 1) : dim.value;
      } else if (onesided != 0) {
        dim = {};
      }
      if (length && (*length < 1 || *length > kMaxElements))
        return make_status(Code::malformed, "dft_length: want 1 or more, got {}", *length);
      if (length) dim = dim_of(onesided != 0 && inverse == 0 ? *length / 2 + 1 : *length);
    }
    shape->back() = dim_of(to_real ? 1 : 2);
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Status infer_stft(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact signal, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<int64_t> step, context.integer_input(1));
  HR_ASSIGN_OR_RETURN(const int64_t onesided, context.integer("onesided", 1));
  HR_RETURN_IF_ERROR(want_rank_from(signal, 2, "signal"));
  const Dim whole = signal.shape ? (*signal.shape)[1] : Dim();
  Dim length = whole;
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(const TensorFact window, context.input(2));
    HR_RETURN_IF_ERROR(want_rank(window, 1, "window"));
    length = window.shape ? (*window.shape)[0] : Dim();
  }
  if (context.has_input(3)) {
    HR_ASSIGN_OR_RETURN(const std::optional<int64_t> given, context.integer_input(3));
    if (given) length = *given < 0 ? Dim() : dim_of(*given);
    else if (!context.has_input(2)) length = {};
  }
  Dim frames, bins;
  if (is_known(length)) bins = dim_of(onesided != 0 ? length.value / 2 + 1 : length.value);
  if (step && is_known(length) && is_known(whole)) {
    if (*step < 1 || length.value < 1 || length.value > whole.value) {
      return make_status(Code::malformed, "frames of {}, {} apart, of a signal of {}", length.value, *step, whole.value);
    }
    frames = dim_of((whole.value - length.value) / *step + 1);
  }
  context.set(0, signal.dtype, Shape{signal.shape ? (*signal.shape)[0] : Dim(), frames, bins, dim_of(2)});
  return {};
}

Status infer_window(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const std::optional<int64_t> size, context.integer_input(0));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("output_datatype", DType::f32));
  if (size && *size < 0) return make_status(Code::malformed, "size: want none below 0, got {}", *size);
  context.set(0, dtype, Shape{size ? dim_of(*size) : Dim()});
  return {};
}

Status infer_mel_weight_matrix(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const std::optional<int64_t> bands, context.integer_input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<int64_t> length, context.integer_input(1));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("output_datatype", DType::f32));
  if ((bands && *bands < 0) || (length && *length < 1)) {
    return make_status(Code::malformed, "num_mel_bins {}, dft_length {}", bands.value_or(0), length.value_or(1));
  }
  context.set(0, dtype, Shape{length ? dim_of(*length / 2 + 1) : Dim(), bands ? dim_of(*bands) : Dim()});
  return {};
}

constexpr OpRow kRows[] = {
    {"BlackmanWindow", 17, blackman_window, infer_window},
    {"DFT", 17, dft, infer_dft},
    {"HammingWindow", 17, hamming_window, infer_window},
    {"HannWindow", 17, hann_window, infer_window},
    {"MelWeightMatrix", 17, mel_weight_matrix, infer_mel_weight_matrix},
    {"STFT", 17, stft, infer_stft},
};

}  // namespace

std::span<const OpRow> ops_signal() { return kRows; }

}  // namespace headrace::onnx
