// Operators that read a tensor's dims or give the same elements other dims.
#include <fmt/format.h>

#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

// The axes that Shape gives, from the first up to the second.
Result<std::pair<int64_t, int64_t>> shape_range(const NodeReader& context, int64_t rank) {
  HR_ASSIGN_OR_RETURN(const int64_t start, context.integer("start", 0));
  HR_ASSIGN_OR_RETURN(const int64_t end, context.integer("end", rank));
  const auto place = [&](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank); };
  return std::pair(place(start), std::max(place(end), place(start)));
}

Status shape(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const auto range, shape_range(context, input->rank()));
  const auto [start, end] = range;
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

// The axis may be the one behind the last.
Result<int> flatten_axis(int64_t given, int rank) {
  if (given < -rank || given > rank) return error(Code::malformed, "axis: want {} to {}, got {}", -rank, rank, given);
  return static_cast<int>(given < 0 ? given + rank : given);
}

Status flatten(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 1));
  const int rank = input->rank();
  HR_ASSIGN_OR_RETURN(const int axis, flatten_axis(given, rank));
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
  if (listed.size() > kMaxTensorRank) return make_status(Code::malformed, "axes: want {} at most, got {}", kMaxTensorRank, listed.size());
  const int rank = input->rank() + static_cast<int>(listed.size());
  HR_ASSIGN_OR_RETURN(const std::vector<int> axes, normalize_axes(listed, rank));
  Dims dims;
  auto rest = input->dims().begin();
  for (int axis = 0; axis < rank; ++axis) dims.push_back(std::ranges::find(axes, axis) != axes.end() ? 1 : *rest++);
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, count_elements(dims));
  context.set(0, input->reshaped(dims));
  return {};
}

// ---- types

Status infer_shape(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  if (!x.shape) {
    context.set(0, DType::i64, Shape(1));
    return {};
  }
  HR_ASSIGN_OR_RETURN(const auto range, shape_range(context, std::ssize(*x.shape)));
  Elements dims;
  for (int64_t i = range.first; i < range.second; ++i) dims.push_back(element_of((*x.shape)[static_cast<size_t>(i)]));
  context.set_elements(0, DType::i64, 1, std::move(dims));
  return {};
}

Status infer_size(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  context.set_elements(0, DType::i64, 0, {element_of(x.shape ? product(*x.shape) : Dim())});
  return {};
}

