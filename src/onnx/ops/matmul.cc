// MatMul, Gemm, their integer and quantized forms, Det.
#include "onnx/infer.h"
#include "onnx/ops/matmul.h"

namespace headrace::onnx {
namespace {

Status matmul_op(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* a, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* b, context.input(1));
  HR_RETURN_IF_ERROR(same_type(*a, *b));
  HR_ASSIGN_OR_RETURN(const MatmulShape shape, matmul_shape(a->dims(), b->dims()));
  return compute_number(a->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> x, Numbers<W>::of(*a));
    HR_ASSIGN_OR_RETURN(const Numbers<W> y, Numbers<W>::of(*b));
    HR_ASSIGN_OR_RETURN(std::vector<W> product, buffer<W>(context, shape.result));
    if (!product.empty()) matmul(shape, x.data(), y.data(), product.data());
    return put(context, 0, a->dtype(), shape.result, product);
  });
}

// A [rows, columns] matrix of `dims`, transposed when asked.
template <class W>
std::vector<W> matrix(const W* from, int64_t rows, int64_t columns, bool transposed) {
  std::vector<W> to(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      to[static_cast<size_t>(i * columns + j)] = transposed ? from[j * rows + i] : from[i * columns + j];
    }
  }
  return to;
}

Status gemm(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* a, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* b, context.input(1));
  HR_RETURN_IF_ERROR(same_type(*a, *b));
  HR_RETURN_IF_ERROR(want_rank(*a, 2, "A"));
  HR_RETURN_IF_ERROR(want_rank(*b, 2, "B"));
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 1));
  HR_ASSIGN_OR_RETURN(const float beta, context.number("beta", 1));
  HR_ASSIGN_OR_RETURN(const int64_t a_transposed, context.integer("transA", 0));
  HR_ASSIGN_OR_RETURN(const int64_t b_transposed, context.integer("transB", 0));
  const int64_t m = a->dim(a_transposed != 0 ? 1 : 0), k = a->dim(a_transposed != 0 ? 0 : 1);
  const int64_t n = b->dim(b_transposed != 0 ? 0 : 1), rows = b->dim(b_transposed != 0 ? 1 : 0);
  if (rows != k) return make_status(Code::malformed, "A has {} columns, B {} rows", k, rows);
  const Tensor* c = nullptr;
  const Dims dims = {m, n};
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(c, context.input(2));
    HR_RETURN_IF_ERROR(same_type(*a, *c));
    HR_ASSIGN_OR_RETURN(const Dims common, broadcast(c->dims(), dims));
    if (common != dims) {
      return make_status(Code::malformed, "C: dims [{}] do not go into [{}, {}]", fmt::join(c->dims(), ", "), m, n);
    }
  }
  return compute_number(a->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> x, Numbers<W>::of(*a));
    HR_ASSIGN_OR_RETURN(const Numbers<W> y, Numbers<W>::of(*b));
    HR_ASSIGN_OR_RETURN(const Numbers<W> bias, numbers<W>(context, 2, true));
    HR_ASSIGN_OR_RETURN(std::vector<W> product, buffer<W>(context, dims));
    if (product.empty()) return put(context, 0, a->dtype(), dims, product);
    const std::vector<W> left = matrix(x.data(), m, k, a_transposed != 0), right = matrix(y.data(), k, n, b_transposed != 0);
    gemm_add(m, n, k, left.data(), right.data(), product.data());
    // Integers as signed ones, for products with the float factors.
    const auto scale = [](W value, float factor) -> W {
      if constexpr (std::is_floating_point_v<W>) return value * factor;
      else
        return factor == 1 ? value
                           : static_cast<W>(saturated<int64_t>(static_cast<double>(static_cast<int64_t>(value)) * factor));
    };
    for (W& value : product) value = scale(value, alpha);
    if (c != nullptr && beta != 0) {
      auto to = product.begin();
      walk<1>(dims, {broadcast_strides(c->dims(), dims)}, [&](const auto& at, const auto& steps, int64_t count) {
        for (int64_t i = 0; i < count; ++i, ++to) *to += scale(bias[at[0] + i * steps[0]], beta);
      });
    }
    return put(context, 0, a->dtype(), dims, product);
  });
}

// Eight-bit elements less their zero points, whose dims go into the tensor's; a list of zero points of A is one for each row.
Result<std::vector<int32_t>> less_zero_points(const OpContext& context, int index, int zero_index, bool by_row) {
  HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(index));
  std::vector<int32_t> values(static_cast<size_t>(tensor->elements()));
  const bool known =
      dispatch<int8_t, uint8_t>(tensor->dtype(), [&]<class T>() { std::ranges::copy(tensor->values<T>(), values.begin()); });
  if (!known) return tl::unexpected<Status>(unknown_type(tensor->dtype()));
  if (!context.has_input(zero_index)) return values;
  HR_ASSIGN_OR_RETURN(const Tensor* zero, context.input(zero_index));
  HR_RETURN_IF_ERROR(same_type(*tensor, *zero));
  Dims dims = zero->dims();
  if (zero->elements() == 1) dims = {};
  if (by_row && dims.size() == 1 && tensor->rank() > 1) dims.push_back(1);
  HR_ASSIGN_OR_RETURN(const Dims common, broadcast(dims, tensor->dims()));
  if (common != tensor->dims()) {
    return error(Code::malformed, "zero points of dims [{}] do not go into [{}]", fmt::join(zero->dims(), ", "),
                 fmt::join(tensor->dims(), ", "));
  }
  auto to = values.begin();
  dispatch<int8_t, uint8_t>(zero->dtype(), [&]<class T>() {
    walk<1>(common, {broadcast_strides(dims, common)}, [&](const auto& at, const auto& steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i, ++to) *to -= zero->data<T>()[at[0] + i * steps[0]];
    });
  });
  return values;
}

