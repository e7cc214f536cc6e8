// Operators that move elements without looking at them: to other places, more than once, or not at all.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

// Which axis of the input stands at each place of the output.
Result<std::vector<int>> perm_of(const NodeReader& context, int rank) {
  std::vector<int> perm(static_cast<size_t>(rank));
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (context.has("perm")) {
    HR_ASSIGN_OR_RETURN(const Dims given, context.integers("perm", {}));
    HR_ASSIGN_OR_RETURN(perm, normalize_axes(given, rank));
    if (std::ssize(perm) != rank) return error(Code::malformed, "perm [{}]: want all {} axes", fmt::join(given, ", "), rank);
  }
  return perm;
}

Status transpose(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::vector<int> perm, perm_of(context, input->rank()));
  HR_ASSIGN_OR_RETURN(Tensor output, transposed(context, *input, perm));
  context.set(0, std::move(output));
  return {};
}

Status expand(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Dims wanted, context.integers(1));
  HR_ASSIGN_OR_RETURN(const Dims dims, broadcast(input->dims(), wanted));
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *input, dims));
  copy_strided(*output, *input, broadcast_strides(input->dims(), dims));
  return {};
}

Status tile(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Dims repeats, context.integers(1));
  if (std::ssize(repeats) != input->rank())
    return make_status(Code::malformed, "repeats: want {}, got {}", input->rank(), repeats.size());
  Dims dims = input->dims();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (repeats[axis] < 0) return make_status(Code::malformed, "repeats [{}]: want none below 0", fmt::join(repeats, ", "));
    if (dims[axis] != 0 && repeats[axis] > kMaxElements / dims[axis]) {
      return make_status(Code::resource_exhausted, "dims [{}] repeated [{}] times", fmt::join(dims, ", "),
                         fmt::join(repeats, ", "));
    }
    dims[axis] *= repeats[axis];
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *input, dims));
  if (output->elements() == 0) return {};
  const Dims strides = contiguous_strides(input->dims());
  Dims index(dims.size(), 0);
  int64_t at = 0;
  do {
    int64_t source = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis) source += index[axis] % input->dims()[axis] * strides[axis];
    copy_elements(*output, at++, *input, source);
  } while (next_index(index, dims));
  return {};
}

Status concat(OpContext& context) {
  std::vector<Tensor> parts;
  for (int i = 0; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(i));
    parts.push_back(*input);
  }
  if (parts.empty() || !context.has("axis")) return make_status(Code::malformed, "want inputs and an axis");
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, parts[0].rank()));
  HR_ASSIGN_OR_RETURN(Tensor all, concatenated(context, parts, axis));
  context.set(0, std::move(all));
  return {};
}

// The lengths of `length` in `count` parts: as the operator's opset has it.
Result<Dims> equal_parts(int64_t length, int64_t count, bool last_may_be_shorter) {
  if (count < 1) return error(Code::malformed, "want at least one part, got {}", count);
  if (!last_may_be_shorter && length % count != 0)
    return error(Code::malformed, "{} does not split into {} equal parts", length, count);
  const int64_t most = length / count + (length % count != 0 ? 1 : 0);
  Dims lengths;
  for (int64_t left = length; count > 0; --count) {
    lengths.push_back(std::min(most, left));
    left -= lengths.back();
  }
  return lengths;
}

