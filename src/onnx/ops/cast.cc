// Conversions between element types: Cast, CastLike, BitCast. What the operator document leaves open: floats beyond an integer
// type lose their fraction and then their high bits, as integers do (64 bits saturate, NaN is 0); strings that are no number
// are an error; floats become strings by their shortest form that reads back, "NaN", "INF" and "-INF".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

// A number of any type without loss: a float, or an integer of 64 bits, which may be unsigned.
struct Number {
  enum class Kind : uint8_t { real, whole, natural } kind = Kind::whole;
  double real = 0;
  int64_t whole = 0;  // the bits of a natural one
};

template <class T>
Number number_of(const T& value) {
  const auto own = worth(value);
  using W = std::remove_const_t<decltype(own)>;
  if constexpr (std::is_floating_point_v<W>) return {Number::Kind::real, static_cast<double>(own), 0};
  else return {std::is_same_v<W, uint64_t> ? Number::Kind::natural : Number::Kind::whole, 0, static_cast<int64_t>(own)};
}

Result<Number> parse_number(const std::string& text) {
  std::string_view rest = text;
  if (rest.starts_with('+') && !rest.starts_with("+-")) rest.remove_prefix(1);
  const char *begin = rest.data(), *end = begin + rest.size();
  int64_t whole = 0;
  if (const auto read = std::from_chars(begin, end, whole); read.ec == std::errc() && read.ptr == end)
    return Number{Number::Kind::whole, 0, whole};
  uint64_t natural = 0;
  if (const auto read = std::from_chars(begin, end, natural); read.ec == std::errc() && read.ptr == end) {
    return Number{Number::Kind::natural, 0, static_cast<int64_t>(natural)};
  }
  double real = 0;
  const auto read = std::from_chars(begin, end, real);  // takes "inf" and "nan" in any case too
  if (read.ptr == end && !rest.empty() && read.ec == std::errc::result_out_of_range) {
    const bool tiny = rest.find("e-") != rest.npos || rest.find("E-") != rest.npos;
    const double magnitude = tiny ? 0 : std::numeric_limits<double>::infinity();
    return Number{Number::Kind::real, rest.front() == '-' ? -magnitude : magnitude, 0};
  }
  if (read.ec != std::errc() || read.ptr != end) return error(Code::malformed, "\"{:.64}\" is not a number", text);
  return Number{Number::Kind::real, real, 0};
}

std::string text_of(DType from, const Number& number) {
  if (from == DType::boolean) return number.whole != 0 ? "True" : "False";
  if (number.kind == Number::Kind::whole) return fmt::format("{}", number.whole);
  if (number.kind == Number::Kind::natural) return fmt::format("{}", static_cast<uint64_t>(number.whole));
  if (number.real != number.real) return "NaN";
  if (std::isinf(number.real)) return number.real > 0 ? "INF" : "-INF";
  std::string text = from == DType::f64 ? fmt::format("{}", number.real) : fmt::format("{}", static_cast<float>(number.real));
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

struct Rules {
  bool saturate = true;
  ScaleRounding rounding = ScaleRounding::up;
};

template <class T>
T converted(const Number& number, const Rules& rules) {
  const auto as = [&]<class R>() {
    return number.kind == Number::Kind::real      ? static_cast<R>(number.real)
           : number.kind == Number::Kind::natural ? static_cast<R>(static_cast<uint64_t>(number.whole))
                                                  : static_cast<R>(number.whole);
  };
  if constexpr (std::is_same_v<T, bool>) {
    return number.kind == Number::Kind::real ? number.real != 0 : number.whole != 0;
  } else if constexpr (std::is_floating_point_v<T>) {
    return as.template operator()<T>();
  } else if constexpr (std::is_same_v<T, f8e8m0>) {
    return to_f8e8m0(as.template operator()<double>(), rules.saturate, rules.rounding);
  } else if constexpr (kIsCode<T>) {
    // The types of 16 bits have an infinity, which they keep.
    return to_small_float<T>(as.template operator()<double>(), sizeof(T) == 1 && rules.saturate);
  } else {
    uint64_t bits = static_cast<uint64_t>(number.whole);
    if (number.kind == Number::Kind::real) {
      bits = number.real > 0x1p62 ? saturated<uint64_t>(number.real) : static_cast<uint64_t>(saturated<int64_t>(number.real));
      if (std::is_same_v<T, int64_t> && number.real > 0x1p62) bits = static_cast<uint64_t>(saturated<int64_t>(number.real));
    }
    if constexpr (kIsSubByte<T>) {
      constexpr unsigned width = std::is_same_v<T, i4> || std::is_same_v<T, u4> ? 4 : 2;
      const auto low = static_cast<uint8_t>(bits << (8 - width));
      return T{static_cast<decltype(T::value)>(static_cast<decltype(T::value)>(low) >> (8 - width))};
    } else {
      return static_cast<T>(bits);
    }
  }
}

Status cast_to(OpContext& context, DType to, const Rules& rules) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  if (to == input->dtype()) {
    context.set(0, *input);
    return {};
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, to, input->dims()));
  // One function reads, another writes, so that types do not meet in pairs.
  Number (*read)(const Tensor&, int64_t) = nullptr;
  void (*write)(Tensor&, int64_t, const Number&, const Rules&) = nullptr;
  dispatch_real(input->dtype(),
                [&]<class T>() { read = [](const Tensor& from, int64_t i) { return number_of(from.data<T>()[i]); }; });
  dispatch_real(to, [&]<class T>() {
    write = [](Tensor& into, int64_t i, const Number& number, const Rules& own) {
      into.data<T>()[i] = converted<T>(number, own);
    };
  });
  const bool from_text = input->dtype() == DType::string, to_text = to == DType::string;
  if (read == nullptr && !from_text) return wrong_type(input->dtype());
  if (write == nullptr && !to_text) return wrong_type(to);
  for (int64_t i = 0; i < input->elements(); ++i) {
    Number number;
    if (from_text) {
      HR_ASSIGN_OR_RETURN(number, parse_number(input->data<std::string>()[i]));
    } else {
      number = read(*input, i);
    }
    if (to_text) output->data<std::string>()[i] = text_of(input->dtype(), number);
    else write(*output, i, number, rules);
  }
  return {};
}

