#include "ops/movement.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/input_check.h"
#include "ops/shapes.h"

namespace headrace::ops {

std::string ReshapeAttrs::describe() const { return list_text(dims); }
std::string TransposeAttrs::describe() const { return list_text(perm); }
std::string ConcatAttrs::describe() const { return fmt::format("axis={}", axis); }
std::string SliceAttrs::describe() const {
  return fmt::format("begin={} step={} size={}", list_text(begin), list_text(step), list_text(size));
}
std::string PadAttrs::describe() const {
  constexpr std::string_view kModes[] = {"constant", "edge", "reflect", "wrap"};
  std::string text = fmt::format("{} before={} after={}", kModes[static_cast<size_t>(mode)], list_text(before), list_text(after));
  if (mode == Mode::constant && value != 0) text += fmt::format(" value={:g}", value);
  return text;
}
std::string ExpandAttrs::describe() const { return list_text(dims); }
std::string GatherAttrs::describe() const { return fmt::format("axis={}", axis); }

namespace {

constexpr int64_t kMaxDim = int64_t{1} << 40;  // keeps sums of dims away from the end of int64

Cost no_cost(const NodeSizes&) { return {}; }
// Each element that is written is read once.
Cost cost_of_output(const NodeSizes& sizes) { return {.flops = 0, .bytes = 2 * value_bytes(sizes.outputs[0], sizes.bindings)}; }
Cost cost_of_all(const NodeSizes& sizes) { return {.flops = 0, .bytes = all_bytes(sizes)}; }
Tolerance exact(std::span<const ValueType>, const Attrs&) { return {0, 0}; }

CaseInput filled(std::vector<int64_t> dims, DType dtype = DType::f32, bool strided = false) {
  return {.dtype = dtype,
          .dims = std::move(dims),
          .scale = is_float(dtype)           ? 1.0
                   : dtype == DType::boolean ? 2.0
                                             : 100.0,
          .strided = strided};
}
OpCase case_of(std::string name, Attrs attrs, std::vector<CaseInput> inputs, bool bench = false) {
  return {.name = std::move(name), .attrs = std::move(attrs), .inputs = std::move(inputs), .bench = bench};
}

// y[i] = x[source(place of i)], where the place is by axis of y.
template <class Source>
void move(const HostTensor& x, HostTensor& y, Source source) {
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = x.values[source(place_of(y.dims, static_cast<int64_t>(i)))];
}

// ---- reshape ------------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_reshape(std::span<const ValueType> inputs, const Attrs& attrs) {
  const std::vector<int64_t>& dims = attrs.as<ReshapeAttrs>().dims;
  InputCheck check("reshape", inputs, {"x"});
  check.any_tensor(0).require(dims.size() <= kMaxRank, fmt::format("want at most {} dims, got {}", kMaxRank, dims.size()));
  if (!check.ok()) return check.outputs({});
  const auto from = constant_dims(inputs[0].shape);
  check.require(from.has_value(), "x must have constant dims");
  for (const int64_t dim : dims)
    check.require(dim >= 0 && dim <= kMaxDim, fmt::format("dims {} must not be negative or beyond 2^40", list_text(dims)));
  if (!check.ok()) return check.outputs({});
  // Products as doubles first: dims are not trusted to fit.
  double want = 1, got = 1;
  for (const int64_t dim : *from) want *= static_cast<double>(dim);
  for (const int64_t dim : dims) got *= static_cast<double>(dim);
  check.require(want == got && (want > 0x1p52 || elements_of(*from) == elements_of(dims)),
                fmt::format("dims {} do not hold the elements of {}", list_text(dims), shape_text(inputs[0].shape)));
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(inputs[0].dtype, shape_of(dims))});
}

void reference_reshape(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  outputs[0].values = inputs[0].tensor.values;
}

TensorView view_reshape(const Attrs& attrs, const TensorView& input) {
  const std::vector<int64_t>& dims = attrs.as<ReshapeAttrs>().dims;
  return contiguous_view(input.data, input.dtype, shape_of(dims), Bindings());
}

std::vector<OpCase> cases_reshape() {
  return {
      case_of("split", ReshapeAttrs{{4, 2, 5}}, {filled({4, 10})}), case_of("join", ReshapeAttrs{{4, 10}}, {filled({4, 2, 5}, DType::f16)}),
      case_of("flat", ReshapeAttrs{{24}}, {filled({2, 3, 4})}),     case_of("to_scalar", ReshapeAttrs{{}}, {filled({1, 1})}),
      case_of("empty", ReshapeAttrs{{5, 0}}, {filled({0, 8})}),
  };
}

