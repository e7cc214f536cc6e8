// Random numbers: counter-based (Philox 4x32-10, Salmon et al. 2011), so that element i of a seed is the same everywhere. A
// node without a seed takes the next of a process-wide count.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numbers>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}

  std::array<uint32_t, 4> block(uint64_t counter) const {
    std::array<uint32_t, 4> x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
    uint32_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53} * x[0], b = uint64_t{0xCD9E8D57} * x[2];
      x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(b), static_cast<uint32_t>(a >> 32) ^ x[3] ^ k1,
           static_cast<uint32_t>(a)};
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return x;
  }
  // In [0, 1), from 53 bits.
  double uniform(uint64_t index) const {
    const auto x = block(index);
    return static_cast<double>((uint64_t{x[0]} << 32 | x[1]) >> 11) * 0x1p-53;
  }
  // By Box and Muller.
  double normal(uint64_t index) const {
    const auto x = block(index);
    const double radius = (static_cast<double>((uint64_t{x[0]} << 32 | x[1]) >> 11) + 1) * 0x1p-53;  // (0, 1]
    const double turn = static_cast<double>((uint64_t{x[2]} << 32 | x[3]) >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * turn);
  }

 private:
  std::array<uint32_t, 2> key_;
};

Result<Generator> generator_of(const NodeReader& context) {
  static std::atomic<uint64_t> next{0};
  if (!context.has("seed")) return Generator(uint64_t{1} << 32 | (next++ & 0xFFFFFFFF));
  HR_ASSIGN_OR_RETURN(const float seed, context.number("seed", 0));
  return Generator(std::bit_cast<uint32_t>(seed));
}

// `draw(i)` for each element of an output of floats.
template <class F>
Status fill_floats(OpContext& context, DType dtype, const Dims& dims, F&& draw) {
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, dtype, dims));
  const bool known = dispatch<float, double, f16, bf16>(dtype, [&]<class T>() {
    for (int64_t i = 0; i < output->elements(); ++i) output->data<T>()[i] = from_double<T>(draw(static_cast<uint64_t>(i)));
  });
  return known ? Status() : make_status(Code::malformed, "dtype: want a float type, got {}", dtype_name(dtype));
}

Status fill_normal(OpContext& context, DType dtype, const Dims& dims) {
  HR_ASSIGN_OR_RETURN(const Generator generator, generator_of(context));
  HR_ASSIGN_OR_RETURN(const float mean, context.number("mean", 0));
  HR_ASSIGN_OR_RETURN(const float scale, context.number("scale", 1));
  return fill_floats(context, dtype, dims,
                     [&](uint64_t i) { return static_cast<double>(mean) + static_cast<double>(scale) * generator.normal(i); });
}

Status fill_uniform(OpContext& context, DType dtype, const Dims& dims) {
  HR_ASSIGN_OR_RETURN(const Generator generator, generator_of(context));
  HR_ASSIGN_OR_RETURN(const float low, context.number("low", 0));
  HR_ASSIGN_OR_RETURN(const float high, context.number("high", 1));
  return fill_floats(context, dtype, dims, [&](uint64_t i) {
    return static_cast<double>(low) + (static_cast<double>(high) - static_cast<double>(low)) * generator.uniform(i);
  });
}

template <Status (*fill_with)(OpContext&, DType, const Dims&)>
Status by_attributes(OpContext& context) {
  if (!context.has("shape")) return make_status(Code::malformed, "attribute shape: want dims, got none");
  HR_ASSIGN_OR_RETURN(const Dims dims, context.integers("shape", {}));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("dtype", DType::f32));
  return fill_with(context, dtype, dims);
}

template <Status (*fill_with)(OpContext&, DType, const Dims&)>
Status like_input(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("dtype", input->dtype()));
  return fill_with(context, dtype, input->dims());
}

Result<std::vector<double>> floats_of(const Tensor& tensor) {
  std::vector<double> values;
  const bool known = dispatch<float, double, f16, bf16>(tensor.dtype(), [&]<class T>() {
    for (const T value : tensor.values<T>()) values.push_back(static_cast<double>(worth(value)));
  });
  if (!known) return error(Code::malformed, "want floats, got {}", dtype_name(tensor.dtype()));
  return values;
}

