#pragma once
// A tensor on the host: element type, dims, shared bytes. What ONNX models hold, take and give. Copies share their bytes; writing is for
// the one who made it (data<T>() of a tensor that nothing else shares yet). Not thread-safe while it is written.

#include <atomic>
#include <complex>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/half.h"
#include "core/small_floats.h"
#include "io/mapped_file.h"

namespace headrace::onnx {

using Dims = std::vector<int64_t>;

// Integers of four and two bits, one in a byte, so that each element type has a C++ type of its own.
struct i4 {
  int8_t value;
};
struct u4 {
  uint8_t value;
};
struct i2 {
  int8_t value;
};
struct u2 {
  uint8_t value;
};

// The element type of a C++ type.
template <class T>
struct DTypeOf;
#define HR_DTYPE(type, name)                       \
  template <>                                      \
  struct DTypeOf<type> {                           \
    static constexpr DType value = DType::name;    \
  }
HR_DTYPE(float, f32);
HR_DTYPE(double, f64);
HR_DTYPE(f16, f16);
HR_DTYPE(bf16, bf16);
HR_DTYPE(int8_t, i8);
HR_DTYPE(uint8_t, u8);
HR_DTYPE(int16_t, i16);
HR_DTYPE(uint16_t, u16);
HR_DTYPE(int32_t, i32);
HR_DTYPE(uint32_t, u32);
HR_DTYPE(int64_t, i64);
HR_DTYPE(uint64_t, u64);
HR_DTYPE(bool, boolean);
HR_DTYPE(f8e4m3fn, f8e4m3fn);
HR_DTYPE(f8e4m3fnuz, f8e4m3fnuz);
HR_DTYPE(f8e5m2, f8e5m2);
HR_DTYPE(f8e5m2fnuz, f8e5m2fnuz);
HR_DTYPE(f8e8m0, f8e8m0);
HR_DTYPE(f4e2m1, f4e2m1);
HR_DTYPE(i4, i4);
HR_DTYPE(u4, u4);
HR_DTYPE(i2, i2);
HR_DTYPE(u2, u2);
HR_DTYPE(std::complex<float>, c64);
HR_DTYPE(std::complex<double>, c128);
HR_DTYPE(std::string, string);
#undef HR_DTYPE

// The product of dims. Errors: resource_exhausted beyond kMaxElements or kMaxTensorRank, malformed for a negative dim.
inline constexpr int64_t kMaxElements = int64_t{1} << 33;
inline constexpr size_t kMaxTensorRank = 64;  // what a file may say, and what operators may grow to
Result<int64_t> count_elements(std::span<const int64_t> dims);

// Bytes of a file that tensors show. They are in memory while somebody holds them: in place where the file has them aligned, else copied;
// with the last holder the copy or the pages go, and come back from the file when they are wanted again. Thread-safe.
class FileBytes {
 public:
  // `bytes` lie in `file`. `alignment`: of an element.
  FileBytes(std::shared_ptr<const io::MappedFile> file, std::span<const std::byte> bytes, size_t alignment)
      : file_(std::move(file)), bytes_(bytes), alignment_(alignment) {}

  // All who ask at a time share them.
  std::shared_ptr<const std::byte[]> hold();
  // Whether hold() has to copy them.
  bool is_askew() const { return reinterpret_cast<uintptr_t>(bytes_.data()) % alignment_ != 0; }
  // A copy in the caller's memory; the file's pages are let go on the way.
  void write(std::byte* to) const;
  // Held as long as this object lives.
  const std::byte* pin();

 private:
  std::shared_ptr<const std::byte[]> hold_locked();

  const std::shared_ptr<const io::MappedFile> file_;
  const std::span<const std::byte> bytes_;
  const size_t alignment_;
  std::mutex mutex_;
  std::weak_ptr<const std::byte[]> held_;     // guarded by mutex_
  std::shared_ptr<const std::byte[]> pinned_;  // written once, under mutex_
  std::atomic<const std::byte*> at_{nullptr};  // pinned_'s, once it is there
};

class Tensor {
 public:
  Tensor() : Tensor(DType::f32, {0}) {}
  // Zeros (empty strings). The number of elements must have been checked where it comes from outside (OpContext::make does). Throws
  // std::bad_alloc where the tensors of the process would need more than the machine's memory: within_memory turns it into an error.
  Tensor(DType dtype, Dims dims);
  template <class T>
  static Tensor of(Dims dims, const std::vector<T>& values);
  template <class T>
  static Tensor scalar(const T& value) {
    return of<T>({}, std::vector<T>{value});
  }

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t elements() const { return elements_; }
  uint64_t bytes() const { return static_cast<uint64_t>(elements_) * dtype_bytes(dtype_); }

