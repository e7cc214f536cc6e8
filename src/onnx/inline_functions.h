#pragma once
// Model-local functions put where they are called: what remains has nodes of operators alone.

#include <span>
#include <vector>

#include "onnx/model.h"

namespace headrace::onnx {

// Values of a body get names that the model does not use; nodes keep the opset that their function imports. Errors: resource_exhausted for
// more than Interpreter::kMaxNodes nodes or calls deeper than kMaxDepth, malformed for a call with too many inputs or outputs.
Result<Model> inline_functions(Model model);

// The attributes of a function's body that refer to the function's own get the call's values, or the defaults; those that have neither go.
std::vector<Node> bind_attributes(std::span<const Node> nodes, const std::map<std::string, Attribute>& given);

}  // namespace headrace::onnx