Status bernoulli(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("dtype", input->dtype()));
  HR_ASSIGN_OR_RETURN(const Generator generator, generator_of(context));
  HR_ASSIGN_OR_RETURN(const std::vector<double> chances, floats_of(*input));
  const auto wrong = std::ranges::find_if(chances, [](double chance) { return !(chance >= 0 && chance <= 1); });
  if (wrong != chances.end()) return make_status(Code::malformed, "a probability of {}: want 0 to 1", *wrong);
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, dtype, input->dims()));
  const bool known = dispatch_real(dtype, [&]<class T>() {
    for (size_t i = 0; i < chances.size(); ++i)
      output->data<T>()[i] = from_double<T>(generator.uniform(i) < chances[i] ? 1 : 0);
  });
  return known ? Status() : wrong_type(dtype);
}

Status multinomial(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("dtype", DType::i32));
  HR_ASSIGN_OR_RETURN(const int64_t samples, context.integer("sample_size", 1));
  HR_ASSIGN_OR_RETURN(const Generator generator, generator_of(context));
  HR_ASSIGN_OR_RETURN(const std::vector<double> logs, floats_of(*input));
  if (input->rank() != 2 || input->dim(1) < 1)
    return make_status(Code::malformed, "want a tensor [batch, classes], got [{}]", fmt::join(input->dims(), ", "));
  if (dtype != DType::i32 && dtype != DType::i64)
    return make_status(Code::malformed, "dtype: want i32 or i64, got {}", dtype_name(dtype));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, dtype, {input->dim(0), samples}));
  const int64_t classes = input->dim(1);
  for (int64_t row = 0; row < input->dim(0); ++row) {
    const std::span<const double> own =
        std::span(logs).subspan(static_cast<size_t>(row * classes), static_cast<size_t>(classes));
    const double most = *std::ranges::max_element(own);
    std::vector<double> sums;
    double sum = 0;
    for (const double log : own) sums.push_back(sum += std::exp(log - most));
    if (!(sum > 0) || !std::isfinite(sum)) return make_status(Code::malformed, "row {}: no class has a probability", row);
    for (int64_t i = 0; i < samples; ++i) {
      const double at = generator.uniform(static_cast<uint64_t>(row * samples + i)) * sum;
      const int64_t chosen = std::min<int64_t>(std::ranges::upper_bound(sums, at) - sums.begin(), classes - 1);
      if (dtype == DType::i64) output->data<int64_t>()[row * samples + i] = chosen;
      else output->data<int32_t>()[row * samples + i] = static_cast<int32_t>(chosen);
    }
  }
  return {};
}

// ---- types

Status infer_by_attributes(InferContext& context) {
  if (!context.has("shape")) return make_status(Code::malformed, "attribute shape: want dims, got none");
  HR_ASSIGN_OR_RETURN(const Dims dims, context.integers("shape", {}));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("dtype", DType::f32));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, count_elements(dims));
  context.set(0, dtype, shape_of(dims));
  return {};
}

Status infer_like_input(InferContext& context) { return infer_same_with(context, "dtype"); }

Status infer_multinomial(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact input, context.input(0));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("dtype", DType::i32));
  HR_ASSIGN_OR_RETURN(const int64_t samples, context.integer("sample_size", 1));
  HR_RETURN_IF_ERROR(want_rank(input, 2, "input"));
  if (samples < 0) return make_status(Code::malformed, "sample_size: want none below 0, got {}", samples);
  context.set(0, dtype, Shape{input.shape ? (*input.shape)[0] : Dim(), dim_of(samples)});
  return {};
}

constexpr OpRow kRows[] = {
    {"Bernoulli", 15, bernoulli, infer_like_input, kNotPure},
    {"Multinomial", 7, multinomial, infer_multinomial, kNotPure},
    {"RandomNormal", 1, by_attributes<fill_normal>, infer_by_attributes, kNotPure},
    {"RandomNormalLike", 1, like_input<fill_normal>, infer_like_input, kNotPure},
    {"RandomUniform", 1, by_attributes<fill_uniform>, infer_by_attributes, kNotPure},
    {"RandomUniformLike", 1, like_input<fill_uniform>, infer_like_input, kNotPure},
};

}  // namespace

std::span<const OpRow> ops_random() { return kRows; }

}  // namespace headrace::onnx
