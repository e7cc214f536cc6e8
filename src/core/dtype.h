#pragma once
// Element types of tensors. Packed weight formats are quant/format.h's. The language models' programs use the first eight; ONNX
// models bring the others.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headrace {

enum class DType : uint8_t {
  f32, f16, bf16, i8, u8, i32, i64, boolean,
  f64, i16, u16, u32, u64,
  f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0,  // codes of a byte
  f4e2m1, i4, u4, i2, u2,                            // unpacked: an element a byte
  c64, c128,
  string,                                            // on the host alone; no bytes
};

constexpr size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16: return 2;
    case DType::i64:
    case DType::u64:
    case DType::f64:
    case DType::c64: return 8;
    case DType::c128: return 16;
    case DType::string: return 0;
    default: return 1;
  }
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
    case DType::f64: return "f64";
    case DType::i16: return "i16";
    case DType::u16: return "u16";
    case DType::u32: return "u32";
    case DType::u64: return "u64";
    case DType::f8e4m3fn: return "f8e4m3fn";
    case DType::f8e4m3fnuz: return "f8e4m3fnuz";
    case DType::f8e5m2: return "f8e5m2";
    case DType::f8e5m2fnuz: return "f8e5m2fnuz";
    case DType::f8e8m0: return "f8e8m0";
    case DType::f4e2m1: return "f4e2m1";
    case DType::i4: return "i4";
    case DType::u4: return "u4";
    case DType::i2: return "i2";
    case DType::u2: return "u2";
    case DType::c64: return "c64";
    case DType::c128: return "c128";
    case DType::string: return "string";
  }
  return "?";
}

constexpr bool is_float(DType dtype) { return dtype <= DType::bf16; }

}  // namespace headrace
