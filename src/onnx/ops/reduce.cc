// Reductions, ArgMax and ArgMin, running sums and products.
#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"

namespace headrace::onnx {
namespace {

// What a reduction adds up in: double for floats; integers wrap around.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, T, double>;

struct L1 {
  template <class T>
  static constexpr T start = 0;
  template <class A>
  static A add(A sum, A x) {
    return wrap_add(sum, x < 0 ? wrap_sub(A{0}, x) : x);
  }
};
struct SumSquare {
  template <class T>
  static constexpr T start = 0;
  template <class A>
  static A add(A sum, A x) {
    return wrap_add(sum, wrap_mul(x, x));
  }
};
struct Plain {
  template <class T>
  static constexpr T start = 0;
  template <class A>
  static A add(A sum, A x) {
    return wrap_add(sum, x);
  }
};
struct Product {
  template <class T>
  static constexpr T start = 1;
  template <class A>
  static A add(A sum, A x) {
    return wrap_mul(sum, x);
  }
};
struct Largest {
  template <class T>
  static constexpr T start = std::is_integral_v<T> ? std::numeric_limits<T>::min() : -std::numeric_limits<T>::infinity();
  template <class A>
  static A add(A sum, A x) {
    return larger(sum, x);
  }
};
struct Smallest {
  template <class T>
  static constexpr T start = std::is_integral_v<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
  template <class A>
  static A add(A sum, A x) {
    return smaller(sum, x);
  }
};

struct Reduced {
  Dims dims;       // of the result
  Dims strides;    // through the result, for each axis of the input; 0: reduced
  int64_t results = 1, count = 1;  // how many results, of how many elements each
};

// Which axes go; without any in the list all do, unless `keep_all_without`.
Result<std::vector<bool>> reduced_axes(std::span<const int64_t> axes, bool keep_all_without, int rank) {
  std::vector<bool> reduced(static_cast<size_t>(rank), axes.empty() && !keep_all_without);
  for (const int64_t given : axes) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, rank));
    reduced[static_cast<size_t>(axis)] = true;
  }
  return reduced;
}

Result<Reduced> reduction_shape(const OpContext& context, const Tensor& input, int axes_input_since) {
  HR_ASSIGN_OR_RETURN(const int64_t keep, context.integer("keepdims", 1));
  std::vector<int64_t> axes;
  if (context.opset() >= axes_input_since) {
    if (context.has_input(1)) {
      HR_ASSIGN_OR_RETURN(axes, context.integers(1));
    }
  } else {
    HR_ASSIGN_OR_RETURN(axes, context.integers("axes", {}));
  }
  HR_ASSIGN_OR_RETURN(const int64_t none, context.integer("noop_with_empty_axes", 0));
  HR_ASSIGN_OR_RETURN(const std::vector<bool> reduced, reduced_axes(axes, none != 0, input.rank()));
  Reduced shape;
  shape.strides.resize(reduced.size());
  for (size_t i = reduced.size(); i-- > 0;) {
    const int64_t dim = input.dims()[i];
    shape.strides[i] = reduced[i] ? 0 : shape.results;
    (reduced[i] ? shape.count : shape.results) *= dim;
    if (!reduced[i] || keep != 0) shape.dims.insert(shape.dims.begin(), reduced[i] ? 1 : dim);
  }
  HR_ASSIGN_OR_RETURN(shape.results, count_elements(shape.dims));
  return shape;
}

// f(result index, element) for every element.
template <class T, class F>
void for_elements(const Tensor& input, const Reduced& shape, F&& f) {
  const T* from = input.data<T>();
  walk<1>(input.dims(), {shape.strides}, [&](const auto& at, const auto& steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i) f(at[0] + i * steps[0], widen(*from++));
  });
}

template <class R>
R as_result(double value) {
  if constexpr (std::is_integral_v<R>) return saturated<R>(value);
  else return narrow<R>(value);
}

// finish(sum, count) gives what the element type is made from: an integer of it, or a double.
template <class Op, class Finish>
Status reduce(OpContext& context, int axes_input_since, Finish finish) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Reduced shape, reduction_shape(context, *input, axes_input_since));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, input->dtype(), shape.dims));
  return typed(dispatch_number(input->dtype(),
                               [&]<class T>() {
                                 using A = Sum<T>;
                                 std::vector<A> sums(static_cast<size_t>(shape.results), Op::template start<A>);
                                 for_elements<T>(*input, shape, [&](int64_t at, Wide<T> x) {
                                   A& sum = sums[static_cast<size_t>(at)];
                                   sum = Op::add(sum, static_cast<A>(x));
                                 });
                                 T* to = output->data<T>();
                                 for (const A sum : sums) {
                                   const auto value = finish(sum, shape.count);
                                   if constexpr (std::is_same_v<decltype(value), const T>) *to++ = value;
                                   else *to++ = as_result<T>(value);
                                 }
                               }),
               input->dtype());
}

// The opset from which axes are an input (ReduceSum: 13).
constexpr int kAxesInput = 18;

