// Elementwise operators of two and more tensors, broadcast by numpy's rules.
#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

struct Pair {
  const Tensor* a;
  const Tensor* b;
};

Result<Pair> pair_of(const OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* a, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* b, context.input(1));
  HR_RETURN_IF_ERROR(same_type(*a, *b));
  return Pair{a, b};
}

template <class Op>
Status arithmetic(OpContext& context, Op op) {
  HR_ASSIGN_OR_RETURN(const Pair in, pair_of(context));
  Status status;
  const bool known = dispatch_number(in.a->dtype(), [&]<class T>() {
    status =
        zip<T, T, T>(context, *in.a, *in.b, [&](T x, T y) { return narrow<T>(static_cast<Wide<T>>(op(widen(x), widen(y)))); });
  });
  return known ? status : unknown_type(in.a->dtype());
}

Status add(OpContext& context) {
  return arithmetic(context, []<class W>(W x, W y) { return wrap_add(x, y); });
}
Status sub(OpContext& context) {
  return arithmetic(context, []<class W>(W x, W y) { return wrap_sub(x, y); });
}
Status mul(OpContext& context) {
  return arithmetic(context, []<class W>(W x, W y) { return wrap_mul(x, y); });
}

Status by_zero(bool happened) {
  return happened ? make_status(Code::invalid_argument, "an integer is divided by zero") : Status();
}

Status div(OpContext& context) {
  bool zero = false;
  HR_RETURN_IF_ERROR(arithmetic(context, [&]<class W>(W x, W y) -> W {
    if constexpr (std::is_floating_point_v<W>) {
      return x / y;
    } else {
      zero = zero || y == 0;
      if (y == 0) return 0;
      if constexpr (std::is_signed_v<W>) {
        if (y == -1) return wrap_sub(W{0}, x);  // the lowest value has no negative
      }
      return static_cast<W>(x / y);
    }
  }));
  return by_zero(zero);
}

// The remainder with the divisor's sign; zeros and infinities as the document's table for opset 28 says.
template <class W>
W floor_mod(W x, W y) {
  const W rest = std::fmod(x, y);
  if (std::isnan(rest)) return rest;
  if (rest == 0) return std::copysign(W{0}, y);
  return (rest < 0) != (y < 0) ? rest + y : rest;
}

Status mod(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const int64_t fmod, context.integer("fmod", 0));
  bool zero = false;
  HR_RETURN_IF_ERROR(arithmetic(context, [&]<class W>(W x, W y) -> W {
    if constexpr (std::is_floating_point_v<W>) {
      return fmod != 0 ? std::fmod(x, y) : floor_mod(x, y);
    } else {
      zero = zero || y == 0;
      if (y == 0) return 0;
      if constexpr (std::is_signed_v<W>) {
        if (y == -1) return 0;
      }
      const W rest = static_cast<W>(x % y);
      return fmod == 0 && rest != 0 && (rest < 0) != (y < 0) ? static_cast<W>(rest + y) : rest;
    }
  }));
  return by_zero(zero);
}

// Integers wrap around; a negative power is rounded to zero.
template <class W>
W integer_power(W base, int64_t exponent, bool& zero) {
  if (exponent < 0) {
    zero = zero || base == 0;
    if (base == 1) return 1;
    if constexpr (std::is_signed_v<W>) {
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    }
    return 0;
  }
  W result = 1;
  for (auto rest = static_cast<uint64_t>(exponent); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) result = wrap_mul(result, base);
    base = wrap_mul(base, base);
  }
  return result;
}