Status split(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, input->rank()));
  Dims lengths;
  if (context.opset() < 13 && context.has("split")) {
    HR_ASSIGN_OR_RETURN(lengths, context.integers("split", {}));
  } else if (context.opset() >= 13 && context.has_input(1)) {
    if (context.has("num_outputs")) return make_status(Code::malformed, "both split and num_outputs");
    HR_ASSIGN_OR_RETURN(lengths, context.integers(1));
  } else {
    HR_ASSIGN_OR_RETURN(const int64_t count, context.integer("num_outputs", context.num_outputs()));
    if (count != context.num_outputs())
      return make_status(Code::malformed, "num_outputs is {}, the node has {}", count, context.num_outputs());
    HR_ASSIGN_OR_RETURN(lengths, equal_parts(input->dim(axis), count, context.opset() >= 18));
  }
  int64_t left = input->dim(axis);
  for (const int64_t length : lengths) {
    if (length < 0 || length > left)
      return make_status(Code::malformed, "split [{}]: want a sum of {}", fmt::join(lengths, ", "), input->dim(axis));
    left -= length;
  }
  if (left != 0)
    return make_status(Code::malformed, "split [{}]: want a sum of {}", fmt::join(lengths, ", "), input->dim(axis));
  if (std::ssize(lengths) != context.num_outputs()) {
    return make_status(Code::malformed, "{} parts, the node has {} outputs", lengths.size(), context.num_outputs());
  }
  int64_t start = 0;
  for (int i = 0; i < context.num_outputs(); ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    HR_ASSIGN_OR_RETURN(Tensor part, part_of(context, *input, axis, start, length));
    context.set(i, std::move(part));
    start += length;
  }
  return {};
}

// The part of an axis of `length` that Slice takes, `step` not 0: as many places as `length` says, from `start` on.
struct AxisSlice {
  int64_t start, length;
};
AxisSlice slice_along(int64_t length, int64_t start, int64_t end, int64_t step) {
  step = std::max(step, -std::numeric_limits<int64_t>::max());
  const auto place = [&](int64_t at, int64_t low, int64_t high) {
    return std::max(low, std::min(at < 0 ? at + length : at, high));
  };
  const int64_t first = step > 0 ? place(start, 0, length) : place(start, 0, length - 1);
  const int64_t last = step > 0 ? place(end, 0, length) : place(end, -1, length - 1);
  const int64_t way = step > 0 ? last - first : length == 0 ? 0 : first - last;
  return {first, way <= 0 ? 0 : (way - 1) / (step > 0 ? step : -step) + 1};
}

Status slice(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  const bool by_input = context.opset() >= 10;
  Dims starts, ends, axes_given, steps;
  if (by_input) {
    HR_ASSIGN_OR_RETURN(starts, context.integers(1));
    HR_ASSIGN_OR_RETURN(ends, context.integers(2));
    if (context.has_input(3)) {
      HR_ASSIGN_OR_RETURN(axes_given, context.integers(3));
    }
    if (context.has_input(4)) {
      HR_ASSIGN_OR_RETURN(steps, context.integers(4));
    }
  } else {
    HR_ASSIGN_OR_RETURN(starts, context.integers("starts", {}));
    HR_ASSIGN_OR_RETURN(ends, context.integers("ends", {}));
    HR_ASSIGN_OR_RETURN(axes_given, context.integers("axes", {}));
  }
  if (!(by_input ? context.has_input(3) : context.has("axes"))) {
    axes_given.resize(starts.size());
    std::iota(axes_given.begin(), axes_given.end(), 0);
  }
  if (!context.has_input(4) || !by_input) steps.assign(starts.size(), 1);
  HR_ASSIGN_OR_RETURN(const std::vector<int> axes, normalize_axes(axes_given, input->rank()));
  if (starts.size() != axes.size() || ends.size() != axes.size() || steps.size() != axes.size()) {
    return make_status(Code::malformed, "{} starts, {} ends, {} axes, {} steps: want as many of each", starts.size(),
                       ends.size(), axes.size(), steps.size());
  }
  Dims dims = input->dims(), strides = contiguous_strides(dims);
  int64_t offset = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    if (steps[i] == 0) return make_status(Code::malformed, "steps: 0 for axis {}", axis);
    const AxisSlice part = slice_along(dims[axis], starts[i], ends[i], steps[i]);
    dims[axis] = part.length;
    if (dims[axis] == 0) continue;
    offset += part.start * strides[axis];
    strides[axis] = dims[axis] == 1 ? strides[axis] : strides[axis] * steps[i];
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *input, dims));
  copy_strided(*output, *input, strides, offset);
  return {};
}

// Where an output's index along one axis comes from: an index of the input, or -1 for padding. The axis has `length` places
// from `first` on that stay, and `before` padding in front of them.
struct PadAxis {
  enum class Mode : uint8_t { constant, reflect, edge, wrap } mode;
  int64_t first, length, before;