// ---- transpose ----------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_transpose(std::span<const ValueType> inputs, const Attrs& attrs) {
  const std::vector<int32_t>& perm = attrs.as<TransposeAttrs>().perm;
  InputCheck check("transpose", inputs, {"x"});
  check.any_tensor(0);
  if (!check.ok()) return check.outputs({});
  std::vector<int32_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool holds = static_cast<int>(perm.size()) == inputs[0].shape.rank();
  for (size_t i = 0; i < sorted.size(); ++i) holds = holds && sorted[i] == static_cast<int32_t>(i);
  check.require(holds, fmt::format("perm {} does not order the axes of {}", list_text(perm), shape_text(inputs[0].shape)));
  if (!check.ok()) return check.outputs({});
  Shape shape;
  for (const int32_t axis : perm) shape.push_back(inputs[0].shape[axis]);
  return check.outputs({ValueType::tensor(inputs[0].dtype, shape)});
}

void reference_transpose(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const std::vector<int32_t>& perm = attrs.as<TransposeAttrs>().perm;
  const std::vector<int64_t> strides = packed_strides(inputs[0].tensor.dims);
  move(inputs[0].tensor, outputs[0], [&](const std::vector<int64_t>& place) {
    int64_t from = 0;
    for (size_t axis = 0; axis < perm.size(); ++axis) from += place[axis] * strides[perm[axis]];
    return from;
  });
}

std::vector<OpCase> cases_transpose() {
  std::vector<OpCase> all = {
      case_of("same", TransposeAttrs{{0, 1}}, {filled({3, 5})}),
      case_of("matrix", TransposeAttrs{{1, 0}}, {filled({37, 53})}),
      case_of("square", TransposeAttrs{{1, 0}}, {filled({64, 64})}),
      case_of("strided", TransposeAttrs{{1, 0}}, {filled({19, 33}, DType::f32, true)}),
      case_of("heads", TransposeAttrs{{0, 2, 1, 3}}, {filled({2, 7, 3, 16})}),
      case_of("short_runs", TransposeAttrs{{0, 2, 1, 3}}, {filled({2, 7, 3, 2})}),
      case_of("keys", TransposeAttrs{{0, 2, 3, 1}}, {filled({2, 9, 3, 20})}),
      case_of("reversed", TransposeAttrs{{3, 2, 1, 0}}, {filled({3, 4, 5, 6})}),
      case_of("five_axes", TransposeAttrs{{0, 3, 1, 4, 2}}, {filled({2, 3, 4, 5, 6})}),
      case_of("ones", TransposeAttrs{{2, 0, 1}}, {filled({1, 40, 1})}),
      case_of("empty", TransposeAttrs{{1, 0}}, {filled({0, 5})}),
      case_of("no_axes", TransposeAttrs{{}}, {filled({})}),
  };
  for (const DType dtype : {DType::u8, DType::boolean, DType::f16, DType::i32, DType::i64, DType::f64}) {
    all.push_back(case_of(fmt::format("matrix_of_{}", dtype_name(dtype)), TransposeAttrs{{1, 0}}, {filled({35, 70}, dtype)}));
  }
  all.push_back(case_of("image_to_channels_last", TransposeAttrs{{0, 2, 3, 1}}, {filled({8, 3, 224, 224})}, true));
  all.push_back(case_of("to_channels_last", TransposeAttrs{{0, 2, 3, 1}}, {filled({8, 64, 56, 56})}, true));
  all.push_back(case_of("to_channels_first", TransposeAttrs{{0, 3, 1, 2}}, {filled({8, 56, 56, 64})}, true));
  all.push_back(case_of("split_heads", TransposeAttrs{{0, 2, 1, 3}}, {filled({8, 128, 12, 64})}, true));
  all.push_back(case_of("keys_of_heads", TransposeAttrs{{0, 2, 3, 1}}, {filled({8, 128, 12, 64})}, true));
  return all;
}

// ---- concat -------------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_concat(std::span<const ValueType> inputs, const Attrs& attrs) {
  const int32_t axis = attrs.as<ConcatAttrs>().axis;
  InputCheck check("concat", inputs);
  check.require(!inputs.empty(), "want at least one input");
  for (size_t i = 0; i < inputs.size(); ++i) check.any_tensor(static_cast<int>(i));
  if (!check.ok()) return check.outputs({});
  Shape shape = inputs[0].shape;
  check.require(axis >= 0 && axis < shape.rank(), fmt::format("axis {} does not lie within {}", axis, shape_text(shape)));
  for (size_t i = 1; check.ok() && i < inputs.size(); ++i) {
    bool agrees = inputs[i].dtype == inputs[0].dtype && inputs[i].shape.rank() == shape.rank();
    for (int a = 0; agrees && a < shape.rank(); ++a) agrees = a == axis || inputs[i].shape[a] == shape[a];
    check.require(agrees, fmt::format("input {}: {} does not join {} along axis {}", i, describe(inputs[i]), describe(inputs[0]), axis));
    if (check.ok()) shape[axis] = shape[axis] + inputs[i].shape[axis];
  }
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(inputs[0].dtype, shape)});
}