Status pow(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* base, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* exponent, context.input(1));
  // Exponents as i64 or f64, lest every pair of types is a loop of its own.
  Tensor whole(DType::i64, {0}), real(DType::f64, {0});
  const bool is_whole = dispatch_integer(exponent->dtype(), [&]<class T>() {
    whole = Tensor(DType::i64, exponent->dims());
    // An unsigned one beyond i64 keeps its oddness and stays huge.
    std::ranges::transform(exponent->values<T>(), whole.data<int64_t>(), [](T x) {
      return std::is_unsigned_v<T> && static_cast<int64_t>(x) < 0
                 ? std::numeric_limits<int64_t>::max() - 1 + static_cast<int64_t>(x & 1)
                 : static_cast<int64_t>(x);
    });
  });
  const bool is_real = dispatch_float(exponent->dtype(), [&]<class T>() {
    real = Tensor(DType::f64, exponent->dims());
    std::ranges::transform(exponent->values<T>(), real.data<double>(), [](T x) { return static_cast<double>(widen(x)); });
  });
  if (!is_whole && !is_real) return unknown_type(exponent->dtype());
  bool zero = false;
  Status status;
  const bool known = dispatch_number(base->dtype(), [&]<class T>() {
    if (is_real) {
      status = zip<T, double, T>(context, *base, real, [](T x, double y) {
        const double power = std::pow(static_cast<double>(widen(x)), y);
        if constexpr (std::is_integral_v<T>) return saturated<T>(power);
        else return narrow<T>(power);
      });
    } else {
      status = zip<T, int64_t, T>(context, *base, whole, [&](T x, int64_t y) {
        if constexpr (std::is_integral_v<T>) return integer_power(x, y, zero);
        else return narrow<T>(std::pow(static_cast<double>(widen(x)), static_cast<double>(y)));
      });
    }
  });
  if (!known) return unknown_type(base->dtype());
  HR_RETURN_IF_ERROR(std::move(status));
  return by_zero(zero);
}

template <class Op>
Status logical(OpContext& context, Op op) {
  HR_ASSIGN_OR_RETURN(const Pair in, pair_of(context));
  if (in.a->dtype() != DType::boolean) return unknown_type(in.a->dtype());
  return zip<bool, bool, bool>(context, *in.a, *in.b, op);
}
Status logical_and(OpContext& context) {
  return logical(context, [](bool x, bool y) { return x && y; });
}
Status logical_or(OpContext& context) {
  return logical(context, [](bool x, bool y) { return x || y; });
}
Status logical_xor(OpContext& context) {
  return logical(context, [](bool x, bool y) { return x != y; });
}

template <class Op>
Status bitwise(OpContext& context, Op op) {
  HR_ASSIGN_OR_RETURN(const Pair in, pair_of(context));
  Status status;
  const bool known = dispatch_integer(in.a->dtype(), [&]<class T>() {
    status = zip<T, T, T>(context, *in.a, *in.b, [&](T x, T y) { return static_cast<T>(op(x, y)); });
  });
  return known ? status : unknown_type(in.a->dtype());
}
Status bitwise_and(OpContext& context) {
  return bitwise(context, [](auto x, auto y) { return x & y; });
}
Status bitwise_or(OpContext& context) {
  return bitwise(context, [](auto x, auto y) { return x | y; });
}
Status bitwise_xor(OpContext& context) {
  return bitwise(context, [](auto x, auto y) { return x ^ y; });
}

Status bit_shift(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const std::string direction, context.text("direction", ""));
  if (direction != "LEFT" && direction != "RIGHT") {
    return make_status(Code::malformed, "direction: want LEFT or RIGHT, got \"{}\"", direction);
  }
  const bool left = direction == "LEFT";
  return bitwise(context, [&]<class T>(T x, T y) -> T {
    constexpr int kBits = static_cast<int>(sizeof(T)) * 8;
    if (y < 0 || static_cast<uint64_t>(y) >= kBits) return !left && x < 0 ? static_cast<T>(-1) : T{0};
    return left ? static_cast<T>(static_cast<uint64_t>(x) << y) : static_cast<T>(x >> y);
  });
}