constexpr auto kSum = [](auto sum, int64_t) { return sum; };
constexpr auto kRoot = [](auto sum, int64_t) { return std::sqrt(static_cast<double>(sum)); };
constexpr auto kLog = [](auto sum, int64_t) { return std::log(static_cast<double>(sum)); };
constexpr auto kMean = []<class A>(A sum, int64_t count) {
  if constexpr (std::is_floating_point_v<A>) return sum / static_cast<double>(count);
  else if constexpr (std::is_signed_v<A>) return count == 0 ? A{0} : static_cast<A>(static_cast<int64_t>(sum) / count);
  else return count == 0 ? A{0} : static_cast<A>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(count));
};

Status reduce_l1(OpContext& context) {
  return reduce<L1>(context, kAxesInput, kSum);
}
Status reduce_l2(OpContext& context) {
  return reduce<SumSquare>(context, kAxesInput, kRoot);
}
Status reduce_log_sum(OpContext& context) {
  return reduce<Plain>(context, kAxesInput, kLog);
}
Status reduce_mean(OpContext& context) {
  return reduce<Plain>(context, kAxesInput, kMean);
}
Status reduce_prod(OpContext& context) {
  return reduce<Product>(context, kAxesInput, kSum);
}
Status reduce_sum(OpContext& context) {
  return reduce<Plain>(context, 13, kSum);
}
Status reduce_sum_square(OpContext& context) {
  return reduce<SumSquare>(context, kAxesInput, kSum);
}

// Largest and smallest take bool as well.
template <class Op>
Status reduce_extreme(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  if (input->dtype() != DType::boolean) return reduce<Op>(context, kAxesInput, kSum);
  HR_ASSIGN_OR_RETURN(const Reduced shape, reduction_shape(context, *input, kAxesInput));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DType::boolean, shape.dims));
  bool* to = output->data<bool>();
  std::fill_n(to, output->elements(), Op::template start<bool>);
  for_elements<bool>(*input, shape, [&](int64_t at, bool x) { to[at] = Op::add(to[at], x); });
  return {};
}

// Shifted by the largest element, so that no exponential overflows.
Status reduce_log_sum_exp(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Reduced shape, reduction_shape(context, *input, kAxesInput));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, input->dtype(), shape.dims));
  return typed(dispatch_number(input->dtype(),
                               [&]<class T>() {
                                 std::vector<double> most(static_cast<size_t>(shape.results),
                                                          -std::numeric_limits<double>::infinity());
                                 std::vector<double> sums(most.size(), 0);
                                 for_elements<T>(*input, shape, [&](int64_t at, Wide<T> x) {
                                   double& largest = most[static_cast<size_t>(at)];
                                   largest = larger(largest, static_cast<double>(x));
                                 });
                                 for (double& shift : most) shift = std::isfinite(shift) ? shift : 0;
                                 for_elements<T>(*input, shape, [&](int64_t at, Wide<T> x) {
                                   sums[static_cast<size_t>(at)] +=
                                       std::exp(static_cast<double>(x) - most[static_cast<size_t>(at)]);
                                 });
                                 T* to = output->data<T>();
                                 for (size_t i = 0; i < sums.size(); ++i) to[i] = as_result<T>(std::log(sums[i]) + most[i]);
                               }),
               input->dtype());
}

// Tensors seen as [outer, length, inner] around an axis.
struct Around {
  int64_t outer = 1, length = 1, inner = 1;
};
Around around(const Dims& dims, int axis) {
  const auto at = static_cast<size_t>(axis);
  const std::span<const int64_t> all = dims;
  return {product(all.first(at)), dims[at], product(all.subspan(at + 1))};
}

template <bool kLargest>
Status arg_extreme(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  HR_ASSIGN_OR_RETURN(const int64_t keep, context.integer("keepdims", 1));
  HR_ASSIGN_OR_RETURN(const int64_t last, context.integer("select_last_index", 0));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, std::max(input->rank(), 1)));
  if (input->rank() == 0) {
    HR_ASSIGN_OR_RETURN(Tensor* zero, context.make(0, DType::i64, {}));
    *zero->data<int64_t>() = 0;
    return {};
  }
  Dims dims = input->dims();
  if (keep != 0) dims[static_cast<size_t>(axis)] = 1;
  else dims.erase(dims.begin() + axis);
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DType::i64, dims));
  if (output->elements() == 0) return {};
  const auto [outer, length, inner] = around(input->dims(), axis);
  if (length == 0) return make_status(Code::malformed, "no largest or smallest of an empty axis {}", axis);
  return typed(dispatch_number(input->dtype(),
                               [&, outer = outer, length = length, inner = inner]<class T>() {
                                 const T* from = input->data<T>();
                                 int64_t* to = output->data<int64_t>();
                                 for (int64_t o = 0; o < outer; ++o) {
                                   for (int64_t i = 0; i < inner; ++i) {
                                     const T* row = from + o * length * inner + i;
                                     int64_t best = 0;
                                     Wide<T> best_value = widen(row[0]);
                                     for (int64_t k = 1; k < length; ++k) {
                                       const Wide<T> x = widen(row[k * inner]);
                                       const bool better = is_nan(best_value)
                                                               ? false
                                                               : is_nan(x) || (kLargest ? x > best_value : x < best_value);
                                       const bool same = x == best_value || (is_nan(x) && is_nan(best_value));
                                       if (better || (same && last != 0)) {
                                         best = k;
                                         best_value = x;
                                       }
                                     }
                                     *to++ = best;
                                   }
                                 }
                               }),
               input->dtype());
}