  int64_t source(int64_t at) const {
    const int64_t i = at - before;
    if (i >= 0 && i < length) return first + i;
    if (mode == Mode::constant) return -1;
    if (mode == Mode::edge || length == 1) return first + std::clamp<int64_t>(i, 0, length - 1);
    const int64_t period = mode == Mode::wrap ? length : 2 * (length - 1);
    const int64_t turned = (i % period + period) % period;
    return first + (turned < length ? turned : period - turned);
  }
};

void pad_with(Tensor& output, const Tensor& input, const std::vector<PadAxis>& axes, const Tensor& value) {
  if (output.elements() == 0) return;
  const Dims strides = contiguous_strides(input.dims());
  Dims index(axes.size(), 0);
  int64_t at = 0;
  do {
    int64_t source = 0;
    for (size_t axis = 0; axis < axes.size() && source >= 0; ++axis) {
      const int64_t own = axes[axis].source(index[axis]);
      source = own < 0 ? -1 : source + own * strides[axis];
    }
    copy_elements(output, at++, source < 0 ? value : input, std::max<int64_t>(source, 0));
  } while (next_index(index, output.dims()));
}

Result<PadAxis::Mode> pad_mode(const NodeReader& context) {
  HR_ASSIGN_OR_RETURN(const std::string mode, context.text("mode", "constant"));
  if (mode == "constant") return PadAxis::Mode::constant;
  if (mode == "reflect") return PadAxis::Mode::reflect;
  if (mode == "edge") return PadAxis::Mode::edge;
  if (mode == "wrap" && context.opset() >= 19) return PadAxis::Mode::wrap;
  return error(Code::malformed, "mode \"{}\": want constant, reflect, edge{}", mode, context.opset() >= 19 ? " or wrap" : "");
}

Status pad(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const PadAxis::Mode mode, pad_mode(context));
  const int rank = input->rank();
  Dims pads, listed(static_cast<size_t>(rank));
  std::iota(listed.begin(), listed.end(), 0);
  Tensor value(input->dtype(), {});
  if (context.opset() < 11) {
    HR_ASSIGN_OR_RETURN(pads, context.integers("pads", {}));
    HR_ASSIGN_OR_RETURN(const float number, context.number("value", 0));
    const bool known = dispatch<float, double, f16>(
        input->dtype(), [&]<class T>() { *value.data<T>() = from_double<T>(static_cast<double>(number)); });
    if (!known) return wrong_type(input->dtype());
  } else {
    HR_ASSIGN_OR_RETURN(pads, context.integers(1));
    if (context.has_input(2)) {
      HR_ASSIGN_OR_RETURN(const Tensor* given, context.input(2));
      if (given->elements() != 1 || given->dtype() != input->dtype()) {
        return make_status(Code::malformed, "constant_value: want one {}, got {} of {}", dtype_name(input->dtype()),
                           given->elements(), dtype_name(given->dtype()));
      }
      value = given->reshaped({});
    }
    if (context.opset() >= 18 && context.has_input(3)) {
      HR_ASSIGN_OR_RETURN(listed, context.integers(3));
    }
  }
  HR_ASSIGN_OR_RETURN(const std::vector<int> order, normalize_axes(listed, rank));
  if (pads.size() != 2 * order.size())
    return make_status(Code::malformed, "pads: want {}, got {}", 2 * order.size(), pads.size());
  std::vector<PadAxis> axes;
  for (const int64_t dim : input->dims()) axes.push_back({mode, 0, dim, 0});
  Dims dims = input->dims();
  for (size_t i = 0; i < order.size(); ++i) {
    const auto axis = static_cast<size_t>(order[i]);
    const int64_t before = pads[i], after = pads[i + order.size()];
    if (std::min(before, after) < -kMaxElements || std::max(before, after) > kMaxElements || dims[axis] + before + after < 0) {
      return make_status(Code::malformed, "axis {} of {}: pads {} and {}", axis, dims[axis], before, after);
    }
    // What is taken away goes first; what is added looks at the rest.
    PadAxis& own = axes[axis];
    own.first = std::min(std::max<int64_t>(-before, 0), dims[axis]);
    own.length = std::max<int64_t>(dims[axis] - own.first - std::max<int64_t>(-after, 0), 0);
    own.before = std::max<int64_t>(before, 0);
    dims[axis] += before + after;
    if (mode != PadAxis::Mode::constant && own.length == 0 && dims[axis] > 0)
      return make_status(Code::malformed, "axis {}: no elements to pad with", axis);
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *input, dims));
  pad_with(*output, *input, axes, value);
  return {};
}