Result<Rules> rules_of(const NodeReader& context) {
  HR_ASSIGN_OR_RETURN(const int64_t saturate, context.integer("saturate", 1));
  HR_ASSIGN_OR_RETURN(const std::string mode, context.text("round_mode", "up"));
  if (mode != "up" && mode != "down" && mode != "nearest")
    return error(Code::malformed, "round_mode: want up, down or nearest, got \"{}\"", mode);
  return Rules{saturate != 0, mode == "up" ? ScaleRounding::up : mode == "down" ? ScaleRounding::down : ScaleRounding::nearest};
}

Result<DType> target_of(const NodeReader& context) {
  if (!context.has("to")) return error(Code::malformed, "attribute to: want an element type, got none");
  return context.dtype_attribute("to", DType::f32);
}

Status cast(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const DType to, target_of(context));
  HR_ASSIGN_OR_RETURN(const Rules rules, rules_of(context));
  return cast_to(context, to, rules);
}

Status cast_like(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* like, context.input(1));
  HR_ASSIGN_OR_RETURN(const Rules rules, rules_of(context));
  return cast_to(context, like->dtype(), rules);
}

int bits_of(DType dtype) {
  if (dtype == DType::i4 || dtype == DType::u4 || dtype == DType::f4e2m1) return 4;
  if (dtype == DType::i2 || dtype == DType::u2) return 2;
  return static_cast<int>(dtype_bytes(dtype)) * 8;
}

Status bit_cast(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const DType to, target_of(context));
  const int bits = bits_of(to);
  if (bits == 0 || bits != bits_of(input->dtype())) {
    return make_status(Code::malformed, "from {} to {}: want types of one width", dtype_name(input->dtype()), dtype_name(to));
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, to, input->dims()));
  if (input->elements() == 0) return {};
  const auto* from = reinterpret_cast<const uint8_t*>(input->raw());
  std::copy_n(from, input->bytes(), reinterpret_cast<uint8_t*>(output->raw()));
  if (to == DType::boolean || bits < 8) {
    // A bool is 0 or 1; a byte that holds fewer bits is the number that they mean.
    const bool is_signed = to == DType::i4 || to == DType::i2;
    for (int64_t i = 0; i < output->elements(); ++i) {
      const auto high = static_cast<uint8_t>(from[i] << (8 - bits));
      const auto value =
          is_signed ? static_cast<uint8_t>(static_cast<int8_t>(high) >> (8 - bits)) : static_cast<uint8_t>(high >> (8 - bits));
      output->raw()[i] = std::byte{to == DType::boolean ? static_cast<uint8_t>(from[i] != 0) : value};
    }
  }
  return {};
}

// ---- types

Status infer_cast(InferContext& context) {
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const DType to, target_of(context));
  return infer_same_with(context, "to");
}

Status infer_cast_like(InferContext& context) {
  HR_ASSIGN_OR_RETURN(TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact like, context.input(1));
  context.set(0, like.dtype, std::move(x.shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"BitCast", 26, bit_cast, infer_cast},
    {"Cast", 6, cast, infer_cast, kMovesFirst},
    {"CastLike", 15, cast_like, infer_cast_like},
};

}  // namespace

std::span<const OpRow> ops_cast() { return kRows; }

}  // namespace headrace::onnx
