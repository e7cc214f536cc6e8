// Operators that look at elements to choose, order or place them, and those that make simple patterns.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

Status non_zero(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  Dims places;
  bool known = dispatch_real(input->dtype(), [&]<class T>() {
    for (int64_t i = 0; i < input->elements(); ++i) {
      if (worth(input->data<T>()[i]) != 0) places.push_back(i);
    }
  });
  known = known || dispatch<std::complex<float>, std::complex<double>, std::string>(input->dtype(), [&]<class T>() {
    for (int64_t i = 0; i < input->elements(); ++i) {
      if (input->data<T>()[i] != T()) places.push_back(i);
    }
  });
  CHECK(known);
  const int64_t count = std::ssize(places);
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DType::i64, {input->rank(), count}));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = places[static_cast<size_t>(i)];
    for (int axis = input->rank() - 1; axis >= 0; --axis) {
      output->data<int64_t>()[axis * count + i] = rest % input->dim(axis);
      rest /= input->dim(axis);
    }
  }
  return {};
}

Status one_hot(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* indices, context.input(0));
  HR_ASSIGN_OR_RETURN(const double wanted_depth, number_input(context, 1));
  HR_ASSIGN_OR_RETURN(const Tensor* values, context.input(2));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", -1));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, indices->rank() + 1));
  if (values->elements() != 2) return make_status(Code::malformed, "values: want two, got {}", values->elements());
  const auto depth = saturated<int64_t>(wanted_depth);
  Dims dims = indices->dims();
  dims.insert(dims.begin() + axis, depth);
  HR_ASSIGN_OR_RETURN(const Tensor off, part_of(context, values->reshaped({2}), 0, 0, 1));
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *values, dims));
  fill(*output, off);
  if (output->elements() == 0) return {};
  const int64_t inner = product(dims, axis + 1, output->rank());
  const bool known = dispatch_number(indices->dtype(), [&]<class T>() {
    for (int64_t i = 0; i < indices->elements(); ++i) {
      const auto value = worth(indices->data<T>()[i]);
      int64_t hot = 0;
      if constexpr (std::is_floating_point_v<decltype(value)>)
        hot = value == value ? saturated<int64_t>(static_cast<double>(value)) : -depth - 1;
      else hot = std::in_range<int64_t>(value) ? static_cast<int64_t>(value) : depth;
      if (hot < -depth || hot >= depth) continue;
      copy_elements(*output, (i / inner * depth + (hot < 0 ? hot + depth : hot)) * inner + i % inner, *values, 1);
    }
  });
  return known ? Status() : wrong_type(indices->dtype());
}

Status eye_like(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("dtype", input->dtype()));
  HR_ASSIGN_OR_RETURN(const int64_t k, context.integer("k", 0));
  if (input->rank() != 2) return make_status(Code::malformed, "want a matrix, got [{}]", fmt::join(input->dims(), ", "));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, dtype, input->dims()));
  const int64_t rows = input->dim(0), columns = input->dim(1);
  const bool known = dispatch_real(dtype, [&]<class T>() {
    for (int64_t row = 0; columns > 0 && row < rows; ++row) {
      if (k > -columns - rows && k < columns && row + k >= 0 && row + k < columns)
        output->data<T>()[row * columns + row + k] = from_double<T>(1);
    }
  });
  return known ? Status() : wrong_type(dtype);
}

// How many numbers there are from `start` on, `delta` apart, before `limit`; huge counts of floats are cut.
template <class T>
Result<uint64_t> count_steps(T start, T limit, T delta) {
  if (delta == 0) return error(Code::malformed, "a delta of 0");
  if constexpr (std::is_integral_v<T>) {
    const bool rises = delta > 0;
    const auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit), step = static_cast<uint64_t>(delta);
    if (rises ? start >= limit : start <= limit) return 0;
    return ((rises ? to - from : from - to) - 1) / (rises ? step : 0 - step) + 1;
  } else {
    const double steps = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
    if (steps != steps) return error(Code::malformed, "from {} to {} by {}", start, limit, delta);
    return steps <= 0 ? 0 : static_cast<uint64_t>(std::min(steps, 2.0 * static_cast<double>(kMaxElements)));
  }
}

