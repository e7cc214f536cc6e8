#pragma once
// gemm_q8(x u8|i8 [..., M, K], weight i8 [K, N] or, with trans_b, [N, K], scale f32 [N], bias?, residual?) -> [..., M, N]: ops/gemm.h's
// gemm of 8-bit numbers by one matrix, with the ends of ops/q8.h.

#include "ops/gemm.h"
#include "ops/q8.h"

namespace headrace::ops {

struct GemmQ8Attrs {
  bool trans_b = false;
  Q8ProductAttrs q8;
  bool operator==(const GemmQ8Attrs&) const = default;
  std::string describe() const { return (trans_b ? "trans_b " : "") + q8.describe(); }
};
extern const Op gemm_q8;

}  // namespace headrace::ops
