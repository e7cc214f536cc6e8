#pragma once
// Walking operands of different shapes in the order of the output's elements: axes that all operands walk alike are joined, so that
// what is left is rows of one inner axis, along which an operand moves by 1 or stays.

#include "kernels/cpu/elements.h"

HR_BEGIN_KERNELS
namespace {

template <int kOperands>
struct Broadcast {
  static constexpr int kOut = kOperands;  // the output is the last
  int rank = 0;                           // outer axes
  int64_t dims[kMaxRank] = {};
  int64_t strides[kOperands + 1][kMaxRank] = {};
  int64_t inner[kOperands + 1] = {};  // strides of the inner axis
  RowGrid rows{1, 1};

  explicit Broadcast(const NodeArgs& args) {
    const TensorView& y = args.outputs[0].tensor;
    for (int axis = 0; axis < y.rank; ++axis) {
      if (y.dims[axis] == 1) continue;
      int64_t step[kOperands + 1];
      for (int k = 0; k < kOperands; ++k) step[k] = stride_of(args.inputs[k].tensor, axis - (y.rank - args.inputs[k].tensor.rank));
      step[kOut] = y.strides[axis];
      bool joins = rank > 0;
      for (int k = 0; k <= kOperands; ++k) joins = joins && strides[k][rank - 1] == step[k] * y.dims[axis];
      if (!joins) dims[rank++] = 1;
      dims[rank - 1] *= y.dims[axis];
      for (int k = 0; k <= kOperands; ++k) strides[k][rank - 1] = step[k];
    }
    if (rank > 0 && inner_fits()) {
      --rank;
      rows.width = dims[rank];
      for (int k = 0; k <= kOperands; ++k) inner[k] = strides[k][rank];
    }
    for (int axis = 0; axis < rank; ++axis) rows.count *= dims[axis];
  }

  // Where each operand's elements of `row` begin.
  HR_INLINE void place(int64_t row, int64_t* offsets) const {
    for (int k = 0; k <= kOperands; ++k) offsets[k] = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t at = axis == 0 ? row : row % dims[axis];
      row = axis == 0 ? 0 : row / dims[axis];
      for (int k = 0; k <= kOperands; ++k) offsets[k] += at * strides[k][axis];
    }
  }

 private:
  static int64_t stride_of(const TensorView& view, int axis) {
    return axis < 0 || view.dims[axis] == 1 ? 0 : view.strides[axis];
  }
  bool inner_fits() const {
    bool fits = strides[kOut][rank - 1] == 1;
    for (int k = 0; k < kOperands; ++k) fits = fits && strides[k][rank - 1] <= 1;
    return fits;
  }
};

}  // namespace
HR_END_KERNELS
