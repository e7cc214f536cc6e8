#pragma once
// Kernels here compute activations in float32: of the ops that also exist over bf16 they take the float32 form.

#include "kernels/cpu/isa.h"
#include "ops/op.h"

HR_BEGIN_KERNELS
namespace {

[[maybe_unused]] bool f32_only(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  const auto is_bf16 = [](const ValueType& type) { return type.kind == ValueType::Kind::tensor && type.dtype == DType::bf16; };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_bf16(inputs[i])) return false;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (is_bf16(outputs[i])) return false;
  }
  return true;
}

}  // namespace
HR_END_KERNELS