void reference_concat(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const int32_t axis = attrs.as<ConcatAttrs>().axis;
  HostTensor& y = outputs[0];
  for (size_t i = 0; i < y.values.size(); ++i) {
    std::vector<int64_t> place = place_of(y.dims, static_cast<int64_t>(i));
    const HostTensor* x = &inputs[0].tensor;
    for (size_t k = 1; place[axis] >= x->dims[axis]; ++k) {
      place[axis] -= x->dims[axis];
      x = &inputs[k].tensor;
    }
    const std::vector<int64_t> strides = packed_strides(x->dims);
    int64_t from = 0;
    for (size_t a = 0; a < place.size(); ++a) from += place[a] * strides[a];
    y.values[i] = x->values[from];
  }
}

std::vector<OpCase> cases_concat() {
  return {
      case_of("one", ConcatAttrs{0}, {filled({3, 5})}),
      case_of("rows", ConcatAttrs{0}, {filled({3, 5}), filled({1, 5}), filled({4, 5})}),
      case_of("columns", ConcatAttrs{1}, {filled({6, 5}), filled({6, 19})}),
      case_of("middle", ConcatAttrs{1}, {filled({2, 3, 4}, DType::i64), filled({2, 1, 4}, DType::i64), filled({2, 2, 4}, DType::i64)}),
      case_of("bytes", ConcatAttrs{2}, {filled({2, 3, 1}, DType::u8), filled({2, 3, 2}, DType::u8)}),
      case_of("strided", ConcatAttrs{1}, {filled({6, 5}, DType::f32, true), filled({6, 9}, DType::f32, true)}),
      case_of("empty_part", ConcatAttrs{1}, {filled({6, 0}), filled({6, 9})}),
      case_of("empty", ConcatAttrs{0}, {filled({0, 4}), filled({0, 4})}),
      case_of("inception_channels", ConcatAttrs{3},
              {filled({8, 28, 28, 64}), filled({8, 28, 28, 128}), filled({8, 28, 28, 32}), filled({8, 28, 28, 32})}, true),
      case_of("batch", ConcatAttrs{0}, {filled({4, 56, 56, 64}), filled({4, 56, 56, 64})}, true),
  };
}

// ---- slice --------------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_slice(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& slice = attrs.as<SliceAttrs>();
  InputCheck check("slice", inputs, {"x"});
  check.any_tensor(0);
  if (!check.ok()) return check.outputs({});
  const auto dims = constant_dims(inputs[0].shape);
  check.require(dims.has_value(), "x must have constant dims");
  if (!check.ok()) return check.outputs({});
  const size_t rank = dims->size();
  check.require(slice.begin.size() == rank && slice.step.size() == rank && slice.size.size() == rank,
                fmt::format("want begin, step and size for each axis of {}", shape_text(inputs[0].shape)));
  for (size_t axis = 0; check.ok() && axis < rank; ++axis) {
    const int64_t begin = slice.begin[axis], step = slice.step[axis], size = slice.size[axis], dim = (*dims)[axis];
    // The last element lies within the axis; divided, so that nothing overflows.
    const bool inside = size == 0 || (size > 0 && begin >= 0 && begin < dim && step != 0 && step > -kMaxDim && step < kMaxDim &&
                                      (step > 0 ? (size - 1) <= (dim - 1 - begin) / step : (size - 1) <= begin / -step));
    check.require(inside, fmt::format("axis {}: {} elements from {} by {} do not lie within {}", axis, size, begin, step, dim));
  }
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(inputs[0].dtype, shape_of(slice.size))});
}

void reference_slice(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& slice = attrs.as<SliceAttrs>();
  const std::vector<int64_t> strides = packed_strides(inputs[0].tensor.dims);
  move(inputs[0].tensor, outputs[0], [&](const std::vector<int64_t>& place) {
    int64_t from = 0;
    for (size_t axis = 0; axis < place.size(); ++axis) from += (slice.begin[axis] + place[axis] * slice.step[axis]) * strides[axis];
    return from;
  });
}

