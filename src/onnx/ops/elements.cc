#include "onnx/ops/elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace headrace::onnx {

void copy_elements(Tensor& to, int64_t to_at, const Tensor& from, int64_t from_at, int64_t count) {
  CHECK(to.dtype() == from.dtype() && to_at >= 0 && from_at >= 0 && count >= 0 && to_at + count <= to.elements() &&
        from_at + count <= from.elements());
  if (count == 0) return;
  if (to.dtype() == DType::string) {
    std::copy_n(from.data<std::string>() + from_at, count, to.data<std::string>() + to_at);
  } else {
    const auto size = static_cast<int64_t>(dtype_bytes(to.dtype()));
    std::memcpy(to.raw() + to_at * size, from.raw() + from_at * size, static_cast<size_t>(count * size));
  }
}

bool next_index(Dims& index, std::span<const int64_t> dims) {
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (++index[axis] < dims[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

void copy_strided(Tensor& to, const Tensor& from, std::span<const int64_t> strides, int64_t offset) {
  if (to.elements() == 0) return;
  const Dims& dims = to.dims();
  // The last axis goes in one piece where its elements lie side by side.
  const bool whole = !dims.empty() && strides.back() == 1;
  const int64_t run = whole ? dims.back() : 1;
  const std::span<const int64_t> outer = std::span(dims).first(dims.size() - (whole ? 1 : 0));
  Dims index(outer.size(), 0);
  int64_t at = 0;
  do {
    int64_t source = offset;
    for (size_t axis = 0; axis < outer.size(); ++axis) source += index[axis] * strides[axis];
    copy_elements(to, at, from, source, run);
    at += run;
  } while (next_index(index, outer));
}

void fill(Tensor& to, const Tensor& one) {
  for (int64_t i = 0; i < to.elements(); ++i) copy_elements(to, i, one, 0);
}

namespace {

uint64_t bytes_of(const Tensor& source, int64_t count) {
  if (source.dtype() != DType::string) return static_cast<uint64_t>(count) * dtype_bytes(source.dtype());
  size_t longest = 0;
  for (const std::string& text : source.values<std::string>()) longest = std::max(longest, text.size());
  return static_cast<uint64_t>(count) * (sizeof(std::string) + longest);
}

}  // namespace

Result<Tensor> make_for(OpContext& context, const Tensor& source, Dims dims) {
  HR_ASSIGN_OR_RETURN(const int64_t count, count_elements(dims));
  HR_RETURN_IF_ERROR(context.graphs().charge(bytes_of(source, count)));
  return Tensor(source.dtype(), std::move(dims));
}

Result<Tensor*> make_for(OpContext& context, int output, const Tensor& source, Dims dims) {
  if (source.dtype() == DType::string) {
    HR_ASSIGN_OR_RETURN(const int64_t count, count_elements(dims));
    HR_RETURN_IF_ERROR(context.graphs().charge(bytes_of(source, count)));
  }
  return context.make(output, source.dtype(), std::move(dims));
}

Result<Tensor> make_numbers(OpContext& context, DType dtype, Dims dims) {
  HR_ASSIGN_OR_RETURN(const int64_t count, count_elements(dims));
  HR_RETURN_IF_ERROR(context.graphs().charge(static_cast<uint64_t>(count) * dtype_bytes(dtype)));
  return Tensor(dtype, std::move(dims));
}

Result<Tensor> transposed(OpContext& context, const Tensor& from, std::span<const int> perm) {
  const Dims strides = contiguous_strides(from.dims());
  Dims dims, steps;
  for (const int axis : perm) {
    dims.push_back(from.dim(axis));
    steps.push_back(strides[static_cast<size_t>(axis)]);
  }
  HR_ASSIGN_OR_RETURN(Tensor to, make_for(context, from, dims));
  copy_strided(to, from, steps);
  return to;
}

Result<Tensor> concatenated(OpContext& context, std::span<const Tensor> parts, int axis) {
  if (parts.empty()) return error(Code::malformed, "nothing to put together");
  Dims dims = parts[0].dims();
  int64_t length = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    Dims own = parts[i].dims();
    const bool fits = own.size() == dims.size() && parts[i].dtype() == parts[0].dtype();
    if (fits) {
      length += std::exchange(own[static_cast<size_t>(axis)], dims[static_cast<size_t>(axis)]);
    }
    if (!fits || own != dims) {
      return error(Code::malformed, "part {}: want {} [{}] except on axis {}, got {} [{}]", i, dtype_name(parts[0].dtype()),
                   fmt::join(dims, ", "), axis, dtype_name(parts[i].dtype()), fmt::join(parts[i].dims(), ", "));
    }
  }
  dims[static_cast<size_t>(axis)] = length;
  HR_ASSIGN_OR_RETURN(const int64_t count, count_elements(dims));
  uint64_t bytes = 0;
  for (const Tensor& part : parts) bytes += bytes_of(part, part.elements());
  HR_RETURN_IF_ERROR(context.graphs().charge(bytes));
  Tensor result(parts[0].dtype(), dims);
  if (count == 0) return result;
  const int64_t outer = product(dims, 0, axis), inner = product(dims, axis + 1, result.rank());
  int64_t start = 0;
  for (const Tensor& part : parts) {
    const int64_t run = part.dim(axis) * inner;
    for (int64_t o = 0; o < outer; ++o) copy_elements(result, o * length * inner + start, part, o * run, run);
    start += run;
  }
  return result;
}

Result<Tensor> part_of(OpContext& context, const Tensor& from, int axis, int64_t start, int64_t length) {
  Dims dims = from.dims();
  dims[static_cast<size_t>(axis)] = length;
  HR_ASSIGN_OR_RETURN(Tensor part, make_for(context, from, dims));
  if (part.elements() == 0) return part;
  const int64_t outer = product(dims, 0, axis), inner = product(dims, axis + 1, from.rank());
  for (int64_t o = 0; o < outer; ++o)
    copy_elements(part, o * length * inner, from, (o * from.dim(axis) + start) * inner, length * inner);
  return part;
}

Result<std::vector<int>> normalize_axes(std::span<const int64_t> axes, int rank) {
  std::vector<int> result;
  for (const int64_t given : axes) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, rank));
    if (std::ranges::find(result, axis) != result.end())
      return error(Code::malformed, "axes [{}]: {} is there twice", fmt::join(axes, ", "), axis);
    result.push_back(axis);
  }
  return result;
}

