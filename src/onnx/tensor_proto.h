#pragma once
// TensorProto and SparseTensorProto as tensors, and back. The messages' definitions stay in the .cc files.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "onnx/data_folder.h"
#include "onnx/tensor.h"

namespace onnx {
class SparseTensorProto;
class TensorProto;
}  // namespace onnx

namespace headrace::onnx {

// The element type that TensorProto.DataType numbers so. Errors: malformed, unsupported.
Result<DType> read_dtype(int64_t number);
int dtype_number(DType dtype);

// Reads tensors. Nothing is allocated before the bytes that fill it have been found. Large tensors show the bytes of their file.
class TensorReader {
 public:
  // Messages hold their raw data.
  explicit TensorReader(std::string folder) : folder_(std::move(folder)) {}
  // Messages hold numbers in place of raw data, as detach_raw_data leaves them. `file`, where not null, is what `raw_data` lies in.
  TensorReader(std::string folder, std::vector<std::span<const std::byte>> raw_data, std::shared_ptr<const io::MappedFile> file)
      : folder_(std::move(folder)), raw_data_(std::move(raw_data)), file_(std::move(file)) {}

  // Errors: malformed, unsupported, not_found, resource_exhausted.
  Result<Tensor> read(const ::onnx::TensorProto& proto);
  // As a dense tensor. What all of them hold is bounded, as the zeros stand in no file.
  Result<Tensor> read(const ::onnx::SparseTensorProto& proto);

 private:
  Result<std::span<const std::byte>> raw_data(const ::onnx::TensorProto& proto) const;

  DataFolder folder_;
  const std::optional<std::vector<std::span<const std::byte>>> raw_data_;
  const std::shared_ptr<const io::MappedFile> file_;
  uint64_t dense_bytes_ = 0;
};

void write_tensor(const Tensor& tensor, ::onnx::TensorProto& proto);

}  // namespace headrace::onnx
