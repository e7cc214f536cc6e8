// Operators that read or write at places that another input names. An index may count from the end; one outside is an error.
#include <fmt/format.h>

#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

// Errors: invalid_argument outside [-length, length), as compiled gathers say it: an index is a value, not a model's form.
Result<int64_t> place_of(int64_t index, int64_t length) {
  if (index < -length || index >= length)
    return error(Code::invalid_argument, "index: want {} to {}, got {}", -length, length - 1, index);
  return index < 0 ? index + length : index;
}

Result<int> axis_of(const NodeReader& context, int rank, int64_t otherwise) {
  HR_ASSIGN_OR_RETURN(const int64_t axis, context.integer("axis", otherwise));
  return normalize_axis(axis, rank);
}

Status gather(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* data, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* indices, context.input(1));
  HR_ASSIGN_OR_RETURN(const Dims values, all_integers(context, 1));
  HR_ASSIGN_OR_RETURN(const int axis, axis_of(context, data->rank(), 0));
  Dims dims(data->dims().begin(), data->dims().begin() + axis);
  dims.insert(dims.end(), indices->dims().begin(), indices->dims().end());
  dims.insert(dims.end(), data->dims().begin() + axis + 1, data->dims().end());
  Dims places;
  for (const int64_t value : values) {
    HR_ASSIGN_OR_RETURN(const int64_t place, place_of(value, data->dim(axis)));
    places.push_back(place);
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *data, dims));
  if (output->elements() == 0) return {};
  const int64_t outer = product(data->dims(), 0, axis), inner = product(data->dims(), axis + 1, data->rank());
  int64_t at = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t place : places) {
      copy_elements(*output, at, *data, (o * data->dim(axis) + place) * inner, inner);
      at += inner;
    }
  }
  return {};
}

// For each element of `indices` the offset in `data` that has the same index except on `axis`, where the element says it.
Result<Dims> element_offsets(const OpContext& context, const Tensor& data, const Tensor& indices, int axis) {
  HR_ASSIGN_OR_RETURN(const Dims values, all_integers(context, 1));
  bool fits = indices.rank() == data.rank();
  for (int i = 0; fits && i < data.rank(); ++i) fits = i == axis || indices.dim(i) <= data.dim(i);
  if (!fits)
    return error(Code::malformed, "indices [{}] do not lie in [{}]", fmt::join(indices.dims(), ", "),
                 fmt::join(data.dims(), ", "));
  const Dims strides = contiguous_strides(data.dims());
  Dims offsets, index(indices.dims().size(), 0);
  for (const int64_t value : values) {
    HR_ASSIGN_OR_RETURN(int64_t place, place_of(value, data.dim(axis)));
    int64_t offset = 0;
    for (int i = 0; i < data.rank(); ++i) {
      offset += (i == axis ? place : index[static_cast<size_t>(i)]) * strides[static_cast<size_t>(i)];
    }
    offsets.push_back(offset);
    next_index(index, indices.dims());
  }
  return offsets;
}

Status gather_elements(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* data, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* indices, context.input(1));
  HR_ASSIGN_OR_RETURN(const int axis, axis_of(context, data->rank(), 0));
  HR_ASSIGN_OR_RETURN(const Dims offsets, element_offsets(context, *data, *indices, axis));
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *data, indices->dims()));
  for (size_t i = 0; i < offsets.size(); ++i) copy_elements(*output, static_cast<int64_t>(i), *data, offsets[i]);
  return {};
}

// The slices that tuples name: offsets of their first elements, and how many elements each has.
struct Slices {
  Dims offsets;
  int64_t size = 1;
  Dims dims;  // of `indices` without its last axis, and of a slice behind it
};
Result<Slices> slices_of(const OpContext& context, const Tensor& data, const Tensor& indices, int64_t batch_dims) {
  const int64_t most = std::min(data.rank(), indices.rank());
  if (most < 1 || batch_dims < 0 || batch_dims >= most) {
    return error(Code::malformed, "batch_dims {} for data of rank {} and indices of rank {}", batch_dims, data.rank(),
                 indices.rank());
  }
  const auto batch = static_cast<int>(batch_dims);
  const int64_t width = indices.dim(indices.rank() - 1);
  if (width < 1 || width > data.rank() - batch)
    return error(Code::malformed, "tuples: want 1 to {} indices, got {}", data.rank() - batch, width);
  for (int i = 0; i < batch; ++i) {
    if (data.dim(i) != indices.dim(i))
      return error(Code::malformed, "batch axis {}: {} and {}", i, data.dim(i), indices.dim(i));
  }
  HR_ASSIGN_OR_RETURN(const Dims values, all_integers(context, 1));
  const Dims strides = contiguous_strides(data.dims());
  const int behind = batch + static_cast<int>(width);
  Slices slices;
  slices.size = product(data.dims(), behind, data.rank());
  slices.dims.assign(indices.dims().begin(), indices.dims().end() - 1);
  slices.dims.insert(slices.dims.end(), data.dims().begin() + behind, data.dims().end());
  const int64_t tuples = std::ssize(values) / width, per_batch = tuples == 0 ? 1 : tuples / product(indices.dims(), 0, batch);
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t offset = batch == 0 ? 0 : t / per_batch * strides[static_cast<size_t>(batch - 1)];
    for (int64_t i = 0; i < width; ++i) {
      const auto axis = static_cast<size_t>(batch + i);
      HR_ASSIGN_OR_RETURN(const int64_t place, place_of(values[static_cast<size_t>(t * width + i)], data.dims()[axis]));
      offset += place * strides[axis];
    }
    slices.offsets.push_back(offset);
  }
  return slices;
}