template <class T>
Result<Tensor> range_of(OpContext& context, T start, T limit, T delta) {
  HR_ASSIGN_OR_RETURN(const uint64_t count, count_steps(start, limit, delta));
  const auto length = static_cast<int64_t>(std::min<uint64_t>(count, uint64_t{2} * static_cast<uint64_t>(kMaxElements)));
  HR_ASSIGN_OR_RETURN(Tensor output, make_numbers(context, DTypeOf<T>::value, {length}));
  for (int64_t i = 0; i < length; ++i) {
    if constexpr (std::is_integral_v<T>)
      output.data<T>()[i] =
          static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
    else output.data<T>()[i] = static_cast<T>(static_cast<double>(start) + static_cast<double>(i) * static_cast<double>(delta));
  }
  return output;
}

Status range(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* start, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* limit, context.input(1));
  HR_ASSIGN_OR_RETURN(const Tensor* delta, context.input(2));
  if (start->elements() != 1 || limit->elements() != 1 || delta->elements() != 1 || start->dtype() != limit->dtype() ||
      start->dtype() != delta->dtype()) {
    return make_status(Code::malformed, "want three scalars of one type");
  }
  Result<Tensor> result = tl::unexpected(wrong_type(start->dtype()));
  dispatch<float, double, int16_t, int32_t, int64_t>(
      start->dtype(), [&]<class T>() { result = range_of(context, *start->data<T>(), *limit->data<T>(), *delta->data<T>()); });
  // In float, whatever stash_type: its only other value is wider.
  dispatch<f16, bf16>(start->dtype(), [&]<class T>() {
    result = range_of(context, to_float(*start->data<T>()), to_float(*limit->data<T>()), to_float(*delta->data<T>()));
    if (!result) return;
    Tensor narrow(start->dtype(), result->dims());
    for (int64_t i = 0; i < narrow.elements(); ++i)
      narrow.data<T>()[i] = from_double<T>(static_cast<double>(result->data<float>()[i]));
    result = std::move(narrow);
  });
  if (!result) return result.error();
  context.set(0, std::move(*result));
  return {};
}

// An order of all values: NaN is above everything, and all NaN are the same.
template <class T>
bool is_less(const T& a, const T& b) {
  if constexpr (kIsCode<T>) return is_less(to_float(a), to_float(b));
  else if constexpr (kIsSubByte<T>) return a.value < b.value;
  else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return is_less(a.real(), b.real()) || (!is_less(b.real(), a.real()) && is_less(a.imag(), b.imag()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return a < b || (a == a && b != b);
  } else {
    return a < b;
  }
}

Status top_k(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  int64_t k = 0;
  if (context.opset() < 10) {
    HR_ASSIGN_OR_RETURN(k, context.integer("k", -1));
  } else {
    HR_ASSIGN_OR_RETURN(k, integer_input(context, 1));
  }
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", -1));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, input->rank()));
  HR_ASSIGN_OR_RETURN(const int64_t largest, context.integer("largest", 1));
  const int64_t length = input->dim(axis);
  if (k < 0 || k > length) return make_status(Code::malformed, "k: want 0 to {}, got {}", length, k);
  Dims dims = input->dims();
  dims[static_cast<size_t>(axis)] = k;
  HR_ASSIGN_OR_RETURN(Tensor values, make_numbers(context, input->dtype(), dims));
  HR_ASSIGN_OR_RETURN(Tensor indices, make_numbers(context, DType::i64, dims));
  const bool known = dispatch_number(input->dtype(), [&]<class T>() {
    if (values.elements() == 0) return;
    const int64_t outer = product(dims, 0, axis), inner = product(dims, axis + 1, input->rank());
    Dims order(static_cast<size_t>(length));
    for (int64_t row = 0; row < outer * inner; ++row) {
      const T* from = input->data<T>() + row / inner * length * inner + row % inner;
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
        return largest != 0 ? is_less(from[b * inner], from[a * inner]) : is_less(from[a * inner], from[b * inner]);
      });
      for (int64_t i = 0; i < k; ++i) {
        const int64_t to = (row / inner * k + i) * inner + row % inner;
        values.data<T>()[to] = from[order[static_cast<size_t>(i)] * inner];
        indices.data<int64_t>()[to] = order[static_cast<size_t>(i)];
      }
    }
  });
  if (!known) return wrong_type(input->dtype());
  context.set(0, std::move(values));
  context.set(1, std::move(indices));
  return {};
}