struct IntegerProduct {
  MatmulShape shape;
  std::vector<int32_t> values;
};

Result<IntegerProduct> integer_product(OpContext& context, int a, int a_zero, int b, int b_zero) {
  HR_ASSIGN_OR_RETURN(const std::vector<int32_t> x, less_zero_points(context, a, a_zero, true));
  HR_ASSIGN_OR_RETURN(const std::vector<int32_t> y, less_zero_points(context, b, b_zero, false));
  HR_ASSIGN_OR_RETURN(MatmulShape shape, matmul_shape(context.value(a).tensor()->dims(), context.value(b).tensor()->dims()));
  HR_ASSIGN_OR_RETURN(std::vector<int32_t> values, buffer<int32_t>(context, shape.result));
  // Sums wrap around, which signed integers may not in C++: the same bits as unsigned.
  if (!values.empty()) {
    matmul(shape, reinterpret_cast<const uint32_t*>(x.data()), reinterpret_cast<const uint32_t*>(y.data()),
           reinterpret_cast<uint32_t*>(values.data()));
  }
  return IntegerProduct{std::move(shape), std::move(values)};
}

Status matmul_integer(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const IntegerProduct product, integer_product(context, 0, 2, 1, 3));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DType::i32, product.shape.result));
  std::ranges::copy(product.values, output->data<int32_t>());
  return {};
}

Status qlinear_matmul(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const IntegerProduct product, integer_product(context, 0, 2, 3, 5));
  const Dims& dims = product.shape.result;
  Numbers<float> scales[3];
  Dims scale_dims[3];
  constexpr int kInputs[] = {1, 4, 6};
  for (int i = 0; i < 3; ++i) {
    HR_ASSIGN_OR_RETURN(scales[i], numbers<float>(context, kInputs[i]));
    Dims& own = scale_dims[i] = context.value(kInputs[i]).tensor()->dims();
    if (::headrace::onnx::product(own) == 1) own = {};
    if (i == 0 && own.size() == 1 && dims.size() > 1) own.push_back(1);  // one for each row
    HR_ASSIGN_OR_RETURN(const Dims common, broadcast(own, dims));
    if (common != dims) {
      return make_status(Code::malformed, "input {}: dims [{}] do not go into [{}]", kInputs[i], fmt::join(own, ", "),
                         fmt::join(dims, ", "));
    }
  }
  HR_ASSIGN_OR_RETURN(const Tensor* zero, context.input(7));
  if (zero->elements() != 1) return make_status(Code::unsupported, "y_zero_point: want one, got {}", zero->elements());
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, zero->dtype(), dims));
  return typed(dispatch<int8_t, uint8_t>(zero->dtype(),
                                         [&]<class T>() {
                                           auto from = product.values.begin();
                                           T* to = output->data<T>();
                                           walk<3>(
                                               dims,
                                               {broadcast_strides(scale_dims[0], dims), broadcast_strides(scale_dims[1], dims),
                                                broadcast_strides(scale_dims[2], dims)},
                                               [&](const auto& at, const auto& steps, int64_t count) {
                                                 for (int64_t i = 0; i < count; ++i) {
                                                   const float scale = scales[0][at[0] + i * steps[0]] *
                                                                       scales[1][at[1] + i * steps[1]] /
                                                                       scales[2][at[2] + i * steps[2]];
                                                   *to++ = quantize<T>(static_cast<float>(*from++) * scale, *zero->data<T>());
                                                 }
                                               });
                                         }),
               zero->dtype());
}

// By elimination with the largest pivot of each column.
double determinant(std::vector<double> m, int64_t n) {
  double result = 1;
  const auto at = [&](int64_t i, int64_t j) -> double& { return m[static_cast<size_t>(i * n + j)]; };
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; ++r) pivot = std::abs(at(r, c)) > std::abs(at(pivot, c)) ? r : pivot;
    if (at(pivot, c) == 0) return 0;
    if (pivot != c) {
      for (int64_t j = c; j < n; ++j) std::swap(at(c, j), at(pivot, j));
      result = -result;
    }
    result *= at(c, c);
    for (int64_t r = c + 1; r < n; ++r) {
      const double factor = at(r, c) / at(c, c);
      for (int64_t j = c; j < n; ++j) at(r, j) -= factor * at(c, j);
    }
  }
  return result;
}

