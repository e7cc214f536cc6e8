#pragma once
// TensorProto and SparseTensorProto as tensors, and back. The messages' definitions stay in the .cc files.

#include "onnx/data_folder.h"
#include "onnx/tensor.h"

namespace onnx {
class SparseTensorProto;
class TensorProto;
}  // namespace onnx

namespace headrace::onnx {

inline constexpr size_t kMaxRank = 64;

// The element type that TensorProto.DataType numbers so. Errors: malformed, unsupported.
Result<DType> read_dtype(int64_t number);
int dtype_number(DType dtype);

// Reads tensors. Nothing is allocated before the bytes that fill it have been found.
class TensorReader {
 public:
  explicit TensorReader(std::string folder) : folder_(std::move(folder)) {}

  // Errors: malformed, unsupported, not_found, resource_exhausted.
  Result<Tensor> read(const ::onnx::TensorProto& proto);
  // As a dense tensor. What all of them hold is bounded, as the zeros stand in no file.
  Result<Tensor> read(const ::onnx::SparseTensorProto& proto);

 private:
  DataFolder folder_;
  uint64_t dense_bytes_ = 0;
};

void write_tensor(const Tensor& tensor, ::onnx::TensorProto& proto);

}  // namespace headrace::onnx