Status unique(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* given, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t sorted, context.integer("sorted", 1));
  const Tensor input = context.has("axis") ? *given : given->reshaped({given->elements()});
  HR_ASSIGN_OR_RETURN(const int64_t wanted, context.integer("axis", 0));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(wanted, input.rank()));
  const int64_t length = input.dim(axis), outer = product(input.dims(), 0, axis),
                inner = product(input.dims(), axis + 1, input.rank());
  const int64_t size = length == 0 ? 0 : input.elements() / length;
  HR_RETURN_IF_ERROR(context.graphs().charge(static_cast<uint64_t>(length) * 4 * sizeof(int64_t)));
  Dims order(static_cast<size_t>(length)), firsts, inverse(static_cast<size_t>(length)), counts;
  std::iota(order.begin(), order.end(), 0);
  bool known = false;
  const auto find = [&]<class T>() {
    const T* data = input.data<T>();
    // Slices by their elements in order; where all are the same, by place.
    const auto compare = [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < size; ++i) {
        const int64_t at = i / inner * length * inner + i % inner;
        const T &left = data[at + a * inner], &right = data[at + b * inner];
        if (is_less(left, right)) return -1;
        if (is_less(right, left)) return 1;
      }
      return 0;
    };
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || compare(order[i - 1], order[i]) != 0) {
        firsts.push_back(order[i]);
        counts.push_back(0);
      }
      ++counts.back();
      inverse[static_cast<size_t>(order[i])] = std::ssize(firsts) - 1;
    }
  };
  known = dispatch_real(input.dtype(), find) ||
          dispatch<std::complex<float>, std::complex<double>, std::string>(input.dtype(), find);
  CHECK(known);
  if (sorted == 0) {
    Dims by_place(firsts.size()), rank_of(firsts.size());
    std::iota(by_place.begin(), by_place.end(), 0);
    std::ranges::sort(by_place, {}, [&](int64_t i) { return firsts[static_cast<size_t>(i)]; });
    Dims new_firsts, new_counts;
    for (const int64_t i : by_place) {
      rank_of[static_cast<size_t>(i)] = std::ssize(new_firsts);
      new_firsts.push_back(firsts[static_cast<size_t>(i)]);
      new_counts.push_back(counts[static_cast<size_t>(i)]);
    }
    for (int64_t& i : inverse) i = rank_of[static_cast<size_t>(i)];
    firsts = std::move(new_firsts);
    counts = std::move(new_counts);
  }
  const int64_t found = std::ssize(firsts);
  Dims dims = input.dims();
  dims[static_cast<size_t>(axis)] = found;
  HR_ASSIGN_OR_RETURN(Tensor values, make_for(context, input, dims));
  if (values.elements() > 0) {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < found; ++i) {
        copy_elements(values, (o * found + i) * inner, input, (o * length + firsts[static_cast<size_t>(i)]) * inner, inner);
      }
    }
  }
  context.set(0, std::move(values));
  context.set(1, Tensor::of({found}, firsts));
  context.set(2, Tensor::of({length}, inverse));
  context.set(3, Tensor::of({found}, counts));
  return {};
}

struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

Box box_at(const float* four, bool centered) {
  if (centered) return {four[1] - four[3] / 2, four[0] - four[2] / 2, four[1] + four[3] / 2, four[0] + four[2] / 2};
  return {std::min(four[0], four[2]), std::min(four[1], four[3]), std::max(four[0], four[2]), std::max(four[1], four[3])};
}

bool overlaps(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top),
              width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0) || !(width > 0)) return false;
  const float both = height * width;
  return both / (a.area() + b.area() - both) > threshold;
}