template <class Op>
Status compare(OpContext& context, Op op) {
  HR_ASSIGN_OR_RETURN(const Pair in, pair_of(context));
  Status status;
  const bool known = dispatch_number(in.a->dtype(), [&]<class T>() {
    status = zip<T, T, bool>(context, *in.a, *in.b, [&](T x, T y) { return op(widen(x), widen(y)); });
  });
  return known ? status : unknown_type(in.a->dtype());
}
Status greater(OpContext& context) {
  return compare(context, [](auto x, auto y) { return x > y; });
}
Status greater_or_equal(OpContext& context) {
  return compare(context, [](auto x, auto y) { return x >= y; });
}
Status less(OpContext& context) {
  return compare(context, [](auto x, auto y) { return x < y; });
}
Status less_or_equal(OpContext& context) {
  return compare(context, [](auto x, auto y) { return x <= y; });
}

Status equal(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Pair in, pair_of(context));
  Status status;
  const bool done = dispatch<bool, std::string>(in.a->dtype(), [&]<class T>() {
    status = zip<T, T, bool>(context, *in.a, *in.b, [](const T& x, const T& y) { return x == y; });
  });
  return done ? status : compare(context, [](auto x, auto y) { return x == y; });
}

// Folds all inputs; `finish` is given the result and how many there were.
template <class Fold, class Finish>
Status fold(OpContext& context, Fold op, Finish finish) {
  HR_ASSIGN_OR_RETURN(const Tensor* first, context.input(0));
  Dims dims = first->dims();
  for (int i = 1; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(const Tensor* next, context.input(i));
    HR_RETURN_IF_ERROR(same_type(*first, *next));
    HR_ASSIGN_OR_RETURN(dims, broadcast(dims, next->dims()));
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, first->dtype(), dims));
  return typed(dispatch_number(first->dtype(),
                               [&]<class T>() {
                                 std::vector<Wide<T>> sums(static_cast<size_t>(output->elements()));
                                 for (int i = 0; i < context.num_inputs(); ++i) {
                                   const Tensor& next = *context.value(i).tensor();
                                   const T* from = next.data<T>();
                                   auto to = sums.begin();
                                   walk<1>(dims, {broadcast_strides(next.dims(), dims)},
                                           [&](const auto& at, const auto& steps, int64_t count) {
                                             for (int64_t k = 0; k < count; ++k, ++to) {
                                               const Wide<T> x = widen(from[at[0] + k * steps[0]]);
                                               *to = i == 0 ? x : op(*to, x);
                                             }
                                           });
                                 }
                                 T* to = output->data<T>();
                                 for (const Wide<T> x : sums) {
                                   *to++ = narrow<T>(static_cast<Wide<T>>(finish(x, context.num_inputs())));
                                 }
                               }),
               first->dtype());
}

constexpr auto kAsItIs = [](auto x, int) { return x; };

Status max(OpContext& context) {
  return fold(context, []<class W>(W x, W y) { return larger(x, y); }, kAsItIs);
}
Status min(OpContext& context) {
  return fold(context, []<class W>(W x, W y) { return smaller(x, y); }, kAsItIs);
}
Status sum(OpContext& context) {
  return fold(context, []<class W>(W x, W y) { return wrap_add(x, y); }, kAsItIs);
}
Status mean(OpContext& context) {
  return fold(
      context, []<class W>(W x, W y) { return wrap_add(x, y); },
      []<class W>(W x, int count) {
        // In 64 bits: the count may be more than the type holds.
        if constexpr (std::is_floating_point_v<W>) return x / static_cast<W>(count);
        else if constexpr (std::is_signed_v<W>) return static_cast<W>(static_cast<int64_t>(x) / count);
        else return static_cast<W>(static_cast<uint64_t>(x) / static_cast<uint64_t>(count));
      });
}