std::vector<OpCase> cases_slice() {
  return {
      case_of("all", SliceAttrs{{0, 0}, {1, 1}, {4, 7}}, {filled({4, 7})}),
      case_of("columns", SliceAttrs{{0, 2}, {1, 1}, {5, 20}}, {filled({5, 37})}),
      case_of("rows_of_strided", SliceAttrs{{1, 0}, {2, 1}, {2, 9}}, {filled({5, 9}, DType::f32, true)}),
      case_of("backward", SliceAttrs{{4, 6}, {-1, -2}, {5, 4}}, {filled({5, 7})}),
      case_of("every_second", SliceAttrs{{0, 0, 1}, {1, 2, 2}, {2, 3, 3}}, {filled({2, 5, 8}, DType::i64)}),
      case_of("halves", SliceAttrs{{0, 1, 0}, {1, 1, 1}, {3, 1, 5}}, {filled({3, 2, 5}, DType::f16)}),
      case_of("booleans", SliceAttrs{{3}, {-1}, {4}}, {filled({4}, DType::boolean)}),
      case_of("nothing", SliceAttrs{{0, 0}, {1, 1}, {4, 0}}, {filled({4, 7})}),
      case_of("no_axes", SliceAttrs{}, {filled({})}),
      case_of("half_of_channels", SliceAttrs{{0, 0, 0, 32}, {1, 1, 1, 1}, {8, 56, 56, 32}}, {filled({8, 56, 56, 64})}, true),
      case_of("focus", SliceAttrs{{0, 0, 1}, {1, 2, 2}, {24, 160, 160}}, {filled({24, 320, 320})}, true),
  };
}

// ---- pad ----------------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_pad(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& pad = attrs.as<PadAttrs>();
  InputCheck check("pad", inputs, {"x"});
  check.any_tensor(0);
  if (!check.ok()) return check.outputs({});
  const Shape& x = inputs[0].shape;
  const auto rank = static_cast<size_t>(x.rank());
  check.require(pad.before.size() == rank && pad.after.size() == rank,
                fmt::format("want before and after for each axis of {}", shape_text(x)));
  Shape shape;
  for (int axis = 0; check.ok() && axis < x.rank(); ++axis) {
    const int64_t before = pad.before[axis], after = pad.after[axis];
    check.require(before >= 0 && after >= 0 && before <= kMaxDim && after <= kMaxDim,
                  fmt::format("axis {}: want 0 to 2^40 elements before and after, got {} and {}", axis, before, after));
    if (pad.mode != PadAttrs::Mode::constant && before + after > 0) {
      const int64_t least = pad.mode == PadAttrs::Mode::reflect ? std::max(before, after) + 1 : 1;
      check.require(x[axis].is_constant() && x[axis].constant() >= least,
                    fmt::format("axis {} of {} is too short for {} elements before and {} after", axis, shape_text(x), before, after));
    }
    shape.push_back(x[axis] + Dim(before) + Dim(after));
  }
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(inputs[0].dtype, shape)});
}

// The element of an axis of `dim` elements that stands `at` places from its begin, inside or outside; -1 for the constant.
int64_t padded_place(PadAttrs::Mode mode, int64_t at, int64_t dim) {
  if (at >= 0 && at < dim) return at;
  switch (mode) {
    case PadAttrs::Mode::constant:
      return -1;
    case PadAttrs::Mode::edge:
      return at < 0 ? 0 : dim - 1;
    case PadAttrs::Mode::reflect:
      return at < 0 ? -at : 2 * (dim - 1) - at;
    case PadAttrs::Mode::wrap:
      return (at % dim + dim) % dim;
  }
  return -1;
}

void reference_pad(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& pad = attrs.as<PadAttrs>();
  const HostTensor& x = inputs[0].tensor;
  const std::vector<int64_t> strides = packed_strides(x.dims);
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    const std::vector<int64_t> place = place_of(outputs[0].dims, static_cast<int64_t>(i));
    int64_t from = 0;
    for (size_t axis = 0; from >= 0 && axis < place.size(); ++axis) {
      const int64_t at = padded_place(pad.mode, place[axis] - pad.before[axis], x.dims[axis]);
      from = at < 0 ? -1 : from + at * strides[axis];
    }
    outputs[0].values[i] = from < 0 ? pad.value : x.values[from];
  }
}