Status center_crop_pad(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Dims wanted, context.integers(1));
  Dims listed(static_cast<size_t>(input->rank()));
  std::iota(listed.begin(), listed.end(), 0);
  HR_ASSIGN_OR_RETURN(listed, context.integers("axes", listed));
  HR_ASSIGN_OR_RETURN(const std::vector<int> order, normalize_axes(listed, input->rank()));
  if (wanted.size() != order.size())
    return make_status(Code::malformed, "shape: want {} dims, got {}", order.size(), wanted.size());
  std::vector<PadAxis> axes;
  for (const int64_t dim : input->dims()) axes.push_back({PadAxis::Mode::constant, 0, dim, 0});
  Dims dims = input->dims();
  for (size_t i = 0; i < order.size(); ++i) {
    const auto axis = static_cast<size_t>(order[i]);
    const int64_t more = wanted[i] < 0 ? 0 : wanted[i] - dims[axis];
    if (more >= 0) {
      axes[axis].before = more / 2;
    } else {
      axes[axis].first = -more / 2;
      axes[axis].length = wanted[i];
    }
    dims[axis] = wanted[i];
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *input, dims));
  pad_with(*output, *input, axes, Tensor(input->dtype(), {}));
  return {};
}

// Blocks of depth to places and back: a reshape, a transposition, a reshape.
struct Blocks {
  Tensor input;
  int64_t size = 0;
  bool columns_first = false;  // mode CRD
};
Result<int64_t> block_size_of(const NodeReader& context) {
  HR_ASSIGN_OR_RETURN(const int64_t size, context.integer("blocksize", 0));
  if (size < 1 || size > 1 << 20) return error(Code::malformed, "blocksize: want 1 to {}, got {}", 1 << 20, size);
  return size;
}
Result<Blocks> blocks_of(const OpContext& context, int modes_since) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t size, block_size_of(context));
  const std::string standard = "DCR";
  std::string mode = standard;
  if (context.opset() >= modes_since) {
    HR_ASSIGN_OR_RETURN(mode, context.text("mode", standard));
  }
  if (input->rank() != 4) return error(Code::malformed, "want a tensor [N, C, H, W], got [{}]", fmt::join(input->dims(), ", "));
  if (mode != "DCR" && mode != "CRD") return error(Code::malformed, "mode: want DCR or CRD, got \"{}\"", mode);
  return Blocks{*input, size, mode == "CRD"};
}

Status depth_to_space(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Blocks given, blocks_of(context, 11));
  const Tensor& input = given.input;
  const int64_t b = given.size, depth = input.dim(1) / (b * b);
  if (input.dim(1) % (b * b) != 0) return make_status(Code::malformed, "{} channels in blocks of {} x {}", input.dim(1), b, b);
  const int64_t n = input.dim(0), h = input.dim(2), w = input.dim(3);
  const Dims blocks = given.columns_first ? Dims{n, depth, b, b, h, w} : Dims{n, b, b, depth, h, w};
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, count_elements(blocks));
  const Tensor split = input.reshaped(blocks);
  const std::vector<int> perm = given.columns_first ? std::vector<int>{0, 1, 4, 2, 5, 3} : std::vector<int>{0, 3, 4, 1, 5, 2};
  HR_ASSIGN_OR_RETURN(const Tensor moved, transposed(context, split, perm));
  context.set(0, moved.reshaped({n, depth, h * b, w * b}));
  return {};
}