int64_t product(std::span<const int64_t> dims, int begin, int end) {
  int64_t result = 1;
  for (int i = begin; i < end; ++i) result *= dims[static_cast<size_t>(i)];
  return result;
}

Result<double> number_input(const OpContext& context, int index) {
  HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(index));
  if (tensor->elements() != 1) return error(Code::malformed, "input {}: want one number, got {}", index, tensor->elements());
  double value = 0;
  const bool known =
      dispatch_number(tensor->dtype(), [&]<class T>() { value = static_cast<double>(worth(*tensor->data<T>())); });
  if (!known) return error(Code::malformed, "input {}: want a number, got {}", index, dtype_name(tensor->dtype()));
  return value;
}

Result<std::vector<int64_t>> all_integers(const OpContext& context, int index) {
  HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(index));
  std::vector<int64_t> values;
  const bool known = dispatch<int64_t, int32_t, int16_t, int8_t, uint32_t, uint16_t, uint8_t>(tensor->dtype(), [&]<class T>() {
    const auto from = tensor->values<T>();
    values.assign(from.begin(), from.end());
  });
  if (!known) return error(Code::malformed, "input {}: want integers, got {}", index, dtype_name(tensor->dtype()));
  return values;
}

Result<int64_t> integer_input(const OpContext& context, int index) {
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> values, all_integers(context, index));
  if (values.size() != 1) return error(Code::malformed, "input {}: want one integer, got {}", index, values.size());
  return values[0];
}

Status wrong_type(DType dtype) { return make_status(Code::malformed, "the operator does not take {}", dtype_name(dtype)); }

}  // namespace headrace::onnx
