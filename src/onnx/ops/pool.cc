// Pools over windows and over everything, and MaxUnpool.
#include "onnx/ops/window.h"

namespace headrace::onnx {
namespace {

Status want_spatial(const Tensor& x) {
  if (x.rank() >= 3) return {};
  return make_status(Code::malformed, "X: want [batch, channels, spatial...], got dims [{}]", fmt::join(x.dims(), ", "));
}

Dims with_spatial(const Tensor& x, const Dims& spatial) {
  Dims dims = {x.dim(0), x.dim(1)};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

// Taps of one axis that read within the input: from `first` up to `last`.
struct Taps {
  int64_t first, last;
};
Taps inside(const Window& window, size_t axis, int64_t position) {
  const int64_t start = position * window.strides[axis] - window.begin[axis], by = window.dilations[axis];
  const int64_t first = start >= 0 ? 0 : (-start + by - 1) / by;
  const int64_t left = window.input[axis] - start;  // the first tap beyond is at or past it
  const int64_t last = left <= 0 ? 0 : std::min(window.kernel[axis], (left + by - 1) / by);
  return {std::min(first, last), last};
}

// f(offset within the channel) for each tap of the window at `position` that reads within the input, in row-major order.
template <class F>
void for_taps(const Window& window, const Dims& position, F&& f) {
  const size_t rank = window.rank();
  const Dims steps = contiguous_strides(window.input);
  Dims lengths(rank), strides(rank);
  int64_t base = 0;
  for (size_t i = 0; i < rank; ++i) {
    const Taps taps = inside(window, i, position[i]);
    lengths[i] = taps.last - taps.first;
    if (lengths[i] <= 0) return;
    base += (position[i] * window.strides[i] + taps.first * window.dilations[i] - window.begin[i]) * steps[i];
    strides[i] = window.dilations[i] * steps[i];
  }
  walk<1>(lengths, {strides}, [&](const auto& at, const auto& by, int64_t count) {
    for (int64_t k = 0; k < count; ++k) f(base + at[0] + k * by[0]);
  });
}

// f(channel's offset in x, position, index of the result) for every result.
template <class F>
void for_windows(const Tensor& x, const Window& window, F&& f) {
  const int64_t size = product(window.input), positions = window.positions();
  int64_t to = 0;
  for (int64_t c = 0; positions > 0 && c < x.dim(0) * x.dim(1); ++c) {
    Dims position(window.rank(), 0);
    for (int64_t p = 0; p < positions; ++p, next_index(position, window.output)) f(c * size, position, to++);
  }
}

Result<Window> pool_window(const OpContext& context, const Tensor& x) {
  HR_RETURN_IF_ERROR(want_spatial(x));
  HR_ASSIGN_OR_RETURN(const int64_t ceil_mode, context.integer("ceil_mode", 0));
  return make_window(context, std::span(x.dims()).subspan(2), {}, ceil_mode != 0);
}

Status max_pool(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Window window, pool_window(context, *x));
  HR_ASSIGN_OR_RETURN(const int64_t column_major, context.integer("storage_order", 0));
  const Dims dims = with_spatial(*x, window.output);
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, x->dtype(), dims));
  int64_t* indices = nullptr;
  if (context.wants_output(1)) {
    HR_ASSIGN_OR_RETURN(Tensor* second, context.make(1, DType::i64, dims));
    indices = second->data<int64_t>();
  }
  // Within a channel the index counts by columns where storage_order says so.
  Dims by_column(window.rank(), 1);
  for (size_t i = 1; i < window.rank(); ++i) by_column[i] = by_column[i - 1] * window.input[i - 1];
  return typed(dispatch<float, double, f16, bf16, int8_t, uint8_t>(
                   x->dtype(),
                   [&]<class T>() {
                     using W = Wide<T>;
                     for_windows(*x, window, [&](int64_t channel, const Dims& position, int64_t to) {
                       const T* from = x->data<T>() + channel;
                       W best = std::is_integral_v<W> ? std::numeric_limits<W>::min() : -std::numeric_limits<W>::infinity();
                       int64_t best_at = -1;
                       for_taps(window, position, [&](int64_t at) {
                         const W value = widen(from[at]);
                         if (best_at < 0 || value > best || (is_nan(value) && !is_nan(best))) {
                           best = value;
                           best_at = at;
                         }
                       });
                       output->data<T>()[to] = narrow<T>(best);
                       if (indices == nullptr) return;
                       if (column_major != 0 && best_at >= 0) {
                         const Dims index = index_of(best_at, window.input);
                         best_at = 0;
                         for (size_t i = 0; i < index.size(); ++i) best_at += index[i] * by_column[i];
                       }
                       indices[to] = best_at < 0 ? -1 : channel + best_at;
                     });
                   }),
               x->dtype());
}

