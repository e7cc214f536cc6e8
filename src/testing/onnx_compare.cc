#include "testing/onnx_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace headrace::testing {
namespace {

using onnx::Tensor;
using onnx::Value;

bool close(double got, double want, OnnxTolerance tolerance) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return want == got;
  return std::fabs(got - want) <= tolerance.absolute + tolerance.relative * std::fabs(want);
}

// Codes of a byte: the same, or both NaN, or zeros of two signs where the type has them.
bool same_code(DType dtype, unsigned got, unsigned want) {
  const auto class_of = [&](unsigned code) -> unsigned {
    constexpr unsigned kNan = 256;
    const unsigned magnitude = code & 0x7F;
    switch (dtype) {
      case DType::f8e4m3fn: return magnitude == 0x7F ? kNan : magnitude == 0 ? 0 : code;
      case DType::f8e5m2: return magnitude > 0x7C ? kNan : magnitude == 0 ? 0 : code;
      case DType::f4e2m1: return (code & 7) == 0 ? 0 : code;
      default: return code;
    }
  };
  return class_of(got) == class_of(want);
}

// Each of these takes element `i` of both; what it returns is empty when they agree.
template <class T>
std::string element_difference(const T& got, const T& want, DType dtype, OnnxTolerance tolerance) {
  bool same = false;
  if constexpr (std::is_same_v<T, std::string>) {
    same = got == want;
    return same ? "" : fmt::format("want \"{}\", got \"{}\"", want, got);
  } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    if (std::is_same_v<T, bf16>) tolerance.relative = std::max(tolerance.relative, 0x1p-6);
    same = close(to_float(got), to_float(want), tolerance);
    return same ? "" : fmt::format("want {}, got {}", to_float(want), to_float(got));
  } else if constexpr (std::is_floating_point_v<T>) {
    same = close(got, want, tolerance);
    return same ? "" : fmt::format("want {}, got {}", want, got);
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    same = close(got.real(), want.real(), tolerance) && close(got.imag(), want.imag(), tolerance);
    return same ? "" : fmt::format("want {}+{}i, got {}+{}i", want.real(), want.imag(), got.real(), got.imag());
  } else if constexpr (std::is_integral_v<T>) {
    same = got == want;
    return same ? "" : fmt::format("want {}, got {}", want, got);
  } else {
    static_assert(sizeof(T) == 1);
    const auto code = [](const T& value) { return std::bit_cast<uint8_t>(value); };
    same = same_code(dtype, code(got), code(want));
    return same ? "" : fmt::format("want code {:#x}, got {:#x}", code(want), code(got));
  }
}

std::string tensor_difference(const Tensor& got, const Tensor& want, OnnxTolerance tolerance) {
  if (got.dtype() != want.dtype()) return fmt::format("want {}, got {}", dtype_name(want.dtype()), dtype_name(got.dtype()));
  if (got.dims() != want.dims()) return fmt::format("want dims [{}], got [{}]", fmt::join(want.dims(), ", "), fmt::join(got.dims(), ", "));
  std::string why;
  const bool known = onnx::dispatch<float, double, f16, bf16, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, bool,
                                    f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1, onnx::i4, onnx::u4, onnx::i2, onnx::u2,
                                    std::complex<float>, std::complex<double>, std::string>(want.dtype(), [&]<class T>() {
    int64_t first = -1, others = 0;
    for (int64_t i = 0; i < want.elements(); ++i) {
      std::string here = element_difference(got.data<T>()[i], want.data<T>()[i], want.dtype(), tolerance);
      if (here.empty()) continue;
      if (first >= 0) {
        ++others;
      } else {
        first = i;
        why = std::move(here);
      }
    }
    if (first >= 0) why = fmt::format("element {} of {}: {}, and {} others", first, want.elements(), why, others);
  });
  return known ? why : "an element type that nothing compares";
}

}  // namespace

std::string onnx_difference(const Value& got, const Value& want, OnnxTolerance tolerance) {
  constexpr const char* kKinds[] = {"nothing", "a tensor", "a sequence", "an optional"};
  if (got.what.index() != want.what.index()) return fmt::format("want {}, got {}", kKinds[want.what.index()], kKinds[got.what.index()]);
  if (const Tensor* tensor = want.tensor()) return tensor_difference(*got.tensor(), *tensor, tolerance);
  if (const onnx::Sequence* sequence = want.sequence()) {
    const std::vector<Tensor>& mine = got.sequence()->tensors;
    if (mine.size() != sequence->tensors.size()) return fmt::format("want {} tensors, got {}", sequence->tensors.size(), mine.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      const std::string why = tensor_difference(mine[i], sequence->tensors[i], tolerance);
      if (!why.empty()) return fmt::format("tensor {}: {}", i, why);
    }
    return {};
  }
  if (const onnx::Optional* optional = want.optional()) {
    const auto& mine = got.optional()->value;
    if ((mine == nullptr) != (optional->value == nullptr)) {
      return mine == nullptr ? "want an optional with a value, got an empty one" : "want an empty optional, got one with a value";
    }
    return mine == nullptr ? std::string() : onnx_difference(*mine, *optional->value, tolerance);
  }
  return {};
}

}  // namespace headrace::testing
