#pragma once
// Matrix products: shapes by numpy's rules, and one plain kernel.

#include <algorithm>

#include "onnx/ops/arithmetic.h"

namespace headrace::onnx {

// C [m, n] += A [m, k] B [k, n], all contiguous. Rows of B stay in the cache for a few rows of A.
template <class W>
void gemm_add(int64_t m, int64_t n, int64_t k, const W* a, const W* b, W* c) {
  constexpr int64_t kRows = 8, kColumns = 512;
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t columns = std::min(kColumns, n - j);
    for (int64_t i = 0; i < m; i += kRows) {
      const int64_t last = std::min(m, i + kRows);
      for (int64_t p = 0; p < k; ++p) {
        const W* row = b + p * n + j;
        for (int64_t r = i; r < last; ++r) {
          const W factor = a[r * k + p];
          W* to = c + r * n + j;
          for (int64_t q = 0; q < columns; ++q) to[q] += factor * row[q];
        }
      }
    }
  }
}

struct MatmulShape {
  int64_t m = 1, n = 1, k = 1;
  Dims batch;                // leading axes of the result
  Dims a_strides, b_strides;  // through the matrices of A and B, for each axis of `batch`
  Dims result;               // without the axes that vectors lack
};

inline Result<MatmulShape> matmul_shape(const Dims& a, const Dims& b) {
  if (a.empty() || b.empty()) return error(Code::malformed, "a matrix product: want rank 1 or more");
  const bool a_vector = a.size() == 1, b_vector = b.size() == 1;
  MatmulShape shape;
  shape.m = a_vector ? 1 : a[a.size() - 2];
  shape.k = a.back();
  shape.n = b_vector ? 1 : b.back();
  const int64_t rows = b_vector ? b[0] : b[b.size() - 2];
  if (rows != shape.k) {
    return error(Code::malformed, "a matrix product: dims [{}] and [{}] do not go together", fmt::join(a, ", "),
                 fmt::join(b, ", "));
  }
  const std::span<const int64_t> a_batch(a.data(), a_vector ? 0 : a.size() - 2), b_batch(b.data(), b_vector ? 0 : b.size() - 2);
  HR_ASSIGN_OR_RETURN(shape.batch, broadcast(a_batch, b_batch));
  shape.a_strides = broadcast_strides(a_batch, shape.batch);
  shape.b_strides = broadcast_strides(b_batch, shape.batch);
  shape.result = shape.batch;
  if (!a_vector) shape.result.push_back(shape.m);
  if (!b_vector) shape.result.push_back(shape.n);
  return shape;
}

// C must be zero.
template <class W>
void matmul(const MatmulShape& shape, const W* a, const W* b, W* c) {
  const auto [m, n, k] = std::tuple(shape.m, shape.n, shape.k);
  walk<2>(shape.batch, {shape.a_strides, shape.b_strides},
          [&, m = m, n = n, k = k](const auto& at, const auto& steps, int64_t count) {
            for (int64_t i = 0; i < count; ++i, c += m * n) {
              gemm_add(m, n, k, a + (at[0] + i * steps[0]) * m * k, b + (at[1] + i * steps[1]) * k * n, c);
            }
          });
}

// round(value) + zero, within T's range.
template <class T>
T quantize(double value, T zero) {
  return static_cast<T>(std::clamp<double>(std::isnan(value) ? 0 : std::nearbyint(value) + zero, std::numeric_limits<T>::min(),
                                           std::numeric_limits<T>::max()));
}

}  // namespace headrace::onnx
