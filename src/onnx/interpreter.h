#pragma once
// Runs a model on the host, operator by operator: the reference behind every faster way. Values live until their last reader.
// Thread-safe for different interpreters; the model is shared and not changed.

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "onnx/model.h"

namespace headrace::onnx {

// What one run may do at most, for models that are not trusted. Tensors are counted when they are made, whatever becomes of them.
struct RunLimits {
  uint64_t nodes = std::numeric_limits<uint64_t>::max();
  uint64_t made_bytes = std::numeric_limits<uint64_t>::max();
};

// Outputs by name. `inputs`: by name; those with an initializer may be left out. Errors: invalid_argument for inputs (missing, unknown,
// of another type, rank or dims than declared), resource_exhausted for the limits, otherwise what the operators say, with the node.
Result<std::map<std::string, Value>> interpret(const Model& model, const std::map<std::string, Value>& inputs, const RunLimits& limits = {});

}  // namespace headrace::onnx