Status infer_reshape(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> wanted, context.elements(1));
  HR_ASSIGN_OR_RETURN(const int64_t allow_zero, context.integer("allowzero", 0));
  context.set(0, x.dtype, std::nullopt);
  if (!wanted) return {};
  // All dims that are known, copied ones too, and where the one that makes up for the rest stands.
  const size_t rank = wanted->size();
  Shape shape(rank);
  size_t open = rank;
  bool sure = true;  // that no other element is 0 or -1
  bool zero = false;
  const auto wrong = [&](std::string_view why) {
    return make_status(Code::malformed, "dims {} as {}: {}", x.shape ? describe(*x.shape) : "?", describe(shape), why);
  };
  for (size_t i = 0; i < rank; ++i) {
    const Element& element = (*wanted)[i];
    if (element.number == 0 && allow_zero == 0) {
      if (x.shape && i >= x.shape->size()) return wrong("a 0 that stands for no dim");
      shape[i] = x.shape ? (*x.shape)[i] : Dim();
    } else if (element.number == -1) {
      if (open != rank) return wrong("more than one -1");
      open = i;
    } else if (element.number && *element.number < 0) {
      return wrong("dims below 0");
    } else {
      if (element.number == 0) zero = true;
      shape[i] = dim_of(element);
      sure = sure && (element.number || !element.symbol.empty());
    }
  }
  if (zero && open != rank) return wrong("both 0 and -1");
  if (x.shape && open != rank) {
    // What stays the same cancels out, unknown dims that are copied too.
    Shape from, others;
    for (size_t i = 0; i < x.shape->size(); ++i) {
      const bool copied = i < rank && (*wanted)[i].number == 0 && allow_zero == 0;
      if (!copied || (*x.shape)[i].value == 0) from.push_back((*x.shape)[i]);
    }
    for (size_t i = 0; i < rank; ++i) {
      const bool copied = (*wanted)[i].number == 0 && allow_zero == 0;
      if (i != open && (!copied || shape[i].value == 0)) others.push_back(shape[i]);
    }
    const Dim whole = product(from), part = product(others);
    if (is_known(whole) && is_known(part) && part.value > 0 && whole.value % part.value != 0) return wrong("the elements do not fit");
    if (part.value == 0) shape[open] = dim_of(0);
    else shape[open] = quotient(from, others);
  } else if (x.shape && sure) {
    const Dim from = product(*x.shape), to = product(shape);
    if (is_known(from) && is_known(to) && from.value != to.value) return wrong("another number of elements");
    // A single unknown dim of the target is what the others leave.
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Status infer_flatten(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 1));
  Shape shape(2);
  if (x.shape) {
    HR_ASSIGN_OR_RETURN(const int axis, flatten_axis(given, static_cast<int>(x.shape->size())));
    const std::span<const Dim> all = *x.shape;
    shape = {product(all.first(static_cast<size_t>(axis))), product(all.subspan(static_cast<size_t>(axis)))};
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Result<std::optional<Dims>> infer_axes(const InferContext& context) {
  if (context.opset() >= 13) return context.integers(1);
  HR_ASSIGN_OR_RETURN(Dims axes, context.integers("axes", {}));
  return std::optional(std::move(axes));
}

Status infer_squeeze(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  const bool given = context.opset() >= 13 ? context.has_input(1) : context.has("axes");
  context.set(0, x.dtype, std::nullopt);
  if (!x.shape) return {};
  std::vector<int> axes;
  if (given) {
    HR_ASSIGN_OR_RETURN(const std::optional<Dims> listed, infer_axes(context));
    if (!listed) return {};
    HR_ASSIGN_OR_RETURN(axes, normalize_axes(*listed, static_cast<int>(x.shape->size())));
  } else if (!known_dims(*x.shape)) {
    return {};  // any of the unknown ones may be 1
  }
  Shape shape;
  for (int axis = 0; axis < static_cast<int>(x.shape->size()); ++axis) {
    const Dim& dim = (*x.shape)[static_cast<size_t>(axis)];
    const bool goes = given ? std::ranges::find(axes, axis) != axes.end() : dim.value == 1;
    if (goes && is_known(dim) && dim.value != 1) return make_status(Code::malformed, "axis {} of {}: want 1", axis, describe(*x.shape));
    if (!goes) shape.push_back(dim);
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

Status infer_unsqueeze(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<Dims> listed, infer_axes(context));
  std::optional<Shape> shape;
  if (x.shape && listed && listed->size() <= kMaxTensorRank) {
    const int rank = static_cast<int>(x.shape->size() + listed->size());
    HR_ASSIGN_OR_RETURN(const std::vector<int> axes, normalize_axes(*listed, rank));
    shape = Shape();
    auto rest = x.shape->begin();
    for (int axis = 0; axis < rank; ++axis) shape->push_back(std::ranges::find(axes, axis) != axes.end() ? dim_of(1) : *rest++);
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"Flatten", 1, flatten, infer_flatten},
    {"Reshape", 5, reshape, infer_reshape, kMovesFirst},
    {"Shape", 1, shape, infer_shape},
    {"Size", 1, size, infer_size},
    {"Squeeze", 1, squeeze, infer_squeeze, kMovesFirst},
    {"Unsqueeze", 1, unsqueeze, infer_unsqueeze, kMovesFirst},
};

}  // namespace

std::span<const OpRow> ops_shape() { return kRows; }

}  // namespace headrace::onnx
