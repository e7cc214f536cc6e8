#pragma once
// Runs a model on the host, operator by operator: the reference behind every faster way. Values live until their last reader.
// Thread-safe for different interpreters; the model is shared and not changed.

#include <map>
#include <memory>
#include <string>

#include "onnx/model.h"

namespace headrace::onnx {

// Outputs by name. `inputs`: by name; those with an initializer may be left out. Errors: invalid_argument for inputs (missing, unknown,
// of another type, rank or dims than declared), otherwise what the operators say, with the node.
Result<std::map<std::string, Value>> interpret(const Model& model, const std::map<std::string, Value>& inputs);

}  // namespace headrace::onnx
