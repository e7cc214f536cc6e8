#pragma once
// gemm(a [..., M, K], b [..., K, N] or, with trans_b, [..., N, K], bias [N]?, residual [..., M, N]?) -> [..., M, N], all f32.
// The dims before the last two broadcast by numpy's rule; y = activation(scale * (a x b) + bias + residual). What language models'
// `matmul` is for packed weights of any format, this is for float operands of a graph, constant or computed.

#include "ops/epilogue.h"
#include "ops/op.h"

namespace headrace::ops {

struct GemmAttrs {
  bool trans_b = false;
  float scale = 1.0f;
  Epilogue epilogue;
  bool operator==(const GemmAttrs&) const = default;
  std::string describe() const;
};
extern const Op gemm;

}  // namespace headrace::ops