Status gather_nd(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* data, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* indices, context.input(1));
  HR_ASSIGN_OR_RETURN(const int64_t batch_dims, context.integer("batch_dims", 0));
  HR_ASSIGN_OR_RETURN(const Slices slices, slices_of(context, *data, *indices, batch_dims));
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *data, slices.dims));
  int64_t at = 0;
  for (const int64_t offset : slices.offsets) {
    copy_elements(*output, at, *data, offset, slices.size);
    at += slices.size;
  }
  return {};
}

enum class Reduction : uint8_t { none, add, mul, max, min };
Result<Reduction> reduction_of(const NodeReader& context) {
  HR_ASSIGN_OR_RETURN(const std::string name, context.text("reduction", "none"));
  if (name == "none") return Reduction::none;
  const bool known = name == "add" || name == "mul" || (context.opset() >= 18 && (name == "max" || name == "min"));
  if (!known || context.opset() < 16) return error(Code::malformed, "reduction \"{}\" in opset {}", name, context.opset());
  return name == "add" ? Reduction::add : name == "mul" ? Reduction::mul : name == "max" ? Reduction::max : Reduction::min;
}

template <class T>
T reduced(Reduction reduction, const T& a, const T& b) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return from_double<T>(static_cast<double>(reduced(reduction, to_float(a), to_float(b))));
  } else if constexpr (std::is_same_v<T, bool>) {
    return reduction == Reduction::add || reduction == Reduction::max ? a || b : a && b;
  } else if constexpr (std::is_integral_v<T>) {
    // Wraps around, without the promotion to int that overflows.
    using U = std::conditional_t<sizeof(T) < sizeof(unsigned), unsigned, std::make_unsigned_t<T>>;
    switch (reduction) {
      case Reduction::add: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
      case Reduction::mul: return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
      case Reduction::max: return std::max(a, b);
      default: return std::min(a, b);
    }
  } else {
    switch (reduction) {
      case Reduction::add: return a + b;
      case Reduction::mul: return a * b;
      case Reduction::max: return a > b || a != a ? a : b;
      default: return a < b || a != a ? a : b;
    }
  }
}

// `count` elements of `updates` from `from` on go into `output` at `at`.
Status put(Tensor& output, int64_t at, const Tensor& updates, int64_t from, int64_t count, Reduction reduction) {
  if (reduction == Reduction::none) {
    copy_elements(output, at, updates, from, count);
    return {};
  }
  const bool known =
      dispatch<float, double, f16, bf16, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, bool>(
          output.dtype(), [&]<class T>() {
            T* to = output.data<T>() + at;
            const T* added = updates.data<T>() + from;
            for (int64_t i = 0; i < count; ++i) to[i] = reduced(reduction, to[i], added[i]);
          });
  return known ? Status() : make_status(Code::unsupported, "reduction of {}", dtype_name(output.dtype()));
}

Status check_updates(const Tensor& data, const Tensor& updates, const Dims& wanted) {
  if (updates.dtype() == data.dtype() && updates.dims() == wanted) return {};
  return make_status(Code::malformed, "updates: want {} [{}], got {} [{}]", dtype_name(data.dtype()), fmt::join(wanted, ", "),
                     dtype_name(updates.dtype()), fmt::join(updates.dims(), ", "));
}

Status scatter_elements(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* data, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* indices, context.input(1));
  HR_ASSIGN_OR_RETURN(const Tensor* updates, context.input(2));
  HR_ASSIGN_OR_RETURN(const int axis, axis_of(context, data->rank(), 0));
  HR_ASSIGN_OR_RETURN(const Reduction reduction, reduction_of(context));
  HR_RETURN_IF_ERROR(check_updates(*data, *updates, indices->dims()));
  HR_ASSIGN_OR_RETURN(const Dims offsets, element_offsets(context, *data, *indices, axis));
  HR_ASSIGN_OR_RETURN(Tensor output, make_for(context, *data, data->dims()));
  copy_elements(output, 0, *data, 0, output.elements());
  for (size_t i = 0; i < offsets.size(); ++i)
    HR_RETURN_IF_ERROR(put(output, offsets[i], *updates, static_cast<int64_t>(i), 1, reduction));
  context.set(0, std::move(output));
  return {};
}

