#pragma once
// Questions about the graph around a value, so that patterns of passes read as patterns. They see the graph as the rewriter has it now.

#include <optional>
#include <utility>
#include <vector>

#include "graph/rewriter.h"
#include "ops/binary.h"
#include "ops/unary.h"

namespace headrace::match {

// The node of `op` that computes `value`; null for any other. single: only if nothing else reads the value.
const Node* of(Rewriter& graph, ValueId value, const Op& op);
const Node* single(Rewriter& graph, ValueId value, const Op& op);

// unary of `kind`, binary of `kind`, whoever reads it.
bool is_unary(const Node* node, ops::UnaryKind kind);
bool is_binary(const Node* node, ops::BinaryKind kind);

// The one number that a float constant holds, in each of its elements.
std::optional<double> scalar(Rewriter& graph, ValueId value);
// Whether a constant holds nothing but `number`.
bool is_scalar(Rewriter& graph, ValueId value, double number);
// Equal but for the rounding of float32 spellings of a number (0.7071 of sqrt(0.5)).
bool near(double got, double want);

// `value` = x `kind` number, for add and mul also number `kind` x; x has the shape of `value`.
struct WithNumber {
  ValueId x;
  double number;
};
std::optional<WithNumber> with_number(Rewriter& graph, const Node* node, ops::BinaryKind kind);

// The input of `node` (which has two) that is not `value`; kNone where `value` is neither, or both.
ValueId other_input(const Node& node, ValueId value);

// `value` = coefficient * factors[0] * factors[1] * ...: products, quotients by numbers, negations and whole powers taken apart, through
// nodes that nothing else reads. At most kMaxFactors; factors have the shape of `value`.
inline constexpr size_t kMaxFactors = 4;
struct Product {
  double coefficient = 1;
  std::vector<ValueId> factors;
};
Product product(Rewriter& graph, ValueId value);
// The factors without one `factor`; nothing where it is not among them.
std::optional<Product> without(Product product, ValueId factor);

// The values of a constant whose dims are 1 but for the last, which is `columns` (or 1: repeated). Nothing for other constants.
std::optional<std::vector<double>> column_vector(Rewriter& graph, ValueId value, int64_t columns);

}  // namespace headrace::match