Status space_to_depth(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Blocks given, blocks_of(context, 28));
  const Tensor& input = given.input;
  const int64_t b = given.size, n = input.dim(0), c = input.dim(1), h = input.dim(2) / b, w = input.dim(3) / b;
  if (input.dim(2) % b != 0 || input.dim(3) % b != 0) {
    return make_status(Code::malformed, "[{}] in blocks of {} x {}", fmt::join(input.dims(), ", "), b, b);
  }
  const std::vector<int> perm = given.columns_first ? std::vector<int>{0, 1, 3, 5, 2, 4} : std::vector<int>{0, 3, 5, 1, 2, 4};
  const Dims blocks = {n, c, h, b, w, b};
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, count_elements(blocks));
  HR_ASSIGN_OR_RETURN(const Tensor moved, transposed(context, input.reshaped(blocks), perm));
  context.set(0, moved.reshaped({n, c * b * b, h, w}));
  return {};
}

Status reverse_sequence(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Dims lengths, context.integers(1));
  HR_ASSIGN_OR_RETURN(const int64_t time, context.integer("time_axis", 0));
  HR_ASSIGN_OR_RETURN(const int64_t batch, context.integer("batch_axis", 1));
  if (input->rank() < 2 || time < 0 || time > 1 || batch != 1 - time) {
    return make_status(Code::malformed, "time_axis {} and batch_axis {} of [{}]: want 0 and 1 or 1 and 0", time, batch,
                       fmt::join(input->dims(), ", "));
  }
  const int64_t steps = input->dims()[static_cast<size_t>(time)], rows = input->dims()[static_cast<size_t>(batch)];
  if (std::ssize(lengths) != rows) return make_status(Code::malformed, "sequence_lens: want {}, got {}", rows, lengths.size());
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *input, input->dims()));
  if (output->elements() == 0) return {};
  const int64_t inner = product(input->dims(), 2, input->rank()), row_stride = batch == 0 ? steps : 1,
                step_stride = time == 0 ? rows : 1;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t length = lengths[static_cast<size_t>(row)];
    if (length < 0 || length > steps) return make_status(Code::malformed, "sequence_lens: want 0 to {}, got {}", steps, length);
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t from = step < length ? length - 1 - step : step;
      copy_elements(*output, (row * row_stride + step * step_stride) * inner, *input,
                    (row * row_stride + from * step_stride) * inner, inner);
    }
  }
  return {};
}

Status trilu(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t upper, context.integer("upper", 1));
  int64_t k = 0;
  if (context.has_input(1)) {
    HR_ASSIGN_OR_RETURN(k, integer_input(context, 1));
  }
  if (input->rank() < 2) return make_status(Code::malformed, "want matrices, got [{}]", fmt::join(input->dims(), ", "));
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *input, input->dims()));
  const int64_t rows = input->dim(input->rank() - 2), columns = input->dim(input->rank() - 1);
  for (int64_t at = 0; at < input->elements(); ++at) {
    const int64_t diagonal = at % columns - at / columns % rows;
    if (upper != 0 ? diagonal >= k : diagonal <= k) copy_elements(*output, at, *input, at);
  }
  return {};
}

// ---- types