Status non_max_suppression(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* boxes, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* scores, context.input(1));
  HR_ASSIGN_OR_RETURN(const int64_t centered, context.integer("center_point_box", 0));
  if (boxes->dtype() != DType::f32 || scores->dtype() != DType::f32 || boxes->rank() != 3 || scores->rank() != 3 ||
      boxes->dim(2) != 4 || boxes->dim(0) != scores->dim(0) || boxes->dim(1) != scores->dim(2)) {
    return make_status(Code::malformed, "want boxes [batch, n, 4] and scores [batch, classes, n], got [{}] and [{}]",
                       fmt::join(boxes->dims(), ", "), fmt::join(scores->dims(), ", "));
  }
  int64_t most = 0;
  double threshold = 0, lowest = -std::numeric_limits<double>::infinity();
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(most, integer_input(context, 2));
  }
  if (context.has_input(3)) {
    HR_ASSIGN_OR_RETURN(threshold, number_input(context, 3));
  }
  if (context.has_input(4)) {
    HR_ASSIGN_OR_RETURN(lowest, number_input(context, 4));
  }
  if (!(threshold >= 0 && threshold <= 1)) return make_status(Code::malformed, "iou_threshold: want 0 to 1, got {}", threshold);
  std::vector<int64_t> selected;
  const int64_t count = boxes->dim(1), classes = scores->dim(1);
  for (int64_t row = 0; count > 0 && row < boxes->dim(0) * classes; ++row) {
    const float* own = scores->data<float>() + row * count;
    const float* corners = boxes->data<float>() + row / classes * count * 4;
    Dims order;
    for (int64_t i = 0; i < count; ++i) {
      if (own[i] >= static_cast<float>(lowest)) order.push_back(i);
    }
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return own[a] > own[b]; });
    std::vector<Box> kept;
    for (const int64_t i : order) {
      if (std::ssize(kept) >= most) break;
      const Box box = box_at(corners + i * 4, centered != 0);
      if (std::ranges::any_of(kept, [&](const Box& other) { return overlaps(other, box, static_cast<float>(threshold)); }))
        continue;
      kept.push_back(box);
      selected.insert(selected.end(), {row / classes, row % classes, i});
    }
  }
  context.set(0, Tensor::of({std::ssize(selected) / 3, 3}, selected));
  return {};
}

// ---- types

Status infer_non_zero(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  context.set(0, DType::i64, Shape{x.shape ? dim_of(std::ssize(*x.shape)) : Dim(), Dim()});
  return {};
}

Status infer_one_hot(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact indices, context.input(0));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const TensorFact depth, context.input(1));
  HR_ASSIGN_OR_RETURN(const TensorFact values, context.input(2));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", -1));
  std::optional<Shape> shape = indices.shape;
  if (shape) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, static_cast<int>(shape->size()) + 1));
    Dim length;
    const Tensor* number = context.constant(1);
    if (number != nullptr && number->elements() == 1) {
      dispatch_number(number->dtype(), [&]<class T>() {
        const auto value = saturated<int64_t>(static_cast<double>(worth(*number->data<T>())));
        if (value >= 0) length = dim_of(value);
      });
    } else if (context.fact(1).elements && context.fact(1).elements->size() == 1) {
      length = dim_of(context.fact(1).elements->front());
    }
    shape->insert(shape->begin() + axis, length);
  }
  context.set(0, values.dtype, std::move(shape));
  return {};
}

Status infer_eye_like(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_rank(x, 2, "input"));
  return infer_same_with(context, "dtype");
}

// How long a range of constant floats is.
Result<Dim> float_range(const InferContext& context) {
  double numbers[3];
  for (int i = 0; i < 3; ++i) {
    const Tensor* constant = context.constant(i);
    if (constant == nullptr || constant->elements() != 1) return Dim();
    dispatch<float, double, f16, bf16>(constant->dtype(),
                                       [&]<class T>() { numbers[i] = static_cast<double>(worth(*constant->data<T>())); });
  }
  HR_ASSIGN_OR_RETURN(const uint64_t count, count_steps(numbers[0], numbers[1], numbers[2]));
  return count <= static_cast<uint64_t>(kMaxElements) ? dim_of(static_cast<int64_t>(count)) : Dim();
}

