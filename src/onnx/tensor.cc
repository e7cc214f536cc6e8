#include "onnx/tensor.h"

#include <fmt/format.h>

#include <cstring>

namespace headrace::onnx {

Result<int64_t> count_elements(std::span<const int64_t> dims) {
  // Without the zeros first: products of some of the dims, as strides are, must fit too.
  int64_t count = 1;
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return error(Code::malformed, "dims [{}]: want none below 0", fmt::join(dims, ", "));
    empty = empty || dim == 0;
    if (dim == 0) continue;
    if (dim > kMaxElements / count) {
      return error(Code::resource_exhausted, "a tensor of dims [{}] has more than {} elements", fmt::join(dims, ", "), kMaxElements);
    }
    count *= dim;
  }
  return empty ? 0 : count;
}

Tensor::Tensor(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)), elements_(1) {
  for (const int64_t dim : dims_) elements_ *= dim;
  if (dtype == DType::string) {
    strings_ = std::make_shared<std::vector<std::string>>(static_cast<size_t>(elements_));
  } else {
    bytes_ = std::shared_ptr<std::byte[]>(new std::byte[static_cast<size_t>(bytes())]());  // aligned for every type
  }
}

Tensor Tensor::over(DType dtype, Dims dims, std::shared_ptr<const std::byte[]> bytes) {
  CHECK(dtype != DType::string);
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.dims_ = std::move(dims);
  tensor.elements_ = 1;
  for (const int64_t dim : tensor.dims_) tensor.elements_ *= dim;
  tensor.bytes_ = std::const_pointer_cast<std::byte[]>(std::move(bytes));
  return tensor;
}

Tensor Tensor::reshaped(Dims dims) const {
  Tensor other = *this;
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  CHECK(count == elements_);
  other.dims_ = std::move(dims);
  return other;
}

Tensor Tensor::clone() const {
  Tensor other(dtype_, dims_);
  if (dtype_ == DType::string) {
    *other.strings_ = *strings_;
  } else if (elements_ > 0) {
    std::memcpy(other.bytes_.get(), bytes_.get(), static_cast<size_t>(bytes()));
  }
  return other;
}

}  // namespace headrace::onnx
