#include "ops/gemm.h"

#include <cmath>

namespace headrace::ops {
namespace {

// Rows and columns of an operand: its last two dims.
struct Matrix {
  Dim rows, columns;
};
Matrix matrix_of(const Shape& shape, bool transposed) {
  const Dim a = shape[shape.rank() - 2], b = shape[shape.rank() - 1];
  return transposed ? Matrix{b, a} : Matrix{a, b};
}

Result<std::vector<ValueType>> infer_gemm(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& g = attrs.as<GemmAttrs>();
  InputCheck check("gemm", inputs, input_names({"a", "b"}, g.epilogue));
  if (!check.ok()) return check.outputs({});
  for (int i = 0; i < 2; ++i) {
    check.tensor(i, DType::f32, inputs[i].shape.rank());
    check.require(inputs[i].shape.rank() >= 2, fmt::format("input {}: want rank 2 or more, got {}", i, describe(inputs[i])));
  }
  check.constant_dims();
  if (!check.ok()) return check.outputs({});
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  const Matrix left = matrix_of(a, false), right = matrix_of(b, g.trans_b);
  check.require(left.columns == right.rows, fmt::format("a has {} columns and b {} rows: want the same", left.columns.to_string({}),
                                                        right.rows.to_string({})));
  Shape out;
  const int rank = std::max(a.rank(), b.rank());
  for (int axis = 0; axis < rank - 2; ++axis) {
    const int in_a = axis - (rank - a.rank()), in_b = axis - (rank - b.rank());
    const Dim of_a = in_a < 0 ? Dim(1) : a[in_a], of_b = in_b < 0 ? Dim(1) : b[in_b];
    check.require(of_a == of_b || of_a == Dim(1) || of_b == Dim(1),
                  fmt::format("axis {} of the batch: {} and {} do not broadcast", axis, of_a.to_string({}), of_b.to_string({})));
    out.push_back(of_a == Dim(1) ? of_b : of_a);
  }
  out.push_back(left.rows);
  out.push_back(right.columns);
  check_epilogue(check, g.epilogue, 2, out);
  return check.outputs({ValueType::tensor(DType::f32, out)});
}

int64_t terms_of(std::span<const ValueType> inputs) { return inputs[0].shape[inputs[0].shape.rank() - 1].constant(); }

Cost cost_gemm(const NodeSizes& sizes) {
  return {.flops = 2.0 * static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)) * static_cast<double>(terms_of(sizes.inputs)),
          .bytes = all_bytes(sizes)};
}

// The matrix of `operand` that batch number `batch` of `out` uses, by numpy's rule.
int64_t matrix_index(const HostTensor& operand, const HostTensor& out, int64_t batch) {
  int64_t index = 0, step = 1;
  const int shift = static_cast<int>(out.dims.size() - operand.dims.size());
  for (int axis = static_cast<int>(out.dims.size()) - 3; axis >= 0; --axis) {
    const int64_t at = batch % out.dims[axis];
    batch /= out.dims[axis];
    if (axis - shift < 0) continue;
    const int64_t dim = operand.dims[axis - shift];
    index += dim == 1 ? 0 : at * step;
    step *= dim;
  }
  return index;
}

void reference_gemm(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& g = attrs.as<GemmAttrs>();
  const HostTensor& a = inputs[0].tensor;
  const HostTensor& b = inputs[1].tensor;
  HostTensor& out = outputs[0];
  const int64_t rows = out.dims[out.dims.size() - 2], columns = out.dims.back(), terms = a.dims.back();
  for (int64_t i = 0; i < static_cast<int64_t>(out.values.size()); ++i) {
    const int64_t column = i % columns, row = i / columns % rows, batch = i / columns / rows;
    const double* left = a.values.data() + (matrix_index(a, out, batch) * rows + row) * terms;
    const double* right = b.values.data() + matrix_index(b, out, batch) * terms * columns;
    double sum = 0;
    for (int64_t k = 0; k < terms; ++k) sum += left[k] * (g.trans_b ? right[column * terms + k] : right[k * columns + column]);
    out.values[i] = apply_epilogue(g.epilogue, inputs, 2, i, column, static_cast<double>(g.scale) * sum);
  }
}

// out: the output's dims, for the residual.
OpCase make_case(std::string name, std::vector<int64_t> a, std::vector<int64_t> b, const GemmAttrs& attrs, std::vector<int64_t> out,
                 bool bench = false) {
  const double scale = 1.0 / std::sqrt(std::max(1.0, static_cast<double>(a.back())));
  OpCase one{.name = std::move(name), .attrs = attrs, .inputs = {{.dims = std::move(a)}, {.dims = std::move(b), .scale = scale}},
             .bench = bench};
  if (attrs.epilogue.bias) one.inputs.push_back({.dims = {out.back()}});
  if (attrs.epilogue.residual) one.inputs.push_back({.dims = std::move(out)});
  return one;
}