Status infer_range(InferContext& context) {
  HR_ASSIGN_OR_RETURN(TensorFact start, context.input(0));
  for (int i = 1; i < 3; ++i) {
    HR_ASSIGN_OR_RETURN(const TensorFact next, context.input(i));
    HR_ASSIGN_OR_RETURN(start.dtype, same_dtype(start, next));
  }
  Dim length;
  // From 0 by 1: as long as the limit says.
  if (start.dtype == DType::i64 || start.dtype == DType::i32 || start.dtype == DType::i16) {
    HR_ASSIGN_OR_RETURN(const std::optional<int64_t> from, context.integer_input(0));
    HR_ASSIGN_OR_RETURN(const std::optional<int64_t> to, context.integer_input(1));
    HR_ASSIGN_OR_RETURN(const std::optional<int64_t> step, context.integer_input(2));
    if (from && to && step) {
      HR_ASSIGN_OR_RETURN(const uint64_t count, count_steps(*from, *to, *step));
      if (count <= static_cast<uint64_t>(kMaxElements)) length = dim_of(static_cast<int64_t>(count));
    } else if (from == 0 && step == 1 && context.fact(1).elements && context.fact(1).elements->size() == 1) {
      length = dim_of(context.fact(1).elements->front());
    }
  } else if (start.dtype && (is_float(*start.dtype) || *start.dtype == DType::f64)) {
    HR_ASSIGN_OR_RETURN(length, float_range(context));
  }
  context.set(0, start.dtype, Shape{length});
  return {};
}

Status infer_top_k(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", -1));
  Dim k;
  if (context.opset() < 10) {
    HR_ASSIGN_OR_RETURN(const int64_t number, context.integer("k", -1));
    if (number < 0) return make_status(Code::malformed, "k: want 0 or more, got {}", number);
    k = dim_of(number);
  } else {
    HR_ASSIGN_OR_RETURN(const std::optional<Elements> listed, context.elements(1));
    if (listed && listed->size() == 1) k = dim_of(listed->front());
  }
  std::optional<Shape> shape = x.shape;
  if (shape) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, static_cast<int>(shape->size())));
    Dim& length = (*shape)[static_cast<size_t>(axis)];
    if (is_known(length) && is_known(k) && k.value > length.value) {
      return make_status(Code::malformed, "k: want 0 to {}, got {}", length.value, k.value);
    }
    length = k;
  }
  context.set(0, x.dtype, shape);
  context.set(1, DType::i64, shape);
  return {};
}

Status infer_unique(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  std::optional<Shape> shape = Shape(1);
  Dim length = x.shape ? product(*x.shape) : Dim();
  if (context.has("axis")) {
    HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
    shape = x.shape;
    if (shape) {
      HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, static_cast<int>(shape->size())));
      length = std::exchange((*shape)[static_cast<size_t>(axis)], Dim());
    }
  }
  context.set(0, x.dtype, std::move(shape));
  context.set(1, DType::i64, Shape(1));
  context.set(2, DType::i64, Shape{length});
  context.set(3, DType::i64, Shape(1));
  return {};
}

Status infer_non_max_suppression(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact boxes, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact scores, context.input(1));
  HR_RETURN_IF_ERROR(want_rank(boxes, 3, "boxes"));
  HR_RETURN_IF_ERROR(want_rank(scores, 3, "scores"));
  context.set(0, DType::i64, Shape{Dim(), dim_of(3)});
  return {};
}

constexpr OpRow kRows[] = {
    {"EyeLike", 9, eye_like, infer_eye_like},
    {"NonMaxSuppression", 10, non_max_suppression, infer_non_max_suppression},
    {"NonZero", 9, non_zero, infer_non_zero},
    {"OneHot", 9, one_hot, infer_one_hot},
    {"Range", 11, range, infer_range},
    {"TopK", 1, top_k, infer_top_k},
    {"Unique", 11, unique, infer_unique},
};

}  // namespace

std::span<const OpRow> ops_selection() { return kRows; }

}  // namespace headrace::onnx