Status scatter_nd(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* data, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* indices, context.input(1));
  HR_ASSIGN_OR_RETURN(const Tensor* updates, context.input(2));
  HR_ASSIGN_OR_RETURN(const Reduction reduction, reduction_of(context));
  HR_ASSIGN_OR_RETURN(const Slices slices, slices_of(context, *data, *indices, 0));
  HR_RETURN_IF_ERROR(check_updates(*data, *updates, slices.dims));
  HR_ASSIGN_OR_RETURN(Tensor output, make_for(context, *data, data->dims()));
  copy_elements(output, 0, *data, 0, output.elements());
  int64_t from = 0;
  for (const int64_t offset : slices.offsets) {
    HR_RETURN_IF_ERROR(put(output, offset, *updates, from, slices.size, reduction));
    from += slices.size;
  }
  context.set(0, std::move(output));
  return {};
}

Status tensor_scatter(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* cache, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* update, context.input(1));
  HR_ASSIGN_OR_RETURN(const int axis, axis_of(context, cache->rank(), -2));
  HR_ASSIGN_OR_RETURN(const std::string mode, context.text("mode", "linear"));
  if (mode != "linear" && mode != "circular")
    return make_status(Code::malformed, "mode: want linear or circular, got \"{}\"", mode);
  if (axis == 0) return make_status(Code::malformed, "axis 0 is the batch");
  Dims wanted = cache->dims();
  const int64_t most = cache->dim(axis), length = update->rank() == cache->rank() ? update->dim(axis) : 0;
  wanted[static_cast<size_t>(axis)] = length;
  if (length > most) return make_status(Code::malformed, "an update of length {} for a cache of {}", length, most);
  HR_RETURN_IF_ERROR(check_updates(*cache, *update, wanted));
  Dims starts;  // empty: at the first place
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(starts, context.integers(2));
    if (std::ssize(starts) != cache->dim(0))
      return make_status(Code::malformed, "write_indices: want {}, got {}", cache->dim(0), starts.size());
  }
  HR_ASSIGN_OR_RETURN(Tensor output, make_for(context, *cache, cache->dims()));
  copy_elements(output, 0, *cache, 0, output.elements());
  if (update->elements() == 0) {
    context.set(0, std::move(output));
    return {};
  }
  const int64_t outer = product(wanted, 0, axis), inner = product(wanted, axis + 1, cache->rank()),
                per_batch = outer / cache->dim(0);
  for (int64_t o = 0; o < outer; ++o) {
    const int64_t start = starts.empty() ? 0 : starts[static_cast<size_t>(o / per_batch)];
    if (start < 0 || (mode == "linear" && start > most - length)) {
      return make_status(Code::invalid_argument, "write_indices: {} for {} of {} places", start, length, most);
    }
    for (int64_t i = 0; i < length; ++i) {
      copy_elements(output, (o * most + (start % most + i) % most) * inner, *update, (o * length + i) * inner, inner);
    }
  }
  context.set(0, std::move(output));
  return {};
}

Status compress(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* given, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* condition, context.input(1));
  const Tensor input = context.has("axis") ? *given : given->reshaped({given->elements()});
  HR_ASSIGN_OR_RETURN(const int axis, axis_of(context, input.rank(), 0));
  if (condition->dtype() != DType::boolean || condition->rank() != 1)
    return make_status(Code::malformed, "condition: want a list of bool");
  Dims places;
  for (int64_t i = 0; i < condition->elements(); ++i) {
    if (!condition->data<bool>()[i]) continue;
    if (i >= input.dim(axis)) return make_status(Code::malformed, "condition: {} is true, the axis has {}", i, input.dim(axis));
    places.push_back(i);
  }
  Dims dims = input.dims();
  dims[static_cast<size_t>(axis)] = std::ssize(places);
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, input, dims));
  if (output->elements() == 0) return {};
  const int64_t outer = product(dims, 0, axis), inner = product(dims, axis + 1, input.rank());
  int64_t at = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t place : places) {
      copy_elements(*output, at, input, (o * input.dim(axis) + place) * inner, inner);
      at += inner;
    }
  }
  return {};
}

// ---- types