std::vector<OpCase> cases_gemm() {
  const Epilogue bias{.bias = true};
  const Epilogue all{.bias = true, .residual = true, .activation = UnaryAttrs{UnaryKind::relu}};
  const Epilogue gelu{.bias = true, .activation = UnaryAttrs{UnaryKind::gelu_erf}};
  std::vector<OpCase> cases = {
      make_case("one_element", {1, 1}, {1, 1}, {}, {}),
      make_case("empty_rows", {0, 5}, {5, 7}, {.epilogue = bias}, {0, 7}),
      make_case("empty_batch", {0, 3, 5}, {0, 5, 7}, {}, {0, 3, 7}),
      make_case("empty_columns", {3, 5}, {5, 0}, {}, {3, 0}),
      make_case("no_terms", {3, 0}, {0, 20}, {.epilogue = all}, {3, 20}),
      make_case("odd", {7, 33}, {33, 50}, {}, {}),
      make_case("odd_trans_b", {7, 33}, {50, 33}, {.trans_b = true}, {}),
      make_case("one_row", {1, 100}, {100, 70}, {.epilogue = bias}, {1, 70}),
      make_case("one_column", {13, 40}, {40, 1}, {.epilogue = bias}, {13, 1}),
      make_case("long_sums", {5, 1500}, {1500, 20}, {}, {}),
      make_case("long_sums_trans_b", {5, 1500}, {20, 1500}, {.trans_b = true, .scale = 0.5f, .epilogue = all}, {5, 20}),
      make_case("wide", {14, 65}, {65, 300}, {.epilogue = gelu}, {14, 300}),
      make_case("rank_3_by_matrix", {3, 5, 20}, {20, 18}, {.epilogue = all}, {3, 5, 18}),
      make_case("batched", {2, 3, 5, 20}, {2, 3, 20, 18}, {.scale = 0.125f}, {}),
      make_case("batched_trans_b", {2, 3, 9, 16}, {2, 3, 11, 16}, {.trans_b = true, .scale = 0.25f}, {}),
      make_case("broadcast_a", {5, 20}, {2, 3, 20, 18}, {.epilogue = all}, {2, 3, 5, 18}),
      make_case("broadcast_both", {4, 1, 5, 8}, {3, 8, 17}, {.epilogue = bias}, {4, 3, 5, 17}),
      make_case("broadcast_trans_b", {4, 1, 5, 8}, {3, 17, 8}, {.trans_b = true}, {}),
      make_case("scaled_residual", {6, 24}, {24, 33}, {.scale = -1.5f, .epilogue = {.residual = true}}, {6, 33}),
  };
  for (const auto& [name, epilogue] : epilogue_cases()) {
    cases.push_back(make_case(name, {5, 18}, {18, 37}, {.epilogue = epilogue}, {5, 37}));
  }
  const auto real = [&](std::string name, int64_t rows, int64_t terms, int64_t columns, const GemmAttrs& attrs) {
    cases.push_back(make_case(std::move(name), {rows, terms}, {terms, columns}, attrs, {rows, columns}, true));
  };
  for (const int64_t rows : {128, 1024}) {
    real(fmt::format("bert_up_{}x768x3072", rows), rows, 768, 3072, {.epilogue = gelu});
    real(fmt::format("bert_down_{}x3072x768", rows), rows, 3072, 768, {.epilogue = {.bias = true, .residual = true}});
    real(fmt::format("bert_qkv_{}x768x2304", rows), rows, 768, 2304, {.epilogue = bias});
    real(fmt::format("minilm_up_{}x384x1536", rows), rows, 384, 1536, {.epilogue = gelu});
  }
  real("classifier_1x2048x1000", 1, 2048, 1000, {.epilogue = bias});
  cases.push_back(make_case("scores_12_heads_128x64", {1, 12, 128, 64}, {1, 12, 128, 64}, {.trans_b = true, .scale = 0.125f}, {}, true));
  return cases;
}

}  // namespace

std::string GemmAttrs::describe() const {
  std::string text = trans_b ? "trans_b" : "";
  if (scale != 1.0f) text += fmt::format("{}scale={:g}", text.empty() ? "" : " ", scale);
  return text + epilogue.describe();
}

const Op gemm{
    .name = "gemm",
    .infer = infer_gemm,
    .cost = cost_gemm,
    .reference = reference_gemm,
    .tolerance = [](std::span<const ValueType> inputs, const Attrs& attrs) {
      return product_tolerance(terms_of(inputs), attrs.as<GemmAttrs>().epilogue);
    },
    .cases = cases_gemm,
};

}  // namespace headrace::ops