template <class Op>
Status running(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> given, context.integers(1));
  if (given.size() != 1) return make_status(Code::malformed, "axis: want one integer, got {}", given.size());
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given[0], input->rank()));
  HR_ASSIGN_OR_RETURN(const int64_t exclusive, context.integer("exclusive", 0));
  HR_ASSIGN_OR_RETURN(const int64_t reverse, context.integer("reverse", 0));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, input->dtype(), input->dims()));
  const auto [outer, length, inner] = around(input->dims(), axis);
  return typed(dispatch_number(input->dtype(),
                               [&, outer = outer, length = length, inner = inner]<class T>() {
                                 using A = Sum<T>;
                                 for (int64_t o = 0; output->elements() > 0 && o < outer; ++o) {
                                   for (int64_t i = 0; i < inner; ++i) {
                                     const int64_t start = o * length * inner + i;
                                     A sum = Op::template start<A>;
                                     for (int64_t k = 0; k < length; ++k) {
                                       const int64_t at = start + (reverse != 0 ? length - 1 - k : k) * inner;
                                       const A next = Op::add(sum, static_cast<A>(widen(input->data<T>()[at])));
                                       output->data<T>()[at] = narrow<T>(exclusive != 0 ? sum : next);
                                       sum = next;
                                     }
                                   }
                                 }
                               }),
               input->dtype());
}

// ---- types

Status infer_reduce_since(InferContext& context, int axes_input_since) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t keep, context.integer("keepdims", 1));
  HR_ASSIGN_OR_RETURN(const int64_t noop, context.integer("noop_with_empty_axes", 0));
  std::optional<Dims> axes = Dims();
  if (context.opset() < axes_input_since) {
    HR_ASSIGN_OR_RETURN(axes, context.integers("axes", {}));
  } else if (context.has_input(1)) {
    HR_ASSIGN_OR_RETURN(axes, context.integers(1));
  }
  std::optional<Shape> shape;
  if (x.shape && axes) {
    HR_ASSIGN_OR_RETURN(const std::vector<bool> reduced, reduced_axes(*axes, noop != 0, static_cast<int>(x.shape->size())));
    shape = Shape();
    for (size_t i = 0; i < reduced.size(); ++i) {
      if (!reduced[i] || keep != 0) shape->push_back(reduced[i] ? dim_of(1) : (*x.shape)[i]);
    }
  } else if (x.shape && keep != 0) {
    shape = unknown_shape(x.shape->size());
  }
  context.set(0, x.dtype, std::move(shape));
  return {};
}
Status infer_reduce(InferContext& context) { return infer_reduce_since(context, kAxesInput); }
Status infer_reduce_sum(InferContext& context) { return infer_reduce_since(context, 13); }

Status infer_arg_extreme(InferContext& context) {
  HR_ASSIGN_OR_RETURN(TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  HR_ASSIGN_OR_RETURN(const int64_t keep, context.integer("keepdims", 1));
  if (x.shape) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, std::max(static_cast<int>(x.shape->size()), 1)));
    if (x.shape->empty()) {
    } else if (keep != 0) {
      (*x.shape)[static_cast<size_t>(axis)] = dim_of(1);
    } else {
      x.shape->erase(x.shape->begin() + axis);
    }
  }
  context.set(0, DType::i64, std::move(x.shape));
  return {};
}

Status infer_running(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::optional<int64_t> given, context.integer_input(1));
  if (x.shape && given) {
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const int axis, normalize_axis(*given, static_cast<int>(x.shape->size())));
  }
  return infer_same(context);
}

constexpr OpRow kRows[] = {
    {"ArgMax", 1, arg_extreme<true>, infer_arg_extreme},
    {"ArgMin", 1, arg_extreme<false>, infer_arg_extreme},
    {"CumProd", 26, running<Product>, infer_running},
    {"CumSum", 11, running<Plain>, infer_running},
    {"ReduceL1", 1, reduce_l1, infer_reduce},
    {"ReduceL2", 1, reduce_l2, infer_reduce},
    {"ReduceLogSum", 1, reduce_log_sum, infer_reduce},
    {"ReduceLogSumExp", 1, reduce_log_sum_exp, infer_reduce},
    {"ReduceMax", 1, reduce_extreme<Largest>, infer_reduce},
    {"ReduceMean", 1, reduce_mean, infer_reduce},
    {"ReduceMin", 1, reduce_extreme<Smallest>, infer_reduce},
    {"ReduceProd", 1, reduce_prod, infer_reduce},
    {"ReduceSum", 1, reduce_sum, infer_reduce_sum},
    {"ReduceSumSquare", 1, reduce_sum_square, infer_reduce},
};

}  // namespace

std::span<const OpRow> ops_reduce() { return kRows; }

}  // namespace headrace::onnx
