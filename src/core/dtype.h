#pragma once
// Element types of activations and metadata tensors. Packed weight formats are quant/format.h's.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headrace {

enum class DType : uint8_t { f32, f16, bf16, i8, u8, i32, i64, boolean };

constexpr size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::i64: return 8;
    case DType::i8:
    case DType::u8:
    case DType::boolean: return 1;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::i8: return "i8";
    case DType::u8: return "u8";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::boolean: return "bool";
  }
  return "?";
}

constexpr bool is_float(DType dtype) { return dtype <= DType::bf16; }

}  // namespace headrace
