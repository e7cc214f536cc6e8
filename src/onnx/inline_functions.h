#pragma once
// Model-local functions put where they are called: what remains has nodes of operators alone.

#include "onnx/model.h"

namespace headrace::onnx {

// Values of a body get names that the model does not use; nodes keep the opset that their function imports. Errors: resource_exhausted for
// more than Interpreter::kMaxNodes nodes or calls deeper than kMaxDepth, malformed for a call with too many inputs or outputs.
Result<Model> inline_functions(Model model);

}  // namespace headrace::onnx
