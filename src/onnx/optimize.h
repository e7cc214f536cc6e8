#pragma once
// What `headrace graph optimize` writes: a model as the passes leave it for one size of its inputs, in operators of ONNX again.

#include <cstdint>
#include <map>
#include <string>

#include "onnx/export.h"
#include "onnx/session.h"

namespace headrace::onnx {

struct OptimizeOptions {
  // What a dim of that name is; "INPUT.AXIS" stands for one without a name. Every dim of an input that the file leaves open must be here.
  std::map<std::string, int64_t> dims;
  int64_t opset = 0;  // 0: the model's, or the least that is written
};

// Inputs and outputs keep names and order; an input with an initializer becomes that initializer. Errors: invalid_argument for a dim that
// is missing, unknown or below 0, and for a session of reference operators; unsupported where a part of the model is no program (types that
// depend on data, graphs within nodes) or to_onnx refuses it, with the node.
Result<Model> optimize(const Session& session, const OptimizeOptions& options);

}  // namespace headrace::onnx
