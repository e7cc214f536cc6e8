#pragma once
// Compares values of ONNX models with a reference's.

#include <string>

#include "onnx/tensor.h"

namespace headrace::testing {

struct OnnxTolerance {
  double relative = 1e-3, absolute = 1e-7;  // those of ONNX's backend tests
};

// Empty when `got` is `want`: the same kind, element type and dims; floats within the tolerance (bf16 within two of its steps at least,
// as ONNX's runner has it), all else equal. NaN equals NaN. Else the first difference.
std::string onnx_difference(const onnx::Value& got, const onnx::Value& want, OnnxTolerance tolerance);

}  // namespace headrace::testing
