#include "ops/input_check.h"

namespace headrace::ops {

std::string describe(const ValueType& type) {
  switch (type.kind) {
    case ValueType::Kind::tensor:
      return fmt::format("{} {}", dtype_name(type.dtype), type.shape.to_string({}));
    case ValueType::Kind::weight:
      return fmt::format("weight {} {}", format_info(type.format).name, type.shape.to_string({}));
    case ValueType::Kind::kv:
      return fmt::format("kv {} of {} heads of {}", dtype_name(type.kv.dtype), type.kv.heads,
                         type.kv.head_dim);
  }
  return "?";
}

Tolerance rounded_to(DType output, Tolerance tolerance) {
  if (output == DType::bf16) tolerance.relative += 0x1p-7;
  return tolerance;
}

namespace {
bool is_activation(const ValueType& type) {
  return type.kind == ValueType::Kind::tensor && (type.dtype == DType::f32 || type.dtype == DType::bf16);
}
}  // namespace

InputCheck::InputCheck(std::string_view op, std::span<const ValueType> inputs, std::vector<std::string_view> names)
    : op_(op), inputs_(inputs), names_(std::move(names)) {
  if (inputs.size() == names_.size()) return;
  status_ =
      make_status(Code::invalid_argument, "{}: want {} inputs, got {}", op, names_.size(), inputs.size());
}

InputCheck::InputCheck(std::string_view op, std::span<const ValueType> inputs)
    : op_(op), inputs_(inputs), names_(inputs.size(), "x") {}

InputCheck& InputCheck::constant_dims() {
  for (size_t i = 0; i < inputs_.size() && ok(); ++i) {
    for (const Dim& dim : inputs_[i].shape) {
      if (ok() && !dim.is_constant()) fail(static_cast<int>(i), "constant dims");
    }
  }
  return *this;
}

void InputCheck::fail(int index, std::string_view want) {
  status_ = make_status(Code::invalid_argument, "{}: input {} ({}): want {}, got {}", op_, index,
                        names_[index], want, describe(inputs_[index]));
}

InputCheck& InputCheck::tensor(int index, DType dtype, int rank) {
  if (!ok()) return *this;
  const ValueType& type = inputs_[index];
  if (type.kind != ValueType::Kind::tensor || type.dtype != dtype || type.shape.rank() != rank) {
    fail(index, fmt::format("a tensor of {} and rank {}", dtype_name(dtype), rank));
  }
  return *this;
}

InputCheck& InputCheck::tensor(int index, DType dtype) {
  if (!ok()) return *this;
  const ValueType& type = inputs_[index];
  if (type.kind != ValueType::Kind::tensor || type.dtype != dtype) fail(index, fmt::format("a tensor of {}", dtype_name(dtype)));
  return *this;
}

InputCheck& InputCheck::any_tensor(int index) {
  if (!ok()) return *this;
  const ValueType& type = inputs_[index];
  if (type.kind != ValueType::Kind::tensor || type.dtype == DType::string) fail(index, "a tensor of numbers");
  return *this;
}

InputCheck& InputCheck::activations(int index, int rank) {
  if (ok() && (!is_activation(inputs_[index]) || inputs_[index].shape.rank() != rank)) {
    fail(index, fmt::format("a tensor of f32 or bf16 and rank {}", rank));
  }
  return *this;
}

InputCheck& InputCheck::rows(int index) {
  if (ok() && (!is_activation(inputs_[index]) || inputs_[index].shape.rank() < 2)) {
    fail(index, "a tensor of f32 or bf16 and rank 2 or more");
  }
  return *this;
}

InputCheck& InputCheck::same_type(int index, int other) {
  if (ok() && !(inputs_[index] == inputs_[other])) fail(index, fmt::format("{}, as {}", describe(inputs_[other]), names_[other]));
  return *this;
}

namespace {
bool is_float_vector_weight(const ValueType& type) {
  const bool is_float = type.format == Format::f32 || type.format == Format::f16 || type.format == Format::bf16;
  return type.kind == ValueType::Kind::weight && is_float && type.shape.rank() == 1;
}
}  // namespace

InputCheck& InputCheck::float_vector_weight(int index) {
  if (ok() && !is_float_vector_weight(inputs_[index])) fail(index, "a weight vector of f32, f16 or bf16");
  return *this;
}

InputCheck& InputCheck::float_vector(int index) {
  if (!ok() || is_float_vector_weight(inputs_[index])) return *this;
  const ValueType& type = inputs_[index];
  if (type.kind != ValueType::Kind::tensor || type.dtype != DType::f32 || type.shape.rank() != 1) {
    fail(index, "a weight vector of f32, f16 or bf16, or a tensor of f32 and rank 1");
  }
  return *this;
}

InputCheck& InputCheck::kv(int index) {
  if (ok() && inputs_[index].kind != ValueType::Kind::kv) fail(index, "a layer of a kv pool");
  return *this;
}

InputCheck& InputCheck::same_dim(int index, int axis, int other, int other_axis) {
  if (!ok()) return *this;
  const Dim& want = inputs_[other].shape[other_axis];
  if (!(inputs_[index].shape[axis] == want)) {
    fail(index,
         fmt::format("axis {} of {}, as axis {} of {}", axis, want.to_string({}), other_axis, names_[other]));
  }
  return *this;
}

InputCheck& InputCheck::dim(int index, int axis, const Dim& want) {
  if (!ok()) return *this;
  if (!(inputs_[index].shape[axis] == want))
    fail(index, fmt::format("axis {} of {}", axis, want.to_string({})));
  return *this;
}

InputCheck& InputCheck::require(bool holds, std::string_view what) {
  if (ok() && !holds) status_ = make_status(Code::invalid_argument, "{}: {}", op_, what);
  return *this;
}

double value_bytes(const ValueType& type, const Bindings& bindings) {
  if (type.kind == ValueType::Kind::kv) return 0;
  const double elements = static_cast<double>(type.shape.elements(bindings));
  if (type.kind == ValueType::Kind::tensor) return elements * static_cast<double>(dtype_bytes(type.dtype));
  const FormatInfo& info = format_info(type.format);
  return elements * info.block_bytes / info.block_elements;
}

double all_bytes(const NodeSizes& sizes) {
  double bytes = 0;
  for (const ValueType& type : sizes.inputs) bytes += value_bytes(type, sizes.bindings);
  for (const ValueType& type : sizes.outputs) bytes += value_bytes(type, sizes.bindings);
  return bytes;
}

HostTensor slice_row(const HostTensor& tensor, int64_t row) {
  int64_t width = 1;
  for (size_t axis = 1; axis < tensor.dims.size(); ++axis) width *= tensor.dims[axis];
  HostTensor slice{tensor.dtype, tensor.dims, {}};
  slice.dims[0] = 1;
  slice.values.assign(tensor.values.begin() + row * width, tensor.values.begin() + (row + 1) * width);
  return slice;
}

std::vector<HostValue> slice_rows(std::span<const HostValue> inputs, std::initializer_list<int> sliced,
                                  int64_t row) {
  std::vector<HostValue> alone(inputs.begin(), inputs.end());
  for (const int index : sliced) alone[index].tensor = slice_row(inputs[index].tensor, row);
  return alone;
}

}  // namespace headrace::ops