Status prelu(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Pair in, pair_of(context));
  HR_ASSIGN_OR_RETURN(const Dims dims, broadcast(in.a->dims(), in.b->dims()));
  if (dims != in.a->dims()) {
    return make_status(Code::malformed, "slope: dims [{}] do not go into [{}]", fmt::join(in.b->dims(), ", "),
                       fmt::join(in.a->dims(), ", "));
  }
  return arithmetic(context, []<class W>(W x, W slope) { return x < 0 ? wrap_mul(x, slope) : x; });
}

Status where(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* condition, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(1));
  HR_ASSIGN_OR_RETURN(const Tensor* y, context.input(2));
  HR_RETURN_IF_ERROR(same_type(*x, *y));
  if (condition->dtype() != DType::boolean) {
    return make_status(Code::malformed, "condition: want bool, got {}", dtype_name(condition->dtype()));
  }
  HR_ASSIGN_OR_RETURN(Dims dims, broadcast(condition->dims(), x->dims()));
  HR_ASSIGN_OR_RETURN(dims, broadcast(dims, y->dims()));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, x->dtype(), dims));
  const bool* chosen = condition->data<bool>();
  int64_t to = 0;
  walk<3>(dims,
          {broadcast_strides(condition->dims(), dims), broadcast_strides(x->dims(), dims), broadcast_strides(y->dims(), dims)},
          [&](const auto& at, const auto& steps, int64_t count) {
            for (int64_t i = 0; i < count; ++i, ++to) {
              const bool first = chosen[at[0] + i * steps[0]];
              copy_elements(*output, to, first ? *x : *y, first ? at[1] + i * steps[1] : at[2] + i * steps[2]);
            }
          });
  return {};
}

// ---- types

// As infer_broadcast; sums and products of dims that are known one by one stay known.
template <class Op>
Status infer_arithmetic(InferContext& context, Op op) {
  HR_RETURN_IF_ERROR(infer_broadcast(context));
  if (context.num_inputs() != 2 || (!context.fact(0).elements && !context.fact(1).elements)) return {};
  Elements parts[2];
  for (int i = 0; i < 2; ++i) {
    HR_ASSIGN_OR_RETURN(const TensorFact input, context.input(i));
    if (!input.dtype || !input.shape || input.shape->size() > 1) return {};
    HR_ASSIGN_OR_RETURN(const std::optional<Elements> listed, context.elements(i));
    if (!listed) return {};
    parts[i] = *listed;
  }
  const auto& [a, b] = parts;
  if (a.size() != b.size() && a.size() != 1 && b.size() != 1) return {};
  Elements results;
  for (size_t i = 0; i < (a.size() == 1 ? b.size() : a.size()); ++i)
    results.push_back(op(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]));
  const bool scalar = context.fact(0).type.shape->empty() && context.fact(1).type.shape->empty();
  context.set_elements(0, context.fact(0).type.dtype, scalar ? 0 : 1, std::move(results));
  return {};
}

// op(a, b) of numbers that fit; else what `otherwise` says of the elements.
template <class Op, class Otherwise>
Element computed(const Element& a, const Element& b, Op op, Otherwise otherwise) {
  int64_t result = 0;
  if (a.number && b.number) return op(*a.number, *b.number, &result) ? Element() : Element{result, ""};
  return otherwise(a, b);
}

