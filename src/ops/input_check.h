#pragma once
// Checks the inputs of an op's infer() one after another; the first that is wrong becomes the error, which
// names the input, what was wanted and what was got.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "ops/op.h"

namespace headrace::ops {

class InputCheck {
 public:
  // `names` has one name per input; a different number of inputs is the first error.
  InputCheck(std::string_view op, std::span<const ValueType> inputs, std::vector<std::string_view> names);

  // Any number of inputs, each called "x".
  InputCheck(std::string_view op, std::span<const ValueType> inputs);

  InputCheck& tensor(int index, DType dtype, int rank);
  InputCheck& constant_dims();  // of every input
  InputCheck& tensor(int index, DType dtype);  // of any rank
  InputCheck& any_tensor(int index);           // of any dtype with bytes of its own, and any rank
  InputCheck& activations(int index, int rank);  // of f32 or bf16
  InputCheck& rows(int index);                 // of f32 or bf16 and rank 2 or more: rows are all axes but the last
  InputCheck& same_type(int index, int other);
  InputCheck& float_vector_weight(int index);  // [features] in f32, f16 or bf16
  InputCheck& float_vector(int index);         // the same, or a tensor of f32 [features]
  InputCheck& kv(int index);
  // The dim of one input must be that of another, or the one given.
  InputCheck& same_dim(int index, int axis, int other, int other_axis);
  InputCheck& dim(int index, int axis, const Dim& want);
  // A rule of the op's own.
  InputCheck& require(bool holds, std::string_view what);

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  // The output types, or the first error.
  Result<std::vector<ValueType>> outputs(std::vector<ValueType> types) const {
    if (!status_.ok()) return tl::unexpected<Status>(status_);
    return types;
  }

 private:
  void fail(int index, std::string_view want);

  std::string_view op_;
  std::span<const ValueType> inputs_;
  std::vector<std::string_view> names_;
  Status status_;
};

// An op's tolerance where its output is rounded: a value near a border may fall to either side, one ulp apart.
Tolerance rounded_to(DType output, Tolerance tolerance);

// "f32 [s0, 576]", "weight q4_1 [1536, 576]", "kv f16"
std::string describe(const ValueType& type);

// Bytes of a value at these sizes: what cost() adds up. A kv layer counts as nothing; its op knows what it
// touches.
double value_bytes(const ValueType& type, const Bindings& bindings);
// The sum over all inputs and outputs.
double all_bytes(const NodeSizes& sizes);

// The inputs with axis 0 of each tensor in `sliced` cut to row `row`; the others whole.
std::vector<HostValue> slice_rows(std::span<const HostValue> inputs, std::initializer_list<int> sliced,
                                  int64_t row);
HostTensor slice_row(const HostTensor& tensor, int64_t row);

}  // namespace headrace::ops
