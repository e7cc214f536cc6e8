#include "ops/rows.h"

#include "ops/input_check.h"

namespace headrace::ops {

std::string SliceColumnsAttrs::describe() const {
  return fmt::format("{}..{}", begin, end);
}

namespace {

// ---- slice_columns ------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_slice(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& slice = attrs.as<SliceColumnsAttrs>();
  InputCheck check("slice_columns", inputs, {"x"});
  if (!check.ok()) return check.outputs({});
  const int rank = inputs[0].shape.rank();
  check.tensor(0, inputs[0].dtype, rank).require(rank >= 1, "x must have columns");
  if (!check.ok()) return check.outputs({});
  Shape shape = inputs[0].shape;
  const Dim width = shape[rank - 1];
  check.require(width.is_constant(), "x must have a constant number of columns");
  if (!check.ok()) return check.outputs({});
  check.require(
      slice.begin >= 0 && slice.begin < slice.end && slice.end <= width.constant(),
      fmt::format("columns {}..{} do not lie within the {} of x", slice.begin, slice.end, width.constant()));
  shape[rank - 1] = Dim(slice.end - slice.begin);
  return check.outputs({ValueType::tensor(inputs[0].dtype, shape)});
}

Cost cost_slice(const NodeSizes&) {
  return {};
}

void reference_slice(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& slice = attrs.as<SliceColumnsAttrs>();
  const HostTensor& x = inputs[0].tensor;
  const auto width = static_cast<size_t>(slice.end - slice.begin), from = static_cast<size_t>(x.dims.back());
  for (size_t row = 0; row * from < x.values.size(); ++row) {
    for (size_t i = 0; i < width; ++i) {
      outputs[0].values[row * width + i] = x.values[row * from + static_cast<size_t>(slice.begin) + i];
    }
  }
}

TensorView view_slice(const Attrs& attrs, const TensorView& input) {
  const auto& slice = attrs.as<SliceColumnsAttrs>();
  TensorView view = input;
  const int last = input.rank - 1;
  view.data = static_cast<std::byte*>(input.data) +
              slice.begin * input.strides[last] * static_cast<int64_t>(dtype_bytes(input.dtype));
  view.dims[last] = slice.end - slice.begin;
  return view;
}

Tolerance tolerance_exact(std::span<const ValueType>, const Attrs&) {
  return {0, 0};
}

std::vector<OpCase> cases_slice() {
  const auto x = [](int64_t rows, int64_t columns, DType dtype, bool strided) {
    return std::vector<CaseInput>{{.dtype = dtype, .dims = {rows, columns}, .scale = 10, .strided = strided}};
  };
  return {
      {.name = "first", .attrs = SliceColumnsAttrs{0, 3}, .inputs = x(4, 10, DType::f32, false)},
      {.name = "middle_of_strided", .attrs = SliceColumnsAttrs{2, 7}, .inputs = x(4, 10, DType::f32, true)},
      {.name = "all", .attrs = SliceColumnsAttrs{0, 5}, .inputs = x(2, 5, DType::f16, false)},
      {.name = "empty", .attrs = SliceColumnsAttrs{1, 2}, .inputs = x(0, 5, DType::f32, false)},
      {.name = "batch", .attrs = SliceColumnsAttrs{2, 5}, .inputs = {{.dims = {2, 3, 7}}}},
      {.name = "vector", .attrs = SliceColumnsAttrs{2, 5}, .inputs = {{.dims = {7}}}},
  };
}

// ---- gather_rows --------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_gather(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("gather_rows", inputs, {"x", "rows"});
  check.tensor(0, DType::f32, 2).tensor(1, DType::i32, 1);
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(DType::f32, {inputs[1].shape[0], inputs[0].shape[1]})});
}

Cost cost_gather(const NodeSizes& sizes) {
  return {.flops = 0, .bytes = 2 * value_bytes(sizes.outputs[0], sizes.bindings)};
}

void reference_gather(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& x = inputs[0].tensor;
  const int64_t width = x.dims[1];
  for (int64_t row = 0; row < outputs[0].dims[0]; ++row) {
    const double from = inputs[1].tensor.values[row];
    const bool inside = from >= 0 && from < static_cast<double>(x.dims[0]);
    for (int64_t i = 0; i < width; ++i) {
      outputs[0].values[row * width + i] = inside ? x.values[static_cast<int64_t>(from) * width + i] : 0;
    }
  }
}

std::vector<OpCase> cases_gather() {
  const auto rows = [](std::vector<double> values) {
    return CaseInput{
        .dtype = DType::i32, .dims = {static_cast<int64_t>(values.size())}, .values = std::move(values)};
  };
  const auto x = [](int64_t count, int64_t width, bool strided) {
    return CaseInput{.dims = {count, width}, .strided = strided};
  };
  const GatherRowsAttrs attrs;
  return {
      {.name = "rising", .attrs = attrs, .inputs = {x(5, 19, false), rows({0, 2, 4})}},
      {.name = "repeated_from_strided", .attrs = attrs, .inputs = {x(4, 33, true), rows({3, 3, 0, 1})}},
      {.name = "outside_gives_zeros", .attrs = attrs, .inputs = {x(4, 8, false), rows({-1, 4, 2})}},
      {.name = "none", .attrs = attrs, .inputs = {x(4, 8, false), {.dtype = DType::i32, .dims = {0}}}},
      {.name = "smollm2_last_row",
       .attrs = attrs,
       .inputs = {x(512, 576, false), rows({511})},
       .bench = true,
       .phase = "prefill"},
  };
}

std::vector<HostValue> gather_row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  return slice_rows(inputs, {1}, row);
}

}  // namespace

const Op slice_columns{
    .name = "slice_columns",
    .effects = {.view = true},
    .infer = infer_slice,
    .cost = cost_slice,
    .reference = reference_slice,
    .view = view_slice,
    .tolerance = tolerance_exact,
    .cases = cases_slice,
};

const Op gather_rows{
    .name = "gather_rows",
    .infer = infer_gather,
    .cost = cost_gather,
    .reference = reference_gather,
    .tolerance = tolerance_exact,
    .cases = cases_gather,
    .row_alone = gather_row_alone,
};

}  // namespace headrace::ops