std::vector<OpCase> cases_pad() {
  using Mode = PadAttrs::Mode;
  std::vector<OpCase> all = {
      case_of("zeros", PadAttrs{Mode::constant, {1, 2}, {0, 3}}, {filled({4, 7})}),
      case_of("value", PadAttrs{Mode::constant, {0, 1, 1, 0}, {0, 1, 2, 0}, -2.5}, {filled({2, 3, 4, 5})}),
      case_of("integers", PadAttrs{Mode::constant, {1}, {2}, 7}, {filled({5}, DType::i64)}),
      case_of("halves", PadAttrs{Mode::constant, {0, 1}, {0, 0}, 0.5}, {filled({5, 3}, DType::f16)}),
      case_of("booleans", PadAttrs{Mode::constant, {1, 1}, {1, 1}, 1}, {filled({3, 3}, DType::boolean)}),
      case_of("nothing_to_pad_with", PadAttrs{Mode::constant, {0, 0}, {0, 0}}, {filled({3, 5})}),
      case_of("of_nothing", PadAttrs{Mode::constant, {2, 1}, {0, 1}, 3}, {filled({0, 5})}),
      case_of("strided", PadAttrs{Mode::constant, {1, 1}, {1, 1}}, {filled({3, 9}, DType::f32, true)}),
  };
  for (const auto& [mode, name] : {std::pair(Mode::edge, "edge"), std::pair(Mode::reflect, "reflect"), std::pair(Mode::wrap, "wrap")}) {
    all.push_back(case_of(name, PadAttrs{mode, {1, 0, 3}, {0, 2, 2}}, {filled({2, 4, 5})}));
    all.push_back(case_of(std::string(name) + "_bytes", PadAttrs{mode, {2, 1}, {2, 1}}, {filled({3, 3}, DType::u8)}));
  }
  all.push_back(case_of("far_wrap", PadAttrs{Mode::wrap, {7}, {8}}, {filled({3})}));
  all.push_back(case_of("image_border", PadAttrs{Mode::constant, {0, 1, 1, 0}, {0, 1, 1, 0}}, {filled({8, 112, 112, 64})}, true));
  all.push_back(case_of("image_reflect", PadAttrs{Mode::reflect, {0, 3, 3, 0}, {0, 3, 3, 0}}, {filled({8, 112, 112, 64})}, true));
  return all;
}

// ---- expand -------------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_expand(std::span<const ValueType> inputs, const Attrs& attrs) {
  const std::vector<int64_t>& dims = attrs.as<ExpandAttrs>().dims;
  InputCheck check("expand", inputs, {"x"});
  check.any_tensor(0).require(dims.size() <= kMaxRank, fmt::format("want at most {} dims, got {}", kMaxRank, dims.size()));
  for (const int64_t dim : dims)
    check.require(dim >= 0 && dim <= kMaxDim, fmt::format("dims {} must not be negative or beyond 2^40", list_text(dims)));
  if (!check.ok()) return check.outputs({});
  const std::optional<Shape> shape = broadcast(inputs[0].shape, shape_of(dims));
  check.require(shape.has_value(), fmt::format("{} of x does not broadcast to {}", shape_text(inputs[0].shape), list_text(dims)));
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(inputs[0].dtype, *shape)});
}

void reference_expand(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& x = inputs[0].tensor;
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    outputs[0].values[i] = x.values[broadcast_index(x.dims, outputs[0].dims, static_cast<int64_t>(i))];
  }
}

std::vector<OpCase> cases_expand() {
  return {
      case_of("rows", ExpandAttrs{{5, 19}}, {filled({19})}),
      case_of("columns", ExpandAttrs{{5, 19}}, {filled({5, 1})}),
      case_of("scalar", ExpandAttrs{{3, 7}}, {filled({})}),
      case_of("middle", ExpandAttrs{{2, 3, 4}}, {filled({2, 1, 4}, DType::i64)}),
      case_of("keeps_larger", ExpandAttrs{{1, 4}}, {filled({3, 1}, DType::f16)}),
      case_of("booleans", ExpandAttrs{{2, 2, 5}}, {filled({2, 1, 1}, DType::boolean)}),
      case_of("same", ExpandAttrs{{3, 5}}, {filled({3, 5})}),
      case_of("strided", ExpandAttrs{{2, 3, 5}}, {filled({3, 5}, DType::f32, true)}),
      case_of("nothing", ExpandAttrs{{0, 5}}, {filled({5})}),
      case_of("grouped_heads", ExpandAttrs{{1, 8, 4, 128, 64}}, {filled({1, 8, 1, 128, 64})}, true),
  };
}

