#pragma once
// What gemm and gemm_q8 share: their matrices as oneDNN's matmul wants them. A weight that serves the whole batch makes one product of
// all rows. A constant weight is packed once, a computed one is read as it lies.

#include <algorithm>

#include "kernels/onednn/primitive.h"

namespace headrace::onednn {

class Matmul : public Product {
 public:
  Matmul(std::span<const ValueType> inputs, const ValueType& output, bool trans_b) {
    packs_computed_weight = false;
    Dims result = dims_of(output.shape);
    const size_t rank = result.size();
    Dims in_x = with_rank(inputs[0].shape, rank), in_weight = with_rank(inputs[1].shape, rank);
    if (trans_b) std::swap(in_weight[rank - 2], in_weight[rank - 1]);
    flops = 2.0 * elements(result) * static_cast<double>(in_x.back());
    if (std::all_of(in_weight.begin(), in_weight.end() - 2, [](int64_t dim) { return dim == 1; })) {
      int64_t rows = 1;
      for (size_t axis = 0; axis + 1 < rank; ++axis) rows *= result[axis];
      in_x = {rows, in_x.back()};
      in_weight = {in_weight[rank - 2], in_weight[rank - 1]};
      result = {rows, result.back()};
    }
    x = matrices(in_x, inputs[0].dtype);
    weight = matrices(in_weight, inputs[1].dtype, trans_b);
    out = matrices(result, output.dtype);
  }

  dnnl::primitive_desc describe(const Desc& wanted, bool allow_empty) const override {
    return dnnl::matmul::primitive_desc(cpu_engine(), x, wanted, bias, out, post.attr, allow_empty);
  }

 protected:
  // A bias for each column, by the rank of the output.
  Desc bias_of_columns() const {
    Dims dims(out.get_dims().size(), 1);
    dims.back() = out.get_dims().back();
    return matrices(dims, DType::f32);
  }

 private:
  // Row-major, or with the last two axes the other way round in memory.
  static Desc matrices(const Dims& dims, DType dtype, bool transposed = false) {
    Dims strides(dims.size());
    const size_t last = dims.size() - 1;
    int64_t stride = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      const size_t axis = transposed && i < 2 ? last - (1 - i) : last - i;
      strides[axis] = stride;
      stride *= dims[axis];
    }
    return Desc(dims, type_of(dtype), strides);
  }
  // Dims with ones in front up to `rank`.
  static Dims with_rank(const Shape& shape, size_t rank) {
    Dims dims = dims_of(shape);
    dims.insert(dims.begin(), rank - dims.size(), 1);
    return dims;
  }
};

}  // namespace headrace::onednn