// How many of the window's taps lie within the input or its padding.
int64_t padded_taps(const Window& window, const Dims& position) {
  int64_t count = 1;
  for (size_t i = 0; i < window.rank(); ++i) {
    const int64_t left = window.input[i] + window.begin[i] + window.end[i] - position[i] * window.strides[i];
    count *= std::clamp<int64_t>((left + window.dilations[i] - 1) / window.dilations[i], 0, window.kernel[i]);
  }
  return count;
}

Status average_pool(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Window window, pool_window(context, *x));
  HR_ASSIGN_OR_RETURN(const int64_t with_padding, context.integer("count_include_pad", 0));
  const Dims dims = with_spatial(*x, window.output);
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    for_windows(*x, window, [&](int64_t channel, const Dims& position, int64_t to) {
      double sum = 0;
      int64_t count = 0;
      for_taps(window, position, [&](int64_t at) {
        sum += from[channel + at];
        ++count;
      });
      if (with_padding != 0) count = padded_taps(window, position);
      y[static_cast<size_t>(to)] = static_cast<W>(count == 0 ? 0 : sum / static_cast<double>(count));
    });
    return put(context, 0, x->dtype(), dims, y);
  });
}

Result<int64_t> power_of(const NodeReader& context) {
  HR_ASSIGN_OR_RETURN(const int64_t p, context.integer("p", 2));
  if (p < 1) return error(Code::malformed, "p: want 1 or more, got {}", p);
  return p;
}

struct Norm {
  double p;
  double sum = 0;
  void add(double x) { sum += p == 1 ? std::abs(x) : p == 2 ? x * x : std::pow(std::abs(x), p); }
  double result() const { return p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p); }
};

Status lp_pool(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Window window, pool_window(context, *x));
  HR_ASSIGN_OR_RETURN(const int64_t p, power_of(context));
  const Dims dims = with_spatial(*x, window.output);
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    for_windows(*x, window, [&](int64_t channel, const Dims& position, int64_t to) {
      Norm norm{static_cast<double>(p)};
      for_taps(window, position, [&](int64_t at) { norm.add(from[channel + at]); });
      y[static_cast<size_t>(to)] = static_cast<W>(norm.result());
    });
    return put(context, 0, x->dtype(), dims, y);
  });
}

// row(first element, count) gives the result of one channel.
template <class Row>
Status global_pool(OpContext& context, Row row) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_RETURN_IF_ERROR(want_spatial(*x));
  const Dims dims = with_spatial(*x, Dims(static_cast<size_t>(x->rank()) - 2, 1));
  const int64_t size = product(std::span(x->dims()).subspan(2));
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    for (size_t c = 0; c < y.size(); ++c) y[c] = static_cast<W>(row(from.data() + static_cast<int64_t>(c) * size, size));
    return put(context, 0, x->dtype(), dims, y);
  });
}

Status global_average_pool(OpContext& context) {
  return global_pool(context, [](const auto* from, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += from[i];
    return sum / static_cast<double>(count);
  });
}

Status global_max_pool(OpContext& context) {
  return global_pool(context, []<class W>(const W* from, int64_t count) {
    W best = -std::numeric_limits<W>::infinity();
    for (int64_t i = 0; i < count; ++i) best = larger(best, from[i]);
    return best;
  });
}

Status global_lp_pool(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const int64_t p, power_of(context));
  return global_pool(context, [&](const auto* from, int64_t count) {
    Norm norm{static_cast<double>(p)};
    for (int64_t i = 0; i < count; ++i) norm.add(from[i]);
    return norm.result();
  });
}

// How long spatial axis `i` was before it was pooled.
int64_t unpooled(const Window& window, size_t i) {
  return (window.input[i] - 1) * window.strides[i] + window.kernel[i] - window.begin[i] - window.end[i];
}

