#pragma once
// Walking elementwise ops: the elements of a packed tensor are one row; a window of a merged projection [T, H] has a row for each token.
// Rows are dealt in pieces of 256 elements, so that a single one (logits) uses the team.

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

constexpr int64_t kPiece = 256;

// TensorView::elements(), which may be emitted out of line.
HR_INLINE int64_t elements_of(const TensorView& view) {
  int64_t count = 1;
  for (int axis = 0; axis < view.rank; ++axis) count *= view.dims[axis];
  return count;
}

HR_INLINE bool is_packed(const TensorView& view) {
  int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    if (view.dims[axis] != 1 && view.strides[axis] != stride) return false;
    stride *= view.dims[axis];
  }
  return true;
}

// `count` rows of `width` elements of a tensor that is packed but for its first axis.
struct RowGrid {
  int64_t count, width;
};
HR_INLINE RowGrid one_row_if(bool packed, const TensorView& view) {
  const int64_t elements = elements_of(view);
  if (packed || view.rank == 0) return {1, elements};
  return {view.dims[0], view.dims[0] == 0 ? 0 : elements / view.dims[0]};
}

// use(row, begin, end): this member's part of each row, whole pieces of it; with `whole` rows are not cut.
template <class Use>
HR_INLINE void over_pieces(Team& team, RowGrid rows, bool whole, Use use) {
  if (rows.width == 0) return;
  const int64_t length = whole ? rows.width : kPiece;
  const int64_t pieces = (rows.width + length - 1) / length;
  const Team::Range share = team.share(rows.count * pieces);
  for (int64_t piece = share.begin; piece < share.end;) {
    const int64_t row = piece / pieces, first = piece % pieces;
    const int64_t left = share.end - piece, last = first + left < pieces ? first + left : pieces;
    use(row, first * length, last * length < rows.width ? last * length : rows.width);
    piece += last - first;
  }
}

// The first element of `row`; a tensor that is one row has no stride to look at.
HR_INLINE float* row_at(const TensorView& view, int64_t row) {
  return view.as<float>() + (row == 0 ? 0 : row * view.strides[0]);
}

}  // namespace
HR_END_KERNELS
