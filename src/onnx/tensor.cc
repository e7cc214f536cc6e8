#include "onnx/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/buffer.h"

namespace headrace::onnx {
namespace {

// Zeros, aligned for every type. Throws bad_alloc where the tensors of the process would need more memory than the machine has: the system
// may grant such an allocation all the same, and end the process when it is written.
std::shared_ptr<std::byte[]> allocate(uint64_t bytes) {
  static std::atomic<uint64_t> held = 0;
  static const uint64_t most = physical_memory();
  if (held.fetch_add(bytes) + bytes > most) {
    held -= bytes;
    throw std::bad_alloc();
  }
  auto* data = static_cast<std::byte*>(std::calloc(std::max<uint64_t>(bytes, 1), 1));
  if (data == nullptr) {
    held -= bytes;
    throw std::bad_alloc();
  }
  return {data, [bytes](std::byte* at) {
            std::free(at);
            held -= bytes;
          }};
}

}  // namespace

Result<int64_t> count_elements(std::span<const int64_t> dims) {
  if (dims.size() > kMaxTensorRank) {
    return error(Code::resource_exhausted, "a tensor of rank {}: want {} at most", dims.size(), kMaxTensorRank);
  }
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

std::shared_ptr<const std::byte[]> FileBytes::hold_locked() {
  if (auto held = held_.lock()) return held;
  const uint64_t offset = static_cast<uint64_t>(bytes_.data() - file_->bytes().data());
  std::shared_ptr<const std::byte[]> held;
  if (is_askew()) {  // a mapping of its own, as the heap keeps what was freed inside of it
    std::shared_ptr<std::byte[]> copy = host_bytes(bytes_.size());
    write(copy.get());
    held = std::move(copy);
  } else {
    held.reset(bytes_.data(), [file = file_, offset, count = bytes_.size()](const std::byte*) { file->drop(offset, count); });
  }
  held_ = held;
  return held;
}

void FileBytes::write(std::byte* to) const {
  constexpr uint64_t kAtOnce = uint64_t{1} << 20;
  const auto offset = static_cast<uint64_t>(bytes_.data() - file_->bytes().data());
  for (uint64_t done = 0; done < bytes_.size(); done += kAtOnce) {
    const uint64_t count = std::min(kAtOnce, bytes_.size() - done);
    std::memcpy(to + done, bytes_.data() + done, count);
    file_->drop(offset + done, count);
  }
}

std::shared_ptr<const std::byte[]> FileBytes::hold() {
  const std::lock_guard lock(mutex_);
  return hold_locked();
}

const std::byte* FileBytes::pin() {
  if (const std::byte* at = at_.load(std::memory_order_acquire)) return at;
  const std::lock_guard lock(mutex_);
  if (pinned_ == nullptr) pinned_ = hold_locked();
  at_.store(pinned_.get(), std::memory_order_release);
  return pinned_.get();
}

Tensor::Tensor(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)), elements_(1) {
  for (const int64_t dim : dims_) elements_ *= dim;
  if (dtype == DType::string) {
    strings_ = std::make_shared<std::vector<std::string>>(static_cast<size_t>(elements_));
  } else {
    bytes_ = allocate(bytes());
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

Tensor Tensor::over(DType dtype, Dims dims, std::shared_ptr<FileBytes> bytes) {
  Tensor tensor = over(dtype, std::move(dims), std::shared_ptr<const std::byte[]>());
  tensor.file_ = std::move(bytes);
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
    std::memcpy(other.bytes_.get(), raw(), static_cast<size_t>(bytes()));
  }
  return other;
}

}  // namespace headrace::onnx