// ---- gather -------------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_gather(std::span<const ValueType> inputs, const Attrs& attrs) {
  const int32_t axis = attrs.as<GatherAttrs>().axis;
  InputCheck check("gather", inputs, {"x", "index"});
  check.any_tensor(0).any_tensor(1);
  if (!check.ok()) return check.outputs({});
  const Shape &x = inputs[0].shape, &index = inputs[1].shape;
  check.require(inputs[1].dtype == DType::i32 || inputs[1].dtype == DType::i64,
                fmt::format("input 1 (index): want i32 or i64, got {}", describe(inputs[1])));
  check.require(axis >= 0 && axis < x.rank(), fmt::format("axis {} does not lie within {} of x", axis, shape_text(x)));
  check.require(x.rank() - 1 + index.rank() <= kMaxRank, fmt::format("the output would have more than {} axes", kMaxRank));
  if (!check.ok()) return check.outputs({});
  Shape shape;
  for (int a = 0; a < axis; ++a) shape.push_back(x[a]);
  for (const Dim& dim : index) shape.push_back(dim);
  for (int a = axis + 1; a < x.rank(); ++a) shape.push_back(x[a]);
  return check.outputs({ValueType::tensor(inputs[0].dtype, shape)});
}

// Only the rows that are picked are read.
Cost cost_gather(const NodeSizes& sizes) {
  return {.flops = 0, .bytes = 2 * value_bytes(sizes.outputs[0], sizes.bindings) + value_bytes(sizes.inputs[1], sizes.bindings)};
}

// What an index outside picks has no meaning; kernels give zeros.
void reference_gather(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const int32_t axis = attrs.as<GatherAttrs>().axis;
  const HostTensor &x = inputs[0].tensor, &index = inputs[1].tensor;
  const int64_t dim = x.dims[axis], inner = elements_of({x.dims.begin() + axis + 1, x.dims.end()});
  const auto picks = static_cast<int64_t>(index.values.size());
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t outer = at / inner / picks;
    auto row = static_cast<int64_t>(index.values[at / inner % picks]);
    if (row < 0) row += dim;
    const bool inside = row >= 0 && row < dim;
    outputs[0].values[i] = inside ? x.values[(outer * dim + row) * inner + at % inner] : 0;
  }
}

std::vector<OpCase> cases_gather() {
  const auto index = [](std::vector<int64_t> dims, std::vector<double> values, DType dtype = DType::i64) {
    return CaseInput{.dtype = dtype, .dims = std::move(dims), .scale = 30522, .values = std::move(values)};
  };
  return {
      case_of("rows", GatherAttrs{0}, {filled({5, 19}), index({4}, {0, 4, 4, 2})}),
      case_of("from_the_end", GatherAttrs{0}, {filled({5, 19}), index({3}, {-1, -5, 1}, DType::i32)}),
      case_of("columns", GatherAttrs{1}, {filled({5, 19}), index({3}, {18, 0, 7})}),
      case_of("middle_by_matrix", GatherAttrs{1}, {filled({2, 3, 4}, DType::f16), index({2, 2}, {0, 2, 1, 1})}),
      case_of("one_place", GatherAttrs{1}, {filled({2, 3, 4}, DType::i64), index({}, {2})}),
      case_of("element", GatherAttrs{0}, {filled({6}, DType::u8), index({}, {-2})}),
      case_of("strided", GatherAttrs{0}, {filled({5, 19}, DType::f32, true), index({2}, {3, 1})}),
      case_of("outside_gives_zeros", GatherAttrs{0}, {filled({4, 8}), index({4}, {-5, 4, 2, 9e15})}),
      case_of("none", GatherAttrs{0}, {filled({4, 8}), index({0}, {})}),
      case_of("from_nothing", GatherAttrs{0}, {filled({0, 8}), index({1}, {0})}),
      case_of("bert_words", GatherAttrs{0}, {filled({30522, 768}), index({8, 128}, {})}, true),
  };
}

// ---- where --------------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_where(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("where", inputs, {"condition", "a", "b"});
  check.tensor(0, DType::boolean).any_tensor(1).any_tensor(2);
  if (check.ok())
    check.require(inputs[1].dtype == inputs[2].dtype,
                  fmt::format("a and b must be of one dtype, got {} and {}", describe(inputs[1]), describe(inputs[2])));
  if (!check.ok()) return check.outputs({});
  std::optional<Shape> shape = broadcast(inputs[1].shape, inputs[2].shape);
  if (shape) shape = broadcast(inputs[0].shape, *shape);
  check.require(shape.has_value(), fmt::format("shapes {} of condition, {} of a and {} of b do not broadcast", shape_text(inputs[0].shape),
                                               shape_text(inputs[1].shape), shape_text(inputs[2].shape)));
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(inputs[1].dtype, *shape)});
}

