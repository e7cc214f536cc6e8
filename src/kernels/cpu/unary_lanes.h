#pragma once
// Every UnaryKind on sixteen elements, and the one switch that turns a kind into a type, so that loops and epilogues are compiled once
// for each function:
//   with_unary(attrs, [&](auto function) { ... y = function(x); ... });

#include <optional>

#include "kernels/cpu/lanes.h"
#include "ops/unary.h"

HR_BEGIN_KERNELS
namespace {

// libm's function, one element after another: for functions too rare to have polynomials here.
template <class Function>
HR_INLINE Lanes each_element(Lanes x, Function function) {
  float values[kLanes];
  store(values, x);
  for (float& value : values) value = function(value);
  return load(values);
}

template <ops::UnaryKind kind>
struct UnaryFunction {
  using Kind = ops::UnaryKind;
  Lanes a, b;  // alpha, beta

  HR_INLINE explicit UnaryFunction(const ops::UnaryAttrs& attrs) : a(broadcast(attrs.alpha)), b(broadcast(attrs.beta)) {}

  // Where max and min meet NaN they give their second operand.
  HR_INLINE Lanes operator()(Lanes x) const {
    const Lanes one = broadcast(1.0f), half = broadcast(0.5f);
    if constexpr (kind == Kind::relu) {
      return max(zero(), x);
    } else if constexpr (kind == Kind::leaky_relu) {
      return if_less(x, zero(), a * x, x);
    } else if constexpr (kind == Kind::clip) {
      return min(b, max(a, x));
    } else if constexpr (kind == Kind::sigmoid) {
      return one / (one + exp(zero() - x));
    } else if constexpr (kind == Kind::hard_sigmoid) {
      return min(one, max(zero(), mul_add(a, x, b)));
    } else if constexpr (kind == Kind::silu) {
      return x / (one + exp(zero() - x));
    } else if constexpr (kind == Kind::hard_swish) {
      return x * min(one, max(zero(), mul_add(x, broadcast(1.0f / 6.0f), half)));
    } else if constexpr (kind == Kind::gelu_erf) {
      // x * normal CDF(x), from erfc on the side where it is small, so that far negative x keep their digits.
      const Lanes tail = half * erfc_of_positive(absolute(x) * broadcast(0.70710678f));
      return x * if_less(x, zero(), tail, one - tail);
    } else if constexpr (kind == Kind::gelu_tanh) {
      const Lanes cubic = mul_add(x * x * x, broadcast(0.044715f), x);
      return half * x * (one + tanh(cubic * broadcast(0.79788456f)));
    } else if constexpr (kind == Kind::elu) {
      return if_less(x, zero(), a * (exp(x) - one), x);
    } else if constexpr (kind == Kind::softplus) {
      return max(zero(), x) + log1p_of_unit(exp(zero() - absolute(x)));
    } else if constexpr (kind == Kind::mish) {
      // tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2); 1 where e is large.
      const Lanes e = exp(min(broadcast(20.0f), x)), n = e * (e + broadcast(2.0f));
      return x * (n / (n + broadcast(2.0f)));
    } else if constexpr (kind == Kind::softcap) {
      return a * tanh(x / a);
    } else if constexpr (kind == Kind::tanh) {
      return tanh(x);
    } else if constexpr (kind == Kind::erf) {
      return erf(x);
    } else if constexpr (kind == Kind::exp) {
      return exp_full_range(x);
    } else if constexpr (kind == Kind::log) {
      return log(x);
    } else if constexpr (kind == Kind::sqrt) {
      return sqrt(x);
    } else if constexpr (kind == Kind::reciprocal) {
      return one / x;
    } else if constexpr (kind == Kind::neg) {
      return x * broadcast(-1.0f);
    } else if constexpr (kind == Kind::abs) {
      return absolute(x);
    } else if constexpr (kind == Kind::floor) {
      return floor(x);
    } else if constexpr (kind == Kind::ceil) {
      return ceil(x);
    } else if constexpr (kind == Kind::round) {
      return round_to_even(x);
    } else if constexpr (kind == Kind::sign) {
      return if_less(zero(), x, one, if_less(x, zero(), broadcast(-1.0f), x));
    } else if constexpr (kind == Kind::sin) {
      return each_element(x, [](float value) { return __builtin_sinf(value); });
    } else {
      static_assert(kind == Kind::cos);
      return each_element(x, [](float value) { return __builtin_cosf(value); });
    }
  }
};

// A function that only bounds its argument (relu, clip), as min(max(x, low), high); any other one stays in `activation`.
struct Bounds {
  float low = kMinusInfinity, high = -kMinusInfinity;
  const ops::UnaryAttrs* activation = nullptr;

  HR_INLINE explicit Bounds(const std::optional<ops::UnaryAttrs>& function) {
    if (!function) return;
    if (function->kind == ops::UnaryKind::relu) {
      low = 0.0f;
    } else if (function->kind == ops::UnaryKind::clip) {
      low = function->alpha;
      high = function->beta;
    } else {
      activation = &*function;
    }
  }
};

// Calls use(UnaryFunction<kind>) for the kind of `attrs`.
template <class Use>
HR_INLINE void with_unary(const ops::UnaryAttrs& attrs, Use use) {
  using Kind = ops::UnaryKind;
#define HR_KIND(kind) \
  case Kind::kind: return use(UnaryFunction<Kind::kind>(attrs))
  switch (attrs.kind) {
    HR_KIND(relu);
    HR_KIND(leaky_relu);
    HR_KIND(clip);
    HR_KIND(sigmoid);
    HR_KIND(hard_sigmoid);
    HR_KIND(silu);
    HR_KIND(hard_swish);
    HR_KIND(gelu_erf);
    HR_KIND(gelu_tanh);
    HR_KIND(elu);
    HR_KIND(softplus);
    HR_KIND(mish);
    HR_KIND(softcap);
    HR_KIND(tanh);
    HR_KIND(erf);
    HR_KIND(exp);
    HR_KIND(log);
    HR_KIND(sqrt);
    HR_KIND(reciprocal);
    HR_KIND(neg);
    HR_KIND(abs);
    HR_KIND(floor);
    HR_KIND(ceil);
    HR_KIND(round);
    HR_KIND(sign);
    HR_KIND(sin);
    HR_KIND(cos);
  }
#undef HR_KIND
}

}  // namespace
HR_END_KERNELS