  template <class T>
  const T* data() const {
    CHECK(DTypeOf<T>::value == dtype_);
    if constexpr (std::is_same_v<T, std::string>) return strings_->data();
    else return reinterpret_cast<const T*>(raw());
  }
  template <class T>
  T* data() {
    return const_cast<T*>(static_cast<const Tensor*>(this)->data<T>());
  }
  template <class T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<size_t>(elements_)};
  }
  // Bytes of a file stay in memory from the first call on: whoever needs them for a while takes share().
  const std::byte* raw() const { return file_ != nullptr ? file_->pin() : bytes_.get(); }
  std::byte* raw() { return const_cast<std::byte*>(static_cast<const Tensor*>(this)->raw()); }

  // A tensor over packed bytes that stand elsewhere, as long as `bytes` keeps them; they are not written through it.
  static Tensor over(DType dtype, Dims dims, std::shared_ptr<const std::byte[]> bytes);
  static Tensor over(DType dtype, Dims dims, std::shared_ptr<FileBytes> bytes);
  // What keeps the bytes; null for strings.
  std::shared_ptr<const std::byte[]> share() const { return file_ != nullptr ? file_->hold() : bytes_; }
  // Null where the bytes are in memory.
  const std::shared_ptr<FileBytes>& file() const { return file_; }

  // The same elements under other dims, whose product must be the same.
  Tensor reshaped(Dims dims) const;
  // A copy with bytes of its own.
  Tensor clone() const;

 private:
  DType dtype_;
  Dims dims_;
  int64_t elements_ = 0;
  std::shared_ptr<std::byte[]> bytes_;
  std::shared_ptr<FileBytes> file_;  // in place of bytes_
  std::shared_ptr<std::vector<std::string>> strings_;
};

template <class T>
Tensor Tensor::of(Dims dims, const std::vector<T>& values) {
  Tensor tensor(DTypeOf<T>::value, std::move(dims));
  CHECK(static_cast<int64_t>(values.size()) == tensor.elements());
  T* to = tensor.data<T>();
  for (size_t i = 0; i < values.size(); ++i) to[i] = values[i];
  return tensor;
}

// Calls f, which returns a Status or a Result; resource_exhausted where memory runs out on the way.
template <class F>
auto within_memory(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    Status status = make_status(Code::resource_exhausted, "out of memory");
    if constexpr (std::is_same_v<decltype(f()), Status>) return status;
    else return tl::unexpected(std::move(status));
  }
}

// A value of a model: a tensor, a sequence of tensors, or an optional of either.
struct Value;
struct Sequence {
  DType dtype = DType::f32;  // of its tensors
  std::vector<Tensor> tensors;
};
struct Optional {
  std::shared_ptr<const Value> value;  // null: empty
};
struct Value {
  std::variant<std::monostate, Tensor, Sequence, Optional> what;  // monostate: an input or output left out
  Value() = default;
  Value(Tensor tensor) : what(std::move(tensor)) {}        // NOLINT: a tensor is a value
  Value(Sequence sequence) : what(std::move(sequence)) {}  // NOLINT
  Value(Optional optional) : what(std::move(optional)) {}  // NOLINT
  bool has_value() const { return what.index() != 0; }
  const Tensor* tensor() const { return std::get_if<Tensor>(&what); }
  const Sequence* sequence() const { return std::get_if<Sequence>(&what); }
  const Optional* optional() const { return std::get_if<Optional>(&what); }
};

// Calls f.operator()<T>() with the C++ type of `dtype`, which must be one of Types; false when it is not.
template <class... Types, class F>
bool dispatch(DType dtype, F&& f) {
  return ((DTypeOf<Types>::value == dtype ? (f.template operator()<Types>(), true) : false) || ...);
}

}  // namespace headrace::onnx
