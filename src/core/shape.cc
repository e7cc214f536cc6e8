#include "core/shape.h"

#include <fmt/core.h>

namespace headrace {

Dim Dim::operator*(int64_t factor) const {
  if (factor == 0) return Dim(0);
  Dim result = *this;
  result.constant_ *= factor;
  for (Term& term : result.terms_) term.coefficient *= factor;
  return result;
}

Dim Dim::operator+(const Dim& other) const {
  // Merge two sorted lists of at most two terms; more than two different symbols in one dim is our own bug.
  Dim result(constant_ + other.constant_);
  int count = 0;
  for (int symbol = 0; symbol < kMaxSymbols; ++symbol) {
    int64_t coefficient = 0;
    for (const Term& term : terms_) {
      if (term.coefficient != 0 && term.symbol == symbol) coefficient += term.coefficient;
    }
    for (const Term& term : other.terms_) {
      if (term.coefficient != 0 && term.symbol == symbol) coefficient += term.coefficient;
    }
    if (coefficient == 0) continue;
    CHECK(count < static_cast<int>(result.terms_.size()));
    result.terms_[count++] = {coefficient, static_cast<SymbolId>(symbol)};
  }
  return result;
}

std::string Dim::to_string(std::span<const std::string> symbols) const {
  if (is_constant()) return fmt::format("{}", constant_);
  std::string text;
  for (const Term& term : terms_) {
    if (term.coefficient == 0) continue;
    const std::string name =
        term.symbol < symbols.size() ? symbols[term.symbol] : fmt::format("s{}", term.symbol);
    if (!text.empty()) text += "+";
    text += term.coefficient == 1 ? name : fmt::format("{}*{}", term.coefficient, name);
  }
  if (constant_ != 0) text += fmt::format("{:+}", constant_);
  return text;
}

std::string Shape::to_string(std::span<const std::string> symbols) const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis != 0) text += ", ";
    text += dims_[axis].to_string(symbols);
  }
  return text + "]";
}

SymbolId SymbolTable::add(std::string_view name, int64_t upper_bound) {
  CHECK(names_.size() < kMaxSymbols && upper_bound >= 0);
  names_.emplace_back(name);
  bounds_.push_back(upper_bound);
  return static_cast<SymbolId>(names_.size() - 1);
}

Bindings SymbolTable::upper_bounds() const {
  Bindings bindings;
  for (int symbol = 0; symbol < size(); ++symbol) bindings.set(static_cast<SymbolId>(symbol), bounds_[symbol]);
  return bindings;
}

}  // namespace headrace