Status infer_transpose(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  std::optional<Shape> shape;
  if (!x.shape && context.has("perm")) {
    HR_ASSIGN_OR_RETURN(const Dims perm, context.integers("perm", {}));
    shape = unknown_shape(perm.size());
  } else if (x.shape) {
    HR_ASSIGN_OR_RETURN(const std::vector<int> perm, perm_of(context, static_cast<int>(x.shape->size())));
    shape = Shape();
    for (const int axis : perm) shape->push_back((*x.shape)[static_cast<size_t>(axis)]);
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Status infer_expand(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> wanted, context.elements(1));
  std::optional<Shape> shape;
  if (x.shape && wanted) {
    HR_ASSIGN_OR_RETURN(const Shape to, shape_of(*wanted));
    HR_ASSIGN_OR_RETURN(shape, broadcast(*x.shape, to));
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Status infer_tile(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> repeats, context.elements(1));
  std::optional<Shape> shape = x.shape;
  if (shape && repeats && repeats->size() != shape->size()) {
    return make_status(Code::malformed, "repeats: want {}, got {}", shape->size(), repeats->size());
  }
  if (!shape && repeats) shape = unknown_shape(repeats->size());
  for (size_t i = 0; shape && i < shape->size(); ++i) {
    if (repeats && (*repeats)[i].number && *(*repeats)[i].number < 0) return make_status(Code::malformed, "repeats: want none below 0");
    (*shape)[i] = repeats ? product((*shape)[i], dim_of((*repeats)[i])) : Dim();
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Status infer_concat(InferContext& context) {
  if (context.num_inputs() == 0 || !context.has("axis")) return make_status(Code::malformed, "want inputs and an axis");
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  HR_ASSIGN_OR_RETURN(TensorFact whole, context.input(0));
  Dim length = dim_of(0);
  std::optional<Shape> shape;
  for (int i = 0; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(const TensorFact part, context.input(i));
    HR_ASSIGN_OR_RETURN(whole.dtype, same_dtype(whole, part));
    if (!part.shape) {
      length = {};
      continue;
    }
    const int rank = static_cast<int>(part.shape->size());
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, rank));
    const auto at = static_cast<size_t>(axis);
    Shape own = *part.shape;
    // Once unknown it stays so.
    if (i == 0 || is_known(length) || !length.symbol.empty()) length = sum(length, own[at]);
    own[at] = {};
    if (shape) {
      HR_ASSIGN_OR_RETURN(shape, agreed(*shape, own, fmt::format("part {}", i)));
    } else {
      shape = std::move(own);
    }
  }
  if (shape) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, static_cast<int>(shape->size())));
    (*shape)[static_cast<size_t>(axis)] = length;
  }
  context.set(0, whole.dtype, std::move(shape));
  return {};
}

Status infer_split(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  const auto count = static_cast<size_t>(context.num_outputs());
  Elements lengths(count);
  Dim whole;
  int axis = 0;
  if (x.shape) {
    HR_ASSIGN_OR_RETURN(axis, normalize_axis(given, static_cast<int>(x.shape->size())));
    whole = (*x.shape)[static_cast<size_t>(axis)];
  }
  if (context.opset() >= 13 && context.has_input(1)) {
    HR_ASSIGN_OR_RETURN(const std::optional<Elements> listed, context.elements(1));
    if (listed) lengths = *listed;
  } else if (context.opset() < 13 && context.has("split")) {
    HR_ASSIGN_OR_RETURN(const Dims listed, context.integers("split", {}));
    lengths.clear();
    for (const int64_t length : listed) lengths.push_back({length, ""});
  } else {
    HR_ASSIGN_OR_RETURN(const int64_t parts, context.integer("num_outputs", context.num_outputs()));
    if (parts != context.num_outputs()) {
      return make_status(Code::malformed, "num_outputs is {}, the node has {}", parts, context.num_outputs());
    }
    if (is_known(whole)) {
      HR_ASSIGN_OR_RETURN(const Dims equal, equal_parts(whole.value, parts, context.opset() >= 18));
      for (size_t i = 0; i < count; ++i) lengths[i].number = equal[i];
    } else if (parts == 1) {
      lengths[0] = element_of(whole);
    }
  }
  if (lengths.size() != count) return make_status(Code::malformed, "{} parts, the node has {} outputs", lengths.size(), count);
  Dim total = dim_of(0);
  for (const Element& length : lengths) {
    if (length.number && *length.number < 0) return make_status(Code::malformed, "split: want none below 0, got {}", *length.number);
    total = is_known(total) && length.number ? sum(total, dim_of(length)) : Dim();
  }
  if (is_known(total) && is_known(whole) && total.value != whole.value) {
    return make_status(Code::malformed, "split: want a sum of {}, got {}", whole.value, total.value);
  }
  for (size_t i = 0; i < count; ++i) {
    std::optional<Shape> shape = x.shape;
    if (shape) (*shape)[static_cast<size_t>(axis)] = dim_of(lengths[i]);
    context.set(static_cast<int>(i), x.dtype, std::move(shape));
  }
  return {};
}

