#pragma once
// Symbolic shapes. A Dim is a constant, a symbol, or affine in symbols: constant + sum of coefficient * symbol. Symbols
// stand for the counts that change per step (tokens T, sequences S, logit rows R); each has an upper bound, so that
// memory can be planned. Values of symbols come in Bindings at run time.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace headrace {

using SymbolId = uint8_t;
inline constexpr int kMaxSymbols = 16;
inline constexpr int kMaxRank = 8;

// One value per symbol; -1 where unbound.
class Bindings {
 public:
  Bindings() { values_.fill(-1); }
  void set(SymbolId symbol, int64_t value) { values_[symbol] = value; }
  int64_t get(SymbolId symbol) const { return values_[symbol]; }
  bool operator==(const Bindings&) const = default;

 private:
  std::array<int64_t, kMaxSymbols> values_;
};

class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(int64_t constant) : constant_(constant) {}  // NOLINT: a number is a dim
  static Dim symbol(SymbolId id) {
    Dim dim;
    dim.terms_[0] = {1, id};
    return dim;
  }

  bool is_constant() const { return terms_[0].coefficient == 0; }
  int64_t constant() const {
    CHECK(is_constant());
    return constant_;
  }
  int64_t eval(const Bindings& bindings) const {
    int64_t value = constant_;
    for (const Term& term : terms_) {
      if (term.coefficient != 0) value += term.coefficient * bindings.get(term.symbol);
    }
    return value;
  }
  Dim operator+(const Dim& other) const;
  Dim operator-(const Dim& other) const { return *this + other * -1; }
  Dim operator*(int64_t factor) const;
  bool operator==(const Dim&) const = default;
  // "2*T+1" with names from `symbols`.
  std::string to_string(std::span<const std::string> symbols) const;

 private:
  struct Term {
    int64_t coefficient = 0;
    SymbolId symbol = 0;
    bool operator==(const Term&) const = default;
  };
  int64_t constant_ = 0;
  std::array<Term, 2> terms_{};  // used terms first, by symbol; an unused one is {0, 0}
};

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims) {
    for (const Dim& dim : dims) push_back(dim);
  }

  int rank() const { return rank_; }
  const Dim& operator[](int axis) const { return dims_[axis]; }
  Dim& operator[](int axis) { return dims_[axis]; }
  void push_back(const Dim& dim) {
    CHECK(rank_ < kMaxRank);
    dims_[rank_++] = dim;
  }
  const Dim* begin() const { return dims_.data(); }
  const Dim* end() const { return dims_.data() + rank_; }
  int64_t elements(const Bindings& bindings) const {
    int64_t count = 1;
    for (const Dim& dim : *this) count *= dim.eval(bindings);
    return count;
  }
  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int axis = 0; axis < rank_; ++axis) {
      if (!(dims_[axis] == other.dims_[axis])) return false;
    }
    return true;
  }
  std::string to_string(std::span<const std::string> symbols) const;

 private:
  std::array<Dim, kMaxRank> dims_{};
  uint8_t rank_ = 0;
};

// The symbols of a graph: names and upper bounds.
class SymbolTable {
 public:
  SymbolId add(std::string_view name, int64_t upper_bound);
  int64_t upper_bound(SymbolId symbol) const { return bounds_[symbol]; }
  const std::vector<std::string>& names() const { return names_; }
  int size() const { return static_cast<int>(names_.size()); }
  // Every symbol at its upper bound.
  Bindings upper_bounds() const;

 private:
  std::vector<std::string> names_;
  std::vector<int64_t> bounds_;
};

}  // namespace headrace
