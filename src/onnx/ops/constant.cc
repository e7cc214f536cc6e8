// Values out of nothing: Constant, ConstantOfShape, Identity.
#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

Result<Tensor> tensor_attribute(const NodeReader& context, std::string_view name) {
  const Attribute* attribute = context.attribute(name);
  if (attribute == nullptr || attribute->tensors.size() != 1) return error(Code::malformed, "attribute {}: want a tensor", name);
  return attribute->tensors.front();
}

template <class T>
Tensor list_of(const std::vector<T>& values) {
  return Tensor::of({static_cast<int64_t>(values.size())}, values);
}

// The value of whichever of the attributes is there.
Result<Tensor> constant_value(const NodeReader& context) {
  if (context.has("value")) return tensor_attribute(context, "value");
  if (context.has("value_float")) return context.number("value_float", 0).map(Tensor::scalar<float>);
  if (context.has("value_floats")) return context.numbers("value_floats", {}).map(list_of<float>);
  if (context.has("value_int")) return context.integer("value_int", 0).map(Tensor::scalar<int64_t>);
  if (context.has("value_ints")) return context.integers("value_ints", {}).map(list_of<int64_t>);
  if (context.has("value_string")) return context.text("value_string", "").map(Tensor::scalar<std::string>);
  if (context.has("value_strings")) return context.texts("value_strings", {}).map(list_of<std::string>);
  return error(Code::malformed, "no attribute holds the value");
}

Status constant(OpContext& context) {
  HR_ASSIGN_OR_RETURN(Tensor value, constant_value(context));
  context.set(0, std::move(value));
  return {};
}

Status constant_of_shape(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, context.integers(0));
  Tensor value = Tensor::scalar(0.0f);
  if (context.has("value")) {
    HR_ASSIGN_OR_RETURN(value, tensor_attribute(context, "value"));
  }
  if (value.elements() != 1 || value.dtype() == DType::string) return make_status(Code::malformed, "value: want one number");
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, value.dtype(), dims));
  fill(*output, value);
  return {};
}

Status identity(OpContext& context) {
  if (!context.has_input(0)) return make_status(Code::malformed, "input 0: none");
  context.set(0, context.value(0));
  return {};
}

// ---- types

Status infer_constant(InferContext& context) {
  HR_ASSIGN_OR_RETURN(Tensor value, constant_value(context));
  context.set_constant(0, std::move(value));
  return {};
}

Status infer_constant_of_shape(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> listed, context.elements(0));
  DType dtype = DType::f32;
  if (context.has("value")) {
    HR_ASSIGN_OR_RETURN(const Tensor fill, tensor_attribute(context, "value"));
    dtype = fill.dtype();
  }
  std::optional<Shape> shape;
  if (listed) {
    HR_ASSIGN_OR_RETURN(shape, shape_of(*listed));
  }
  context.set(0, dtype, std::move(shape));
  return {};
}

Status infer_identity(InferContext& context) {
  if (!context.has_input(0)) return make_status(Code::malformed, "input 0: none");
  context.set(0, context.fact(0));
  return {};
}

constexpr OpRow kRows[] = {
    {"Constant", 1, constant, infer_constant},
    {"ConstantOfShape", 9, constant_of_shape, infer_constant_of_shape},
    {"Identity", 1, identity, infer_identity},
};

}  // namespace

std::span<const OpRow> ops_constant() { return kRows; }

}  // namespace headrace::onnx
