#pragma once
// A program's graph as an ONNX model of the standard domain: what `headrace graph optimize` writes.
//
// Images are channels last in a graph and channels first in ONNX. Values that are transposes of one another are kept as one array in one or
// more spellings: nodes take the spelling that is there, and a Transpose is written only where the one that is wanted is missing. Fused ops
// are spelled as the operators that they were made of, where the opset has no operator of that meaning.

#include <cstdint>
#include <string>

#include "base/status.h"
#include "graph/graph.h"
#include "onnx/model.h"

namespace headrace::onnx {

inline constexpr int64_t kMinExportOpset = 21;  // and kMaxOpset at most

struct ExportOptions {
  int64_t opset = kMinExportOpset;  // from 23 on with Attention, RMSNormalization and RotaryEmbedding, from 24 with Swish
  std::string producer;
};

// `graph`: constant dims alone, no weights and no states. Inputs and outputs keep their names and dims, all other values theirs where they
// are unique; constants share their bytes with the graph. Errors: invalid_argument for the opset, unsupported for what ONNX cannot say (an
// op of language models, an operator on the host of another opset), with the node's name.
Result<Model> to_onnx(const headrace::Graph& graph, const ExportOptions& options);

}  // namespace headrace::onnx
