// Operators that move elements: their output dims are known, so what remains is from where.
#include <algorithm>

#include "onnx/lower.h"

namespace headrace::onnx {
namespace {

bool has_bytes(const LowerContext& context) { return context.dtype(0) != DType::string; }

// Reshape, Flatten, Squeeze, Unsqueeze: the same elements under the output's dims.
bool same_elements(LowerContext& context) {
  if (!has_bytes(context)) return false;
  context.set(0, context.reshape(context.input(0), context.output_dims(0)));
  return true;
}

bool transpose(LowerContext& context) {
  const int rank = context.rank(0);
  std::vector<int64_t> reversed;
  for (int axis = rank; axis-- > 0;) reversed.push_back(axis);
  const Result<std::vector<int64_t>> perm = context.integers("perm", reversed);
  if (!perm) return false;
  std::vector<int32_t> axes;
  for (const int64_t given : *perm) {
    const Result<int> axis = normalize_axis(given, rank);
    if (!axis) return false;
    axes.push_back(*axis);
  }
  context.set(0, context.transpose(context.input(0), std::move(axes)));
  return true;
}

std::optional<int> axis_of(const LowerContext& context, int64_t otherwise, int rank) {
  const Result<int64_t> axis = context.integer("axis", otherwise);
  if (!axis) return std::nullopt;
  const Result<int> known = normalize_axis(*axis, rank);
  return known ? std::optional(*known) : std::nullopt;
}

bool concat(LowerContext& context) {
  const std::optional<int> axis = axis_of(context, 0, context.rank(0));
  if (!axis) return false;
  std::vector<ValueId> inputs;
  for (int i = 0; i < context.num_inputs(); ++i) inputs.push_back(context.input(i));
  context.set(0, inputs.size() == 1 ? inputs[0] : context.emit(ops::concat, ops::ConcatAttrs{*axis}, std::move(inputs)));
  return true;
}

// Elements from `begin` on, `step` apart, as many as `size` says.
ValueId slice_of(LowerContext& context, std::vector<int64_t> begin, std::vector<int64_t> step, Dims size) {
  const bool whole = size == context.dims(0) && std::ranges::all_of(step, [](int64_t s) { return s == 1; });
  if (whole) return context.input(0);
  return context.emit(ops::slice, ops::SliceAttrs{std::move(begin), std::move(step), std::move(size)}, {context.input(0)});
}

bool slice(LowerContext& context) {
  const Dims dims = context.dims(0);
  std::optional<std::vector<int64_t>> starts, axes, steps;
  if (context.opset() < 10) {
    const auto given = context.NodeReader::integers("starts", {}), along = context.NodeReader::integers("axes", {});
    if (!given || !along) return false;
    starts = *given;
    if (context.has("axes")) axes = *along;
  } else {
    starts = context.integers(1);
    if (context.has_input(3) && !(axes = context.integers(3))) return false;
    if (context.has_input(4) && !(steps = context.integers(4))) return false;
  }
  if (!starts) return context.decline("starts that are computed");
  if ((axes && axes->size() != starts->size()) || (steps && steps->size() != starts->size())) return false;
  std::vector<int64_t> begin(dims.size(), 0), step(dims.size(), 1);
  for (size_t i = 0; i < starts->size(); ++i) {
    const Result<int> axis = normalize_axis(axes ? (*axes)[i] : static_cast<int64_t>(i), context.rank(0));
    if (!axis) return false;
    const auto at = static_cast<size_t>(*axis);
    step[at] = steps && context.output_dims(0)[at] > 1 ? (*steps)[i] : 1;
    const int64_t from = (*starts)[i] < 0 ? (*starts)[i] + dims[at] : (*starts)[i];
    // A single place may be taken with any step; the last one is as far as any goes.
    begin[at] = std::clamp<int64_t>(from, 0, std::max<int64_t>(0, dims[at] - 1));
  }
  context.set(0, slice_of(context, std::move(begin), std::move(step), context.output_dims(0)));
  return true;
}

bool split(LowerContext& context) {
  const std::optional<int> axis = axis_of(context, 0, context.rank(0));
  if (!axis) return false;
  std::vector<int64_t> begin(context.dims(0).size(), 0);
  for (int i = 0; i < context.num_outputs(); ++i) {
    if (!context.wants_output(i)) return context.decline("outputs that nobody reads");
    const Dims size = context.output_dims(i);
    context.set(i, slice_of(context, begin, std::vector<int64_t>(size.size(), 1), size));
    begin[static_cast<size_t>(*axis)] += size[static_cast<size_t>(*axis)];
  }
  return true;
}

bool pad(LowerContext& context) {
  const Result<std::string> mode = context.text("mode", "constant");
  std::optional<std::vector<int64_t>> pads, axes;
  std::optional<double> value = 0;
  if (context.opset() < 11) {
    const auto given = context.NodeReader::integers("pads", {});
    const Result<float> number = context.number("value", 0.0f);
    if (!given || !number) return false;
    pads = *given;
    value = *number;
  } else {
    pads = context.integers(1);
    if (context.has_input(2)) {
      value.reset();
      const Tensor* constant = context.constant(2);
      if (constant == nullptr || constant->elements() != 1) return false;
      dispatch<float, double, int32_t, int8_t, uint8_t, bool>(
          constant->dtype(), [&]<class T>() { value = static_cast<double>(*constant->data<T>()); });
    }
    if (context.has_input(3) && !(axes = context.integers(3))) return false;
  }
  if (!mode || !pads || !value) return context.decline("pads or a value that are computed");
  ops::PadAttrs attrs;
  if (*mode == "edge") attrs.mode = ops::PadAttrs::Mode::edge;
  else if (*mode == "reflect") attrs.mode = ops::PadAttrs::Mode::reflect;
  else if (*mode == "wrap") attrs.mode = ops::PadAttrs::Mode::wrap;
  else if (*mode != "constant") return false;
  const Dims dims = context.dims(0);
  attrs.before.assign(dims.size(), 0);
  attrs.after.assign(dims.size(), 0);
  attrs.value = *value;
  const size_t count = pads->size() / 2;
  if (axes && axes->size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    const Result<int> axis = normalize_axis(axes ? (*axes)[i] : static_cast<int64_t>(i), context.rank(0));
    if (!axis) return false;
    const auto at = static_cast<size_t>(*axis);
    attrs.before[at] = (*pads)[i];
    attrs.after[at] = (*pads)[count + i];
    const bool fits = attrs.mode != ops::PadAttrs::Mode::reflect || (attrs.before[at] < dims[at] && attrs.after[at] < dims[at]);
    const bool from_something = attrs.mode == ops::PadAttrs::Mode::constant || dims[at] > 0;
    const bool wraps_once = attrs.mode != ops::PadAttrs::Mode::wrap || (attrs.before[at] <= dims[at] && attrs.after[at] <= dims[at]);
    if (attrs.before[at] < 0 || attrs.after[at] < 0 || !fits || !from_something || !wraps_once) {
      return context.decline("pads below 0 or beyond the dim");
    }
  }
  context.set(0, context.emit(ops::pad, std::move(attrs), {context.input(0)}));
  return true;
}

bool expand(LowerContext& context) {
  if (!has_bytes(context)) return false;
  const Dims dims = context.output_dims(0);
  context.set(0, dims == context.dims(0) ? context.input(0) : context.emit(ops::expand, ops::ExpandAttrs{dims}, {context.input(0)}));
  return true;
}

// Each repeated axis d becomes [1, d], is broadcast to [r, d] and joined again.
bool tile(LowerContext& context) {
  const Dims from = context.dims(0), to = context.output_dims(0);
  Dims split_dims, wide;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == 0) return false;
    if (to[axis] != from[axis]) {
      split_dims.push_back(1);
      wide.push_back(to[axis] / from[axis]);
    }
    split_dims.push_back(from[axis]);
    wide.push_back(from[axis]);
  }
  if (split_dims.size() > static_cast<size_t>(kMaxRank)) return false;
  ValueId value = context.reshape(context.input(0), split_dims);
  if (wide != split_dims) value = context.emit(ops::expand, ops::ExpandAttrs{wide}, {value});
  context.set(0, context.reshape(value, to));
  return true;
}