// One of starts, ends, axes and steps: an input from opset 10 on, an attribute before.
Result<std::optional<Elements>> slice_list(const InferContext& context, int index, const char* name) {
  if (context.opset() >= 10) return context.elements(index);
  HR_ASSIGN_OR_RETURN(const Dims listed, context.integers(name, {}));
  Elements elements;
  for (const int64_t value : listed) elements.push_back({value, ""});
  return std::optional(std::move(elements));
}

Status infer_slice(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> starts, slice_list(context, 1, "starts"));
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> ends, slice_list(context, 2, "ends"));
  const bool by_input = context.opset() >= 10, has_axes = by_input ? context.has_input(3) : context.has("axes"),
             has_steps = by_input && context.has_input(4);
  std::optional<Elements> axes, steps;
  if (has_axes) {
    HR_ASSIGN_OR_RETURN(axes, slice_list(context, 3, "axes"));
  }
  if (has_steps) {
    HR_ASSIGN_OR_RETURN(steps, slice_list(context, 4, "steps"));
  }
  std::optional<Shape> shape = x.shape;
  const bool axes_known =
      starts && ends && (!has_axes || (axes && std::ranges::all_of(*axes, [](const Element& e) { return e.number.has_value(); })));
  if (shape && !axes_known) shape = unknown_shape(shape->size());
  if (shape && axes_known) {
    Dims listed;
    for (size_t i = 0; i < starts->size(); ++i) listed.push_back(static_cast<int64_t>(i));
    if (has_axes) {
      listed.clear();
      for (const Element& axis : *axes) listed.push_back(*axis.number);
    }
    HR_ASSIGN_OR_RETURN(const std::vector<int> order, normalize_axes(listed, static_cast<int>(shape->size())));
    if (starts->size() != order.size() || ends->size() != order.size() || (steps && steps->size() != order.size())) {
      return make_status(Code::malformed, "{} starts, {} ends, {} axes: want as many of each", starts->size(), ends->size(), order.size());
    }
    for (size_t i = 0; i < order.size(); ++i) {
      Dim& dim = (*shape)[static_cast<size_t>(order[i])];
      const Element &start = (*starts)[i], &end = (*ends)[i];
      const Element step = !has_steps ? Element{1, ""} : steps ? (*steps)[i] : Element();
      if (step.number == 0) return make_status(Code::malformed, "steps: 0 for axis {}", order[i]);
      if (is_known(dim) && start.number && end.number && step.number) {
        dim = dim_of(slice_along(dim.value, *start.number, *end.number, *step.number).length);
      } else if (const bool to_the_end = end.number.value_or(0) >= kMaxElements || surely_same(dim_of(end), dim);
                 step.number != 1 || start.number != 0 || !to_the_end) {
        dim = {};
      }
    }
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Status infer_pad(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const PadAxis::Mode mode, pad_mode(context));
  std::optional<Shape> shape = x.shape;
  std::optional<Elements> pads;
  if (context.opset() < 11) {
    HR_ASSIGN_OR_RETURN(const Dims listed, context.integers("pads", {}));
    pads = Elements();
    for (const int64_t pad : listed) pads->push_back({pad, ""});
  } else {
    HR_ASSIGN_OR_RETURN(pads, context.elements(1));
  }
  const bool has_axes = context.opset() >= 18 && context.has_input(3);
  if (shape) {
    std::optional<Dims> listed;
    if (has_axes) {
      HR_ASSIGN_OR_RETURN(listed, context.integers(3));
    } else {
      listed = Dims(shape->size());
      std::iota(listed->begin(), listed->end(), 0);
    }
    if (!pads || !listed) {
      shape = unknown_shape(shape->size());
    } else {
      HR_ASSIGN_OR_RETURN(const std::vector<int> order, normalize_axes(*listed, static_cast<int>(shape->size())));
      if (pads->size() != 2 * order.size()) return make_status(Code::malformed, "pads: want {}, got {}", 2 * order.size(), pads->size());
      for (size_t i = 0; i < order.size(); ++i) {
        Dim& dim = (*shape)[static_cast<size_t>(order[i])];
        const Element &before = (*pads)[i], &after = (*pads)[i + order.size()];
        int64_t length = 0;
        if (before.number == 0 && after.number == 0) continue;
        if (!is_known(dim) || !before.number || !after.number || __builtin_add_overflow(dim.value, *before.number, &length) ||
            __builtin_add_overflow(length, *after.number, &length)) {
          dim = {};
          continue;
        }
        if (length < 0) {
          return make_status(Code::malformed, "axis {} of {}: pads {} and {}", order[i], dim.value, *before.number, *after.number);
        }
        dim = dim_of(length);
      }
    }
  } else if (pads && !has_axes) {
    shape = unknown_shape(pads->size() / 2);
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Status infer_center_crop_pad(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> wanted, context.elements(1));
  std::optional<Shape> shape = x.shape;
  if (shape) {
    Dims listed(shape->size());
    std::iota(listed.begin(), listed.end(), 0);
    HR_ASSIGN_OR_RETURN(listed, context.integers("axes", listed));
    HR_ASSIGN_OR_RETURN(const std::vector<int> order, normalize_axes(listed, static_cast<int>(shape->size())));
    if (wanted && wanted->size() != order.size()) {
      return make_status(Code::malformed, "shape: want {} dims, got {}", order.size(), wanted->size());
    }
    for (size_t i = 0; i < order.size(); ++i) (*shape)[static_cast<size_t>(order[i])] = wanted ? dim_of((*wanted)[i]) : Dim();
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Status infer_depth_to_space(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t size, block_size_of(context));
  HR_RETURN_IF_ERROR(want_rank(x, 4, "input"));
  const Shape from = x.shape.value_or(unknown_shape(4));
  const Dim block = dim_of(size), area = dim_of(size * size);
  if (is_known(from[1]) && from[1].value % area.value != 0) {
    return make_status(Code::malformed, "{} channels in blocks of {} x {}", from[1].value, size, size);
  }
  context.set(
      0, x.dtype,
      Shape{from[0], quotient(std::span(from).subspan(1, 1), std::span(&area, 1)), product(from[2], block), product(from[3], block)});
  return {};
}

Status infer_space_to_depth(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t size, block_size_of(context));
  HR_RETURN_IF_ERROR(want_rank(x, 4, "input"));
  const Shape from = x.shape.value_or(unknown_shape(4));
  const Dim block = dim_of(size);
  for (size_t i = 2; i < 4; ++i) {
    if (is_known(from[i]) && from[i].value % size != 0)
      return make_status(Code::malformed, "{} in blocks of {} x {}", describe(from), size, size);
  }
  const auto part = [&](size_t axis) { return quotient(std::span(from).subspan(axis, 1), std::span(&block, 1)); };
  context.set(0, x.dtype, Shape{from[0], product(from[1], dim_of(size * size)), part(2), part(3)});
  return {};
}

Status infer_reverse_sequence(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_rank_from(x, 2, "input"));
  return infer_same(context);
}

Status infer_trilu(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_rank_from(x, 2, "input"));
  return infer_same(context);
}

constexpr OpRow kRows[] = {
    {"CenterCropPad", 18, center_crop_pad, infer_center_crop_pad},
    {"Concat", 4, concat, infer_concat, kMovesAll},
    {"DepthToSpace", 1, depth_to_space, infer_depth_to_space},
    {"Expand", 8, expand, infer_expand, kMovesFirst},
    {"Pad", 2, pad, infer_pad},
    {"ReverseSequence", 10, reverse_sequence, infer_reverse_sequence},
    {"Slice", 1, slice, infer_slice, kMovesFirst},
    {"SpaceToDepth", 1, space_to_depth, infer_space_to_depth},
    {"Split", 2, split, infer_split, kMovesFirst},
    {"Tile", 6, tile, infer_tile, kMovesFirst},
    {"Transpose", 1, transpose, infer_transpose, kMovesFirst},
    {"Trilu", 14, trilu, infer_trilu},
};

}  // namespace

std::span<const OpRow> ops_movement() { return kRows; }

}  // namespace headrace::onnx
