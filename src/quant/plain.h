#pragma once
// Formats that store one number an element, nothing shared: f32, f16, bf16, f64 and the integers. Decoding
// rounds to float32 (exact for all but f64, i32, i64); encoding rounds to nearest even.

#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/half.h"

namespace headrace {

// An element type's number in GGUF (-1: none) and name in safetensors.
struct PlainIds {
  int gguf_type;
  std::string_view safetensors;
};
template <class T>
inline constexpr PlainIds kPlainIds{-1, ""};
template <>
inline constexpr PlainIds kPlainIds<float>{0, "F32"};
template <>
inline constexpr PlainIds kPlainIds<f16>{1, "F16"};
template <>
inline constexpr PlainIds kPlainIds<bf16>{30, "BF16"};
template <>
inline constexpr PlainIds kPlainIds<double>{28, "F64"};
template <>
inline constexpr PlainIds kPlainIds<int8_t>{24, "I8"};
template <>
inline constexpr PlainIds kPlainIds<int16_t>{25, "I16"};
template <>
inline constexpr PlainIds kPlainIds<int32_t>{26, "I32"};
template <>
inline constexpr PlainIds kPlainIds<int64_t>{27, "I64"};
template <>
inline constexpr PlainIds kPlainIds<uint8_t>{-1, "U8"};
template <>
inline constexpr PlainIds kPlainIds<uint16_t>{-1, "U16"};
template <>
inline constexpr PlainIds kPlainIds<uint32_t>{-1, "U32"};
template <>
inline constexpr PlainIds kPlainIds<uint64_t>{-1, "U64"};

template <class T>
struct PlainBlock {
  static constexpr int kGgufType = kPlainIds<T>.gguf_type;
  static constexpr std::string_view kSafetensors = kPlainIds<T>.safetensors;
  static constexpr int kElements = 1;
  T value;

  static void decode(const PlainBlock& block, float* out) {
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      *out = to_float(block.value);
    } else {
      *out = static_cast<float>(block.value);
    }
  }
  static void encode(const float* in, PlainBlock& block) requires(std::is_same_v<T, float> ||
                                                                  std::is_same_v<T, f16> ||
                                                                  std::is_same_v<T, bf16>) {
    if constexpr (std::is_same_v<T, f16>) {
      block.value = to_f16(*in);
    } else if constexpr (std::is_same_v<T, bf16>) {
      block.value = to_bf16(*in);
    } else {
      block.value = *in;
    }
  }
  bool finite() const {
    if constexpr (std::is_integral_v<T>) {
      return true;
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::isfinite(value);
    } else {
      return std::isfinite(to_float(value));
    }
  }
};

// One byte an element, 0 or 1.
struct BlockBool {
  static constexpr int kGgufType = -1;
  static constexpr std::string_view kSafetensors = "BOOL";
  static constexpr int kElements = 1;
  uint8_t value;

  static void decode(const BlockBool& block, float* out) { *out = block.value != 0 ? 1.0f : 0.0f; }
  bool finite() const { return true; }
};

}  // namespace headrace