bool gather(LowerContext& context) {
  const std::optional<int> axis = axis_of(context, 0, context.rank(0));
  if (!axis || !has_bytes(context)) return false;
  context.set(0, context.emit(ops::gather, ops::GatherAttrs{*axis}, {context.input(0), context.input(1)}));
  return true;
}

// Which of channels and blocks comes first, from the opset on that has the attribute.
Result<std::string> block_mode(const LowerContext& context, int64_t since) {
  return context.opset() < since ? Result<std::string>("DCR") : context.text("mode", "DCR");
}

// [N, C, H, W] with blocks of b x b: [N, b, b, C / b^2, H, W] (or with the channels before the blocks) and back.
bool depth_to_space(LowerContext& context) {
  const Result<int64_t> block = context.integer("blocksize", 0);
  const Result<std::string> mode = block_mode(context, 11);
  const Dims x = context.dims(0);
  if (!block || !mode || *block < 1 || x.size() != 4) return false;
  const int64_t b = *block, c = x[1] / (b * b);
  const bool depth_first = *mode == "DCR";
  ValueId value = context.reshape(context.input(0), depth_first ? Dims{x[0], b, b, c, x[2], x[3]} : Dims{x[0], c, b, b, x[2], x[3]});
  value = context.transpose(value, depth_first ? std::vector<int32_t>{0, 3, 4, 1, 5, 2} : std::vector<int32_t>{0, 1, 4, 2, 5, 3});
  context.set(0, context.reshape(value, context.output_dims(0)));
  return true;
}
bool space_to_depth(LowerContext& context) {
  const Result<int64_t> block = context.integer("blocksize", 0);
  const Result<std::string> mode = block_mode(context, 28);
  const Dims x = context.dims(0);
  if (!block || !mode || *block < 1 || x.size() != 4) return false;
  const int64_t b = *block;
  ValueId value = context.reshape(context.input(0), {x[0], x[1], x[2] / b, b, x[3] / b, b});
  value = context.transpose(value, *mode == "DCR" ? std::vector<int32_t>{0, 3, 5, 1, 2, 4} : std::vector<int32_t>{0, 1, 3, 5, 2, 4});
  context.set(0, context.reshape(value, context.output_dims(0)));
  return true;
}

constexpr LowerRow kRows[] = {
    {"Concat", concat},        {"DepthToSpace", depth_to_space}, {"Expand", expand},        {"Flatten", same_elements},
    {"Gather", gather},        {"Pad", pad},                     {"Reshape", same_elements}, {"Slice", slice},
    {"SpaceToDepth", space_to_depth}, {"Split", split},           {"Squeeze", same_elements}, {"Tile", tile},
    {"Transpose", transpose},  {"Unsqueeze", same_elements},
};

}  // namespace

std::span<const LowerRow> lower_movement();
std::span<const LowerRow> lower_movement() { return kRows; }

}  // namespace headrace::onnx
