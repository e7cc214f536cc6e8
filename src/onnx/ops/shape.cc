// Operators that read a tensor's dims or give the same elements other dims.
#include <fmt/format.h>

#include <algorithm>

#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

Status shape(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  const int64_t rank = input->rank();
  HR_ASSIGN_OR_RETURN(int64_t start, context.integer("start", 0));
  HR_ASSIGN_OR_RETURN(int64_t end, context.integer("end", rank));
  const auto place = [&](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank); };
  start = place(start);
  end = std::max(place(end), start);
  context.set(0, Tensor::of<int64_t>({end - start}, Dims(input->dims().begin() + start, input->dims().begin() + end)));
  return {};
}

Status size(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  context.set(0, Tensor::scalar(input->elements()));
  return {};
}

Status reshape(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Dims wanted, context.integers(1));
  HR_ASSIGN_OR_RETURN(const int64_t allow_zero, context.integer("allowzero", 0));
  const auto wrong = [&](const char* why) {
    return make_status(Code::malformed, "dims [{}] as [{}]: {}", fmt::join(input->dims(), ", "), fmt::join(wanted, ", "), why);
  };
  Dims dims = wanted;
  size_t open = dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && allow_zero == 0) {
      if (i >= input->dims().size()) return wrong("a 0 that stands for no dim");
      dims[i] = input->dims()[i];
    } else if (dims[i] == -1) {
      if (open != dims.size()) return wrong("more than one -1");
      open = i;
    }
  }
  if (open != dims.size()) {
    if (allow_zero != 0 && std::ranges::find(dims, 0) != dims.end()) return wrong("both 0 and -1");
    dims[open] = 1;
    HR_ASSIGN_OR_RETURN(const int64_t others, count_elements(dims));
    if (others == 0 ? input->elements() != 0 : input->elements() % others != 0) return wrong("the elements do not fit");
    dims[open] = others == 0 ? 0 : input->elements() / others;
  }
  HR_ASSIGN_OR_RETURN(const int64_t count, count_elements(dims));
  if (count != input->elements()) return wrong("another number of elements");
  context.set(0, input->reshaped(dims));
  return {};
}

Status flatten(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 1));
  const int rank = input->rank();
  if (given < -rank || given > rank) return make_status(Code::malformed, "axis: want {} to {}, got {}", -rank, rank, given);
  const int axis = static_cast<int>(given < 0 ? given + rank : given);
  context.set(0, input->reshaped({product(input->dims(), 0, axis), product(input->dims(), axis, rank)}));
  return {};
}

// Axes are an attribute before opset 13, an input from then on.
Result<Dims> axes_of(const OpContext& context) {
  if (context.opset() >= 13) return context.integers(1);
  return context.integers("axes", {});
}

Status squeeze(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  const bool given = context.opset() >= 13 ? context.has_input(1) : context.has("axes");
  std::vector<int> axes;
  if (given) {
    HR_ASSIGN_OR_RETURN(const Dims listed, axes_of(context));
    HR_ASSIGN_OR_RETURN(axes, normalize_axes(listed, input->rank()));
  }
  Dims dims;
  for (int axis = 0; axis < input->rank(); ++axis) {
    const bool goes = given ? std::ranges::find(axes, axis) != axes.end() : input->dim(axis) == 1;
    if (goes && input->dim(axis) != 1)
      return make_status(Code::malformed, "axis {} of [{}]: want 1", axis, fmt::join(input->dims(), ", "));
    if (!goes) dims.push_back(input->dim(axis));
  }
  context.set(0, input->reshaped(dims));
  return {};
}

Status unsqueeze(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Dims listed, axes_of(context));
  const int rank = input->rank() + static_cast<int>(listed.size());
  HR_ASSIGN_OR_RETURN(const std::vector<int> axes, normalize_axes(listed, rank));
  Dims dims;
  auto rest = input->dims().begin();
  for (int axis = 0; axis < rank; ++axis) dims.push_back(std::ranges::find(axes, axis) != axes.end() ? 1 : *rest++);
  context.set(0, input->reshaped(dims));
  return {};
}

constexpr OpRow kRows[] = {{"Flatten", 1, flatten}, {"Reshape", 5, reshape}, {"Shape", 1, shape},
                           {"Size", 1, size},       {"Squeeze", 1, squeeze}, {"Unsqueeze", 1, unsqueeze}};

}  // namespace

std::span<const OpRow> ops_shape() { return kRows; }

}  // namespace headrace::onnx
