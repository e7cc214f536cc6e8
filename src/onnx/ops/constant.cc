// Values out of nothing: Constant, ConstantOfShape, Identity.
#include <cstring>

#include "onnx/op.h"

namespace headrace::onnx {
namespace {

Status constant(OpContext& context) {
  if (const Attribute* value = context.attribute("value")) {
    context.set(0, value->tensors.at(0));
  } else if (const Attribute* number = context.attribute("value_float")) {
    context.set(0, Tensor::scalar(number->number));
  } else if (const Attribute* numbers = context.attribute("value_floats")) {
    context.set(0, Tensor::of({static_cast<int64_t>(numbers->numbers.size())}, numbers->numbers));
  } else if (const Attribute* integer = context.attribute("value_int")) {
    context.set(0, Tensor::scalar(integer->integer));
  } else if (const Attribute* integers = context.attribute("value_ints")) {
    context.set(0, Tensor::of({static_cast<int64_t>(integers->integers.size())}, integers->integers));
  } else if (const Attribute* text = context.attribute("value_string")) {
    context.set(0, Tensor::scalar(text->text));
  } else if (const Attribute* texts = context.attribute("value_strings")) {
    context.set(0, Tensor::of({static_cast<int64_t>(texts->texts.size())}, texts->texts));
  } else {
    return make_status(Code::unsupported, "a constant without one of the attributes that hold a dense value");
  }
  return {};
}

Status constant_of_shape(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, context.integers(0));
  const Attribute* value = context.attribute("value");
  const Tensor fill = value == nullptr ? Tensor::scalar(0.0f) : value->tensors.at(0);
  if (fill.elements() != 1 || fill.dtype() == DType::string) return make_status(Code::malformed, "value: want one number");
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, fill.dtype(), dims));
  const size_t size = dtype_bytes(fill.dtype());
  for (int64_t i = 0; i < output->elements(); ++i) std::memcpy(output->raw() + static_cast<size_t>(i) * size, fill.raw(), size);
  return {};
}

Status identity(OpContext& context) {
  context.set(0, context.value(0));
  return {};
}

constexpr OpRow kRows[] = {{"Constant", 1, constant}, {"ConstantOfShape", 9, constant_of_shape}, {"Identity", 1, identity}};

}  // namespace

std::span<const OpRow> ops_constant() { return kRows; }

}  // namespace headrace::onnx