void reference_where(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto at = [&](int input, size_t i) {
    const HostTensor& x = inputs[input].tensor;
    return x.values[broadcast_index(x.dims, outputs[0].dims, static_cast<int64_t>(i))];
  };
  for (size_t i = 0; i < outputs[0].values.size(); ++i) outputs[0].values[i] = at(0, i) != 0 ? at(1, i) : at(2, i);
}

std::vector<OpCase> cases_where() {
  const auto condition = [](std::vector<int64_t> dims) { return filled(std::move(dims), DType::boolean); };
  const WhereAttrs attrs;
  return {
      case_of("same", attrs, {condition({5, 37}), filled({5, 37}), filled({5, 37})}),
      case_of("scalars", attrs, {condition({5, 37}), filled({}), filled({1})}),
      case_of("mask", attrs, {condition({2, 1, 5, 17}), filled({2, 3, 5, 17}), filled({})}),
      case_of("rows", attrs, {condition({5, 1}), filled({5, 6}), filled({6})}),
      case_of("integers", attrs, {condition({7}), filled({3, 7}, DType::i64), filled({3, 1}, DType::i64)}),
      case_of("bytes", attrs, {condition({3, 7}), filled({7}, DType::u8), filled({3, 7}, DType::u8)}),
      case_of("halves", attrs, {condition({}), filled({3, 7}, DType::f16), filled({3, 7}, DType::f16)}),
      case_of("strided", attrs, {condition({3, 7}), filled({3, 7}, DType::f32, true), filled({3, 7}, DType::f32, true)}),
      case_of("empty", attrs, {condition({0, 7}), filled({0, 7}), filled({7})}),
      case_of("attention_mask", attrs, {condition({8, 1, 128, 128}), filled({8, 12, 128, 128}), filled({})}, true),
  };
}

std::vector<HostValue> where_row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  return broadcast_row_alone(inputs, row);
}

// ---- cast ---------------------------------------------------------------------------------------

constexpr DType kCastTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64,    DType::i8,
                                DType::u8,  DType::i32, DType::i64,  DType::boolean};
bool casts(DType dtype) { return std::find(std::begin(kCastTypes), std::end(kCastTypes), dtype) != std::end(kCastTypes); }
bool is_real(DType dtype) { return is_float(dtype) || dtype == DType::f64; }

Result<std::vector<ValueType>> infer_cast(std::span<const ValueType> inputs, const Attrs& attrs) {
  const DType to = attrs.as<CastAttrs>().to;
  InputCheck check("cast", inputs, {"x"});
  check.any_tensor(0);
  if (!check.ok()) return check.outputs({});
  check.require(casts(to) && casts(inputs[0].dtype), fmt::format("{} to {} is not among f32, f16, bf16, f64, i8, u8, i32, i64 and bool",
                                                                 dtype_name(inputs[0].dtype), dtype_name(to)));
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(to, inputs[0].shape)});
}