Status infer_gather(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact data, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact indices, context.input(1));
  std::optional<Shape> shape;
  if (data.shape) {
    HR_ASSIGN_OR_RETURN(const int axis, axis_of(context, static_cast<int>(data.shape->size()), 0));
    if (indices.shape) {
      shape = Shape(data.shape->begin(), data.shape->begin() + axis);
      shape->insert(shape->end(), indices.shape->begin(), indices.shape->end());
      shape->insert(shape->end(), data.shape->begin() + axis + 1, data.shape->end());
    }
  }
  context.set(0, data.dtype, std::move(shape));
  return {};
}

// The output has the dims of input 1; both have one rank.
Status infer_gather_elements(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact data, context.input(0));
  HR_ASSIGN_OR_RETURN(TensorFact indices, context.input(1));
  if (data.shape) {
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const int axis, axis_of(context, static_cast<int>(data.shape->size()), 0));
    HR_RETURN_IF_ERROR(want_rank(indices, data.shape->size(), "indices"));
  }
  if (!indices.shape && data.shape) indices.shape = unknown_shape(data.shape->size());
  context.set(0, data.dtype, std::move(indices.shape));
  return {};
}

Status infer_gather_nd(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact data, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact indices, context.input(1));
  HR_ASSIGN_OR_RETURN(const int64_t batch_dims, context.integer("batch_dims", 0));
  HR_RETURN_IF_ERROR(want_rank_from(data, 1, "data"));
  HR_RETURN_IF_ERROR(want_rank_from(indices, 1, "indices"));
  std::optional<Shape> shape;
  if (data.shape && indices.shape && is_known(indices.shape->back())) {
    const auto rank = static_cast<int64_t>(data.shape->size()), width = indices.shape->back().value;
    if (batch_dims < 0 || batch_dims >= std::min<int64_t>(rank, std::ssize(*indices.shape)) || width < 1 || width > rank - batch_dims) {
      return make_status(Code::malformed, "batch_dims {}: indices {} of data {}", batch_dims, describe(*indices.shape),
                         describe(*data.shape));
    }
    shape = Shape(indices.shape->begin(), indices.shape->end() - 1);
    shape->insert(shape->end(), data.shape->begin() + batch_dims + width, data.shape->end());
  }
  context.set(0, data.dtype, std::move(shape));
  return {};
}

Status infer_scatter(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact data, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact updates, context.input(2));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const auto dtype, same_dtype(data, updates));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const Reduction reduction, reduction_of(context));
  return infer_same(context);
}

Status infer_scatter_elements(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact data, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact indices, context.input(1));
  if (data.shape) {
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const int axis, axis_of(context, static_cast<int>(data.shape->size()), 0));
    HR_RETURN_IF_ERROR(want_rank(indices, data.shape->size(), "indices"));
  }
  return infer_scatter(context);
}

Status infer_tensor_scatter(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact cache, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact update, context.input(1));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const auto dtype, same_dtype(cache, update));
  if (cache.shape) HR_RETURN_IF_ERROR(want_rank(update, cache.shape->size(), "update"));
  return infer_same(context);
}

Status infer_compress(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact input, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact condition, context.input(1));
  HR_RETURN_IF_ERROR(want_dtype(condition, DType::boolean, "condition"));
  HR_RETURN_IF_ERROR(want_rank(condition, 1, "condition"));
  std::optional<Shape> shape = input.shape;
  if (!context.has("axis")) shape = unknown_shape(1);
  if (shape) {
    HR_ASSIGN_OR_RETURN(const int axis, axis_of(context, static_cast<int>(shape->size()), 0));
    (*shape)[static_cast<size_t>(axis)] = {};
    // Places that are taken are all inside, or the node fails.
    if (const Tensor* chosen = context.constant(1)) {
      if (chosen->dtype() != DType::boolean) return wrong_type(chosen->dtype());
      (*shape)[static_cast<size_t>(axis)] = dim_of(std::ranges::count(chosen->values<bool>(), true));
    }
  }
  context.set(0, input.dtype, std::move(shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"Compress", 9, compress, infer_compress, kMovesFirst},
    {"Gather", 1, gather, infer_gather, kMovesFirst},
    {"GatherElements", 11, gather_elements, infer_gather_elements, kMovesFirst},
    {"GatherND", 11, gather_nd, infer_gather_nd, kMovesFirst},
    {"Scatter", 9, scatter_elements, infer_scatter_elements, {.moves = 0b101}},
    {"ScatterElements", 11, scatter_elements, infer_scatter_elements, {.moves = 0b101}},
    {"ScatterND", 11, scatter_nd, infer_scatter, {.moves = 0b101}},
    {"TensorScatter", 24, tensor_scatter, infer_tensor_scatter},
};

}  // namespace

std::span<const OpRow> ops_indexing() { return kRows; }

}  // namespace headrace::onnx