// Indices count in the shape that kernel, strides and pads imply; output_shape may be larger and is filled from its start.
Status max_unpool(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* indices, context.input(1));
  HR_RETURN_IF_ERROR(want_spatial(*x));
  HR_RETURN_IF_ERROR(want_dims(*indices, x->dims(), "I"));
  if (indices->dtype() != DType::i64) return unknown_type(indices->dtype());
  HR_ASSIGN_OR_RETURN(const Window window, window_attributes(context, std::span(x->dims()).subspan(2), {}));
  Dims implied = x->dims();
  for (size_t i = 0; i < window.rank(); ++i) implied[i + 2] = unpooled(window, i);
  HR_ASSIGN_OR_RETURN(const int64_t size, count_elements(implied));
  Dims dims = implied;
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(dims, context.integers(2));
    if (dims.size() != implied.size()) {
      return make_status(Code::malformed, "output_shape: want {} numbers, got {}", implied.size(), dims.size());
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < implied[i]) {
        return make_status(Code::malformed, "output_shape: want [{}] or more, got [{}]", fmt::join(implied, ", "),
                           fmt::join(dims, ", "));
      }
    }
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, x->dtype(), dims));
  const Dims steps = contiguous_strides(dims);
  Status status;
  const bool known = dispatch_float(x->dtype(), [&]<class T>() {
    for (int64_t i = 0; i < x->elements(); ++i) {
      const int64_t at = indices->data<int64_t>()[i];
      if (at < 0 || at >= size) {
        status = make_status(Code::invalid_argument, "index {}: want 0 to {}", at, size - 1);
        return;
      }
      const Dims index = index_of(at, implied);
      int64_t to = 0;
      for (size_t k = 0; k < index.size(); ++k) to += index[k] * steps[k];
      output->data<T>()[to] = x->data<T>()[i];
    }
  });
  return known ? status : unknown_type(x->dtype());
}

// ---- types

Status infer_pool(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_rank_from(x, 3, "X"));
  HR_ASSIGN_OR_RETURN(const int64_t ceil_mode, context.integer("ceil_mode", 0));
  std::optional<Shape> shape;
  if (x.shape) {
    HR_ASSIGN_OR_RETURN(const Shape spatial, infer_windows(context, std::span(*x.shape).subspan(2), {}, ceil_mode != 0));
    shape = Shape(x.shape->begin(), x.shape->begin() + 2);
    shape->insert(shape->end(), spatial.begin(), spatial.end());
  }
  context.set(0, x.dtype, shape);
  context.set(1, DType::i64, shape);  // of MaxPool
  return {};
}

Status infer_global_pool(InferContext& context) {
  HR_ASSIGN_OR_RETURN(TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_rank_from(x, 3, "X"));
  if (x.shape) std::fill(x.shape->begin() + 2, x.shape->end(), dim_of(1));
  context.set(0, x.dtype, std::move(x.shape));
  return {};
}

Status infer_max_unpool(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_rank_from(x, 3, "X"));
  std::optional<Shape> shape = x.shape;
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(const std::optional<Elements> listed, context.elements(2));
    if (listed) {
      HR_ASSIGN_OR_RETURN(shape, shape_of(*listed));
    } else if (shape) {
      shape = unknown_shape(shape->size());
    }
  } else if (shape) {
    Dims spatial;
    for (const Dim& dim : std::span(*shape).subspan(2)) spatial.push_back(is_known(dim) ? dim.value : 1);
    HR_ASSIGN_OR_RETURN(const Window window, window_attributes(context, spatial, {}));
    for (size_t i = 0; i < window.rank(); ++i) {
      Dim& dim = (*shape)[i + 2];
      const int64_t length = unpooled(window, i);
      if (is_known(dim) && length < 0) return make_status(Code::malformed, "spatial axis {}: an output of {}", i, length);
      dim = is_known(dim) ? dim_of(length) : Dim();
    }
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"AveragePool", 7, average_pool, infer_pool},
    {"GlobalAveragePool", 1, global_average_pool, infer_global_pool},
    {"GlobalLpPool", 2, global_lp_pool, infer_global_pool},
    {"GlobalMaxPool", 1, global_max_pool, infer_global_pool},
    {"LpPool", 2, lp_pool, infer_pool},
    {"MaxPool", 1, max_pool, infer_pool},
    {"MaxUnpool", 9, max_unpool, infer_max_unpool},
};

}  // namespace

std::span<const OpRow> ops_pool() { return kRows; }

}  // namespace headrace::onnx
