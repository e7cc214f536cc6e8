#pragma once
// Copies between two strided boxes of elements of 1, 2, 4, 8 or 16 bytes: what transpose, slice, concat and expand are. Axes that both
// sides walk alike are joined; then the inner axis is a run (memcpy), one element for all (fill), the other side of a transpose (tiles
// of a cache line by 256, 8 x 8 floats in registers), or neither (element by element). Members share runs and tiles.

#include <cstring>

#include "kernels/cpu/lanes.h"

HR_BEGIN_KERNELS
namespace {

struct Wide {
  uint64_t parts[2];
};

// Calls use(T()) with T of `bytes` bytes.
template <class Use>
HR_INLINE void with_element(size_t bytes, Use use) {
  switch (bytes) {
    case 1: return use(uint8_t{});
    case 2: return use(uint16_t{});
    case 4: return use(uint32_t{});
    case 8: return use(uint64_t{});
    default: return use(Wide{});
  }
}

// A box of elements, outer axes first; strides in elements, which may be 0 or below on the side of `from`.
struct CopyBox {
  int rank = 0;
  int64_t dims[kMaxRank], from[kMaxRank], to[kMaxRank];
  bool empty = false;

  void add(int64_t dim, int64_t from_stride, int64_t to_stride) {
    empty = empty || dim == 0;
    if (dim == 1) return;
    if (rank > 0 && from[rank - 1] == from_stride * dim && to[rank - 1] == to_stride * dim) {
      dims[rank - 1] *= dim;
    } else {
      dims[rank++] = dim;
    }
    from[rank - 1] = from_stride;
    to[rank - 1] = to_stride;
  }
  static CopyBox one_element() {
    CopyBox box;
    box.rank = 1;
    box.dims[0] = box.from[0] = box.to[0] = 1;
    return box;
  }
  // The axis is taken out of the box.
  void remove(int axis) {
    for (--rank; axis < rank; ++axis) {
      dims[axis] = dims[axis + 1];
      from[axis] = from[axis + 1];
      to[axis] = to[axis + 1];
    }
  }
  int64_t count() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= dims[axis];
    return product;
  }
  HR_INLINE void place(int64_t index, int64_t* from_offset, int64_t* to_offset) const {
    *from_offset = *to_offset = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t at = axis == 0 ? index : index % dims[axis];
      index = axis == 0 ? 0 : index / dims[axis];
      *from_offset += at * from[axis];
      *to_offset += at * to[axis];
    }
  }
};

// use(outer place on both sides, first, last): this member's share of an inner axis of `length` elements in pieces, for every outer place.
template <class Use>
HR_INLINE void over_box(const CopyBox& outer, int64_t length, int64_t piece, Team& team, Use use) {
  const int64_t pieces = (length + piece - 1) / piece;
  const Team::Range share = team.share(outer.count() * pieces);
  for (int64_t unit = share.begin; unit < share.end; ++unit) {
    int64_t from = 0, to = 0;
    outer.place(unit / pieces, &from, &to);
    const int64_t first = unit % pieces * piece;
    use(from, to, first, first + piece < length ? first + piece : length);
  }
}

template <class T>
HR_INLINE void copy_run(const T* from, T* to, int64_t count) {
  if (count * static_cast<int64_t>(sizeof(T)) >= 64) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

#if defined(HEADRACE_ISA_AVX2) || defined(HEADRACE_ISA_AVX512)
// Eight rows of eight floats, as bits.
HR_INLINE void transpose_8x8(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
  __m256 r[8], s[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(from + i * from_stride));
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    s[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm256_shuffle_ps(s[4 * i], s[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(s[4 * i], s[4 * i + 2], 0xEE);
    r[4 * i + 2] = _mm256_shuffle_ps(s[4 * i + 1], s[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(s[4 * i + 1], s[4 * i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(reinterpret_cast<float*>(to + i * to_stride), _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + (i + 4) * to_stride), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
#endif

// to[i * to_stride + j] = from[j * from_stride + i] for i below `rows` and j below `columns`.
template <class T>
HR_INLINE void transpose_tile(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows, int64_t columns) {
  int64_t done = 0;
#if defined(HEADRACE_ISA_AVX2) || defined(HEADRACE_ISA_AVX512)
  if constexpr (sizeof(T) == 4) {
    for (; done + 8 <= rows; done += 8) {
      int64_t j = 0;
      for (; j + 8 <= columns; j += 8) transpose_8x8(from + j * from_stride + done, from_stride, to + done * to_stride + j, to_stride);
      for (int64_t i = done; i < done + 8; ++i) {
        for (int64_t rest = j; rest < columns; ++rest) to[i * to_stride + rest] = from[rest * from_stride + i];
      }
    }
  }
#endif
  for (int64_t i = done; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[i * to_stride + j] = from[j * from_stride + i];
  }
}

// Fills rows of three or four elements from as many planes, or the other way round: the compiler shuffles.
template <int kPlanes, class T>
HR_INLINE void interleave(const T* from, int64_t from_stride, T* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    for (int plane = 0; plane < kPlanes; ++plane) to[i * kPlanes + plane] = from[plane * from_stride + i];
  }
}

template <class T>
HR_INLINE void copy_transposed(CopyBox box, int across, const T* from, T* to, Team& team) {
  const int last = box.rank - 1;
  const int64_t rows = box.dims[across], columns = box.dims[last];
  const int64_t from_stride = box.from[last], to_stride = box.to[across];
  box.remove(last);
  box.remove(across);
  // A cache line of the source's rows; longer where the other side is short.
  constexpr int64_t kLine = sizeof(T) < 64 ? 64 / static_cast<int64_t>(sizeof(T)) : 1;
  const int64_t tile = columns < 16 ? 1024 : kLine;
  over_box(box, rows, tile, team, [&](int64_t at_from, int64_t at_to, int64_t first, int64_t end) {
    const T* source = from + at_from + first;
    T* target = to + at_to + first * to_stride;
    if (columns == 3 && to_stride == 3) return interleave<3>(source, from_stride, target, end - first);
    if (columns == 4 && to_stride == 4) return interleave<4>(source, from_stride, target, end - first);
    for (int64_t j = 0; j < columns; j += 256) {
      const int64_t width = columns - j < 256 ? columns - j : 256;
      transpose_tile(source + j * from_stride, from_stride, target + j, to_stride, end - first, width);
    }
  });
}

// `from` and `to` are the first elements of the box.
template <class T>
HR_INLINE void copy_box(CopyBox box, const T* from, T* to, Team& team) {
  if (box.empty) return;
  if (box.rank == 0) box = CopyBox::one_element();
  const int last = box.rank - 1;
  const int64_t length = box.dims[last], from_step = box.from[last], to_step = box.to[last];
  if (from_step != 0 && from_step != 1 && to_step == 1) {
    for (int axis = last - 1; axis >= 0; --axis) {
      if (box.from[axis] == 1) return copy_transposed(box, axis, from, to, team);
    }
  }
  box.remove(last);
  over_box(box, length, 16384, team, [&](int64_t at_from, int64_t at_to, int64_t first, int64_t end) {
    const T* source = from + at_from + first * from_step;
    T* target = to + at_to + first * to_step;
    if (from_step == 1 && to_step == 1) return copy_run(source, target, end - first);
    if (from_step == 0 && to_step == 1) {
      const T value = *source;
      for (int64_t i = 0; i < end - first; ++i) target[i] = value;
      return;
    }
    for (int64_t i = 0; i < end - first; ++i) target[i * to_step] = source[i * from_step];
  });
}

}  // namespace
HR_END_KERNELS