Cost cost_cast(const NodeSizes& sizes) {
  return {.flops = static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

// Integers keep the low bits that fit.
double as_integer(DType to, double value) {
  const auto whole = static_cast<int64_t>(std::trunc(value));
  switch (to) {
    case DType::i8:
      return static_cast<int8_t>(whole);
    case DType::u8:
      return static_cast<uint8_t>(whole);
    case DType::i32:
      return static_cast<int32_t>(whole);
    default:
      return static_cast<double>(whole);
  }
}

// Rounding to a half float is the tolerance's.
void reference_cast(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const DType to = attrs.as<CastAttrs>().to;
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    const double x = inputs[0].tensor.values[i];
    outputs[0].values[i] = to == DType::boolean ? x != 0 : is_real(to) ? x : as_integer(to, x);
  }
}

// Half a unit in the last place; of f16 the least number is 2^-24.
Tolerance tolerance_cast(std::span<const ValueType>, const Attrs& attrs) {
  switch (attrs.as<CastAttrs>().to) {
    case DType::f16:
      return {.absolute = 0x1p-25, .relative = 0x1p-11};
    case DType::bf16:
      return {.absolute = 0, .relative = 0x1p-8};
    case DType::f32:
      return {.absolute = 0x1p-150, .relative = 0x1p-24};
    default:
      return {0, 0};
  }
}

std::vector<OpCase> cases_cast() {
  std::vector<OpCase> all;
  for (const DType from : kCastTypes) {
    for (const DType to : kCastTypes) {
      CaseInput x{.dtype = from, .dims = {2, 20}, .scale = is_real(from) ? 30.0 : 100.0};
      if (is_real(from) && is_real(to)) {
        constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
        x.values = {0.0, -0.0, 1.0,  -1.5,  0.1,  65504,     -6e-8, 1e-5, kNan, kInfinity, -kInfinity, 3.14159, 2.5, -2.5,
                    1e3, 2049, 2051, -7e-3, 5e-5, 0.3333333, 1,     2,    3,    4,         5,          6,       7,   8,
                    9,   10,   11,   12,    13,   14,        15,    16,   17,   18,        19,         20};
      } else if (is_real(from)) {
        x.values = {0.0, -0.0, 1.0, 1.5, 0.1, 100.9, 0.9, 1e-5, 7, 8,  9,  3.14159, 2.5, 0.5, 99, 127, 3,  0.007, 5e-5, 0.3333333,
                    1,   2,    3,   4,   5,   6,     7,   8,    9, 10, 11, 12,      13,  14,  15, 16,  17, 18,    19,   20};
      } else if (from == DType::boolean) {
        x.scale = 2;
      }
      const bool is_negative = is_real(from) && to != DType::u8 && to != DType::boolean && !is_real(to);
      for (size_t i = 20; is_negative && i < 40; ++i) x.values[i] *= -1.25;
      all.push_back(case_of(fmt::format("{}_to_{}", dtype_name(from), dtype_name(to)), CastAttrs{to}, {x}));
    }
  }
  all.push_back(case_of("wide_integers", CastAttrs{DType::i32},
                        {CaseInput{.dtype = DType::i64, .dims = {4}, .values = {1e12, -1e12, 2147483648.0, -1}}}));
  all.push_back(case_of("strided", CastAttrs{DType::f16}, {filled({5, 37}, DType::f32, true)}));
  all.push_back(case_of("empty", CastAttrs{DType::i64}, {filled({0, 37})}));
  all.push_back(case_of("no_axes", CastAttrs{DType::i64}, {filled({})}));
  all.push_back(case_of("mask_to_floats", CastAttrs{DType::f32}, {filled({8, 12, 128, 128}, DType::boolean)}, true));
  all.push_back(case_of("ids_to_floats", CastAttrs{DType::f32}, {filled({1024, 1024}, DType::i64)}, true));
  all.push_back(case_of("floats_to_ids", CastAttrs{DType::i64}, {filled({1024, 1024})}, true));
  all.push_back(case_of("to_halves", CastAttrs{DType::f16}, {filled({1024, 3072})}, true));
  all.push_back(case_of("from_halves", CastAttrs{DType::f32}, {filled({1024, 3072}, DType::f16)}, true));
  return all;
}

}  // namespace

const Op reshape{
    .name = "reshape",
    .effects = {.view = true},
    .infer = infer_reshape,
    .cost = no_cost,
    .reference = reference_reshape,
    .view = view_reshape,
    .tolerance = exact,
    .cases = cases_reshape,
    .row_alone = no_row_alone,
};

const Op transpose{
    .name = "transpose",
    .infer = infer_transpose,
    .cost = cost_of_output,
    .reference = reference_transpose,
    .tolerance = exact,
    .cases = cases_transpose,
    .row_alone = no_row_alone,
};

const Op concat{
    .name = "concat",
    .infer = infer_concat,
    .cost = cost_of_output,
    .reference = reference_concat,
    .tolerance = exact,
    .cases = cases_concat,
    .row_alone = no_row_alone,
};

const Op slice{
    .name = "slice",
    .infer = infer_slice,
    .cost = cost_of_output,
    .reference = reference_slice,
    .tolerance = exact,
    .cases = cases_slice,
    .row_alone = no_row_alone,
};

const Op pad{
    .name = "pad",
    .infer = infer_pad,
    .cost = cost_of_all,
    .reference = reference_pad,
    .tolerance = exact,
    .cases = cases_pad,
    .row_alone = no_row_alone,
};

const Op expand{
    .name = "expand",
    .infer = infer_expand,
    .cost = cost_of_all,
    .reference = reference_expand,
    .tolerance = exact,
    .cases = cases_expand,
    .row_alone = no_row_alone,
};

const Op gather{
    .name = "gather",
    .infer = infer_gather,
    .cost = cost_gather,
    .reference = reference_gather,
    .tolerance = exact,
    .cases = cases_gather,
    .row_alone = no_row_alone,
};

const Op where{
    .name = "where",
    .infer = infer_where,
    .cost = cost_of_all,
    .reference = reference_where,
    .tolerance = exact,
    .cases = cases_where,
    .row_alone = where_row_alone,
};

const Op cast{
    .name = "cast",
    .infer = infer_cast,
    .cost = cost_cast,
    .reference = reference_cast,
    .tolerance = tolerance_cast,
    .cases = cases_cast,
};

}  // namespace headrace::ops