Status infer_add(InferContext& context) {
  return infer_arithmetic(context, [](const Element& a, const Element& b) {
    return computed(a, b, [](int64_t x, int64_t y, int64_t* to) { return __builtin_add_overflow(x, y, to); },
                    [](const Element& x, const Element& y) { return x.number == 0 ? y : y.number == 0 ? x : Element(); });
  });
}
Status infer_sub(InferContext& context) {
  return infer_arithmetic(context, [](const Element& a, const Element& b) {
    return computed(a, b, [](int64_t x, int64_t y, int64_t* to) { return __builtin_sub_overflow(x, y, to); },
                    [](const Element& x, const Element& y) {
                      if (!x.symbol.empty() && x.symbol == y.symbol) return Element{0, ""};
                      return y.number == 0 ? x : Element();
                    });
  });
}
Status infer_mul(InferContext& context) {
  return infer_arithmetic(context, [](const Element& a, const Element& b) {
    return computed(a, b, [](int64_t x, int64_t y, int64_t* to) { return __builtin_mul_overflow(x, y, to); },
                    [](const Element& x, const Element& y) {
                      if (x.number == 0 || y.number == 0) return Element{0, ""};
                      return x.number == 1 ? y : y.number == 1 ? x : Element();
                    });
  });
}
Status infer_div(InferContext& context) {
  return infer_arithmetic(context, [](const Element& a, const Element& b) {
    const auto divide = [](int64_t x, int64_t y, int64_t* to) {
      if (y == 0 || y == -1) return true;
      *to = x / y;
      return false;
    };
    return computed(a, b, divide, [](const Element& x, const Element& y) { return y.number == 1 ? x : Element(); });
  });
}

Status infer_pow(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact base, context.input(0));
  HR_ASSIGN_OR_RETURN(std::optional<Shape> shape, broadcast_inputs(context, 0, 2));
  context.set(0, base.dtype, std::move(shape));
  return {};
}

Status infer_logical(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact a, context.input(0));
  HR_RETURN_IF_ERROR(want_dtype(a, DType::boolean, "input 0"));
  return infer_compare(context);
}

Status infer_prelu(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact slope, context.input(1));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const auto common, broadcast_inputs(context, 0, 2));
  if (x.shape && slope.shape && slope.shape->size() > x.shape->size()) {
    return make_status(Code::malformed, "slope: dims {} do not go into {}", describe(*slope.shape), describe(*x.shape));
  }
  HR_ASSIGN_OR_RETURN(const auto dtype, same_dtype(x, slope));
  context.set(0, dtype, x.shape);
  return {};
}

Status infer_where(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact condition, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(1));
  HR_ASSIGN_OR_RETURN(const TensorFact y, context.input(2));
  HR_RETURN_IF_ERROR(want_dtype(condition, DType::boolean, "condition"));
  HR_ASSIGN_OR_RETURN(const auto dtype, same_dtype(x, y));
  HR_ASSIGN_OR_RETURN(std::optional<Shape> shape, broadcast_inputs(context, 0, 3));
  context.set(0, dtype, std::move(shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"Add", 7, add, infer_add},
    {"And", 7, logical_and, infer_logical},
    {"BitShift", 11, bit_shift, infer_broadcast},
    {"BitwiseAnd", 18, bitwise_and, infer_broadcast},
    {"BitwiseOr", 18, bitwise_or, infer_broadcast},
    {"BitwiseXor", 18, bitwise_xor, infer_broadcast},
    {"Div", 7, div, infer_div},
    {"Equal", 7, equal, infer_compare},
    {"Greater", 7, greater, infer_compare},
    {"GreaterOrEqual", 12, greater_or_equal, infer_compare},
    {"Less", 7, less, infer_compare},
    {"LessOrEqual", 12, less_or_equal, infer_compare},
    {"Max", 6, max, infer_broadcast},
    {"Mean", 6, mean, infer_broadcast},
    {"Min", 6, min, infer_broadcast},
    {"Mod", 10, mod, infer_broadcast},
    {"Mul", 7, mul, infer_mul},
    {"Or", 7, logical_or, infer_logical},
    {"PRelu", 7, prelu, infer_prelu},
    {"Pow", 7, pow, infer_pow},
    {"Sub", 7, sub, infer_sub},
    {"Sum", 6, sum, infer_broadcast},
    {"Where", 9, where, infer_where, {.moves = 0b110}},
    {"Xor", 7, logical_xor, infer_logical},
};

}  // namespace

std::span<const OpRow> ops_binary() { return kRows; }

}  // namespace headrace::onnx
