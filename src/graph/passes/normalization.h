#pragma once
// What fuse_layer_norm and fuse_rms_norm share: the quotient by a root mean square, and norms whose scale or bias follows as arithmetic.

#include <optional>

#include "graph/rewriter.h"

namespace headrace::passes {

// x / sqrt(mean(x^2) + eps), the mean over the last axes, which hold `width` elements.
struct RootMeanSquareNorm {
  ValueId x;
  int64_t width;
  float eps;
};

// `value` = 1 / sqrt(mean(x^2) + eps) in any spelling, through nodes that nothing else reads.
std::optional<RootMeanSquareNorm> match_inverse_root(Rewriter& graph, ValueId value);
// `node` = x / sqrt(mean(x^2) + eps), as a quotient or a product.
std::optional<RootMeanSquareNorm> match_root_mean_square_norm(Rewriter& graph, const Node& node);
// x of `value` = mean(x) over the last axes, which hold `width` elements and stay as 1; kNone for anything else.
ValueId match_mean(Rewriter& graph, ValueId value, int64_t width);

// A constant whose last dims are the last dims of `value` that hold `width` elements, and all others 1.
std::optional<std::vector<double>> width_vector(Rewriter& graph, ValueId constant, ValueId value, int64_t width);

// norm of x over its last axes, which hold `width` elements. `vectors`: scale, and bias where the op has one.
ValueId add_norm(Rewriter& graph, const Op& op, Attrs attrs, ValueId x, int64_t width, const std::vector<std::vector<double>>& vectors,
                 const std::string& name);
// `node` multiplies (or, where the op has a bias, adds) a constant vector to a norm by `op` that nothing else reads and whose vectors are
// constants: the norm with that in its vectors. kNone for anything else.
ValueId fold_into_norm(Rewriter& graph, const Op& op, const Node& node);

}  // namespace headrace::passes
