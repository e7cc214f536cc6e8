#pragma once
// NumPy's .npy files, versions 1 to 3: tensors of the types that numpy has itself, little-endian and in C order. Every byte may be wrong.
// Specification: numpy.lib.format.

#include <span>
#include <string>

#include "base/status.h"
#include "onnx/tensor.h"

namespace headrace::onnx {

// Errors: malformed, unsupported (Fortran order, big-endian, text, objects).
Result<Tensor> parse_npy(std::span<const std::byte> bytes);
// Errors: unsupported for types that numpy lacks (bf16, floats of a byte, integers below a byte, strings).
Result<std::string> npy_bytes(const Tensor& tensor);

}  // namespace headrace::onnx