Status det(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  const Dims& dims = input->dims();
  if (dims.size() < 2 || dims.back() != dims[dims.size() - 2]) {
    return make_status(Code::malformed, "want square matrices, got dims [{}]", fmt::join(dims, ", "));
  }
  const int64_t n = dims.back();
  HR_ASSIGN_OR_RETURN(const Numbers<double> x, Numbers<double>::of(*input));
  const Dims batch(dims.begin(), dims.end() - 2);
  HR_ASSIGN_OR_RETURN(std::vector<double> results, buffer<double>(context, batch));
  const double* from = x.data();
  for (double& result : results) {
    result = determinant(std::vector<double>(from, from + n * n), n);
    from += n * n;
  }
  return put(context, 0, input->dtype(), batch, results);
}

// ---- types

// Dims of a product by numpy's rules, where both ranks are known.
Result<std::optional<Shape>> infer_product(const TensorFact& a, const TensorFact& b) {
  HR_RETURN_IF_ERROR(want_rank_from(a, 1, "A"));
  HR_RETURN_IF_ERROR(want_rank_from(b, 1, "B"));
  if (!a.shape || !b.shape) return std::optional<Shape>();
  const Shape &x = *a.shape, &y = *b.shape;
  const bool a_vector = x.size() == 1, b_vector = y.size() == 1;
  const Dim &columns = x.back(), &rows = b_vector ? y[0] : y[y.size() - 2];
  if (is_known(columns) && is_known(rows) && columns.value != rows.value) {
    return error(Code::malformed, "a matrix product: dims {} and {} do not go together", describe(x), describe(y));
  }
  HR_ASSIGN_OR_RETURN(
      Shape shape, broadcast(Shape(x.begin(), a_vector ? x.begin() : x.end() - 2), Shape(y.begin(), b_vector ? y.begin() : y.end() - 2)));
  if (!a_vector) shape.push_back(x[x.size() - 2]);
  if (!b_vector) shape.push_back(y.back());
  return std::optional(std::move(shape));
}

Status infer_matmul(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact a, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact b, context.input(1));
  HR_ASSIGN_OR_RETURN(const auto dtype, same_dtype(a, b));
  HR_ASSIGN_OR_RETURN(std::optional<Shape> shape, infer_product(a, b));
  context.set(0, dtype, std::move(shape));
  return {};
}

Status infer_matmul_integer(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact a, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact b, context.input(1));
  HR_ASSIGN_OR_RETURN(std::optional<Shape> shape, infer_product(a, b));
  context.set(0, DType::i32, std::move(shape));
  return {};
}

Status infer_qlinear_matmul(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact a, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact b, context.input(3));
  HR_ASSIGN_OR_RETURN(const TensorFact zero, context.input(7));
  HR_ASSIGN_OR_RETURN(std::optional<Shape> shape, infer_product(a, b));
  context.set(0, zero.dtype, std::move(shape));
  return {};
}

Status infer_gemm(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact a, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact b, context.input(1));
  HR_ASSIGN_OR_RETURN(const auto dtype, same_dtype(a, b));
  HR_RETURN_IF_ERROR(want_rank(a, 2, "A"));
  HR_RETURN_IF_ERROR(want_rank(b, 2, "B"));
  HR_ASSIGN_OR_RETURN(const int64_t a_transposed, context.integer("transA", 0));
  HR_ASSIGN_OR_RETURN(const int64_t b_transposed, context.integer("transB", 0));
  Shape x = a.shape.value_or(unknown_shape(2)), y = b.shape.value_or(unknown_shape(2));
  if (a_transposed != 0) std::swap(x[0], x[1]);
  if (b_transposed != 0) std::swap(y[0], y[1]);
  if (is_known(x[1]) && is_known(y[0]) && x[1].value != y[0].value) {
    return make_status(Code::malformed, "A has {} columns, B {} rows", x[1].value, y[0].value);
  }
  Shape shape = {x[0], y[1]};
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(const TensorFact c, context.input(2));
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const auto of_c, same_dtype(a, c));
    if (c.shape) {
      HR_ASSIGN_OR_RETURN(const Shape common, broadcast(*c.shape, shape));
      if (common.size() != 2) return make_status(Code::malformed, "C: dims {} do not go into {}", describe(*c.shape), describe(shape));
    }
  }
  context.set(0, dtype, std::move(shape));
  return {};
}

Status infer_det(InferContext& context) {
  HR_ASSIGN_OR_RETURN(TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_rank_from(x, 2, "input"));
  if (x.shape) {
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const Dim side, agreed(x.shape->back(), (*x.shape)[x.shape->size() - 2], "a square matrix"));
    x.shape->resize(x.shape->size() - 2);
  }
  context.set(0, x.dtype, std::move(x.shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"Det", 11, det, infer_det},
    {"Gemm", 7, gemm, infer_gemm},
    {"MatMul", 1, matmul_op, infer_matmul},
    {"MatMulInteger", 10, matmul_integer, infer_matmul_integer},
    {"QLinearMatMul", 10, qlinear_matmul, infer_qlinear_matmul},
};

}  // namespace

std::span<const OpRow> ops_matmul() { return kRows; }

}  // namespace headrace::onnx
