#pragma once
// conv, conv_transpose and gemm as one thing: a linear map by a weight with an epilogue, whose columns are the last axis of its output.

#include <optional>
#include <string>

#include "graph/rewriter.h"
#include "ops/conv.h"
#include "ops/gemm.h"

namespace headrace::passes {

struct LinearNode {
  const Op* op = nullptr;
  ops::ConvAttrs conv;  // by `op`; their epilogues stand below
  ops::GemmAttrs gemm;
  ValueId x = kNone, weight = kNone, bias = kNone, residual = kNone;
  std::optional<ops::UnaryAttrs> activation;
  std::string name;

  // Nothing for null and for other ops.
  static std::optional<LinearNode> of(const Node* node);
  // The output of a new node.
  ValueId add_to(Rewriter& graph) const;
  bool is_bare() const { return residual == kNone && !activation; }
};

}  // namespace headrace::passes
