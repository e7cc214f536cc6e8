#pragma once
// ONNX files: read, checked, written. Every byte of a file may be wrong or malicious: an error says what, where, what was wanted and
// what was got; time and memory are bounded by the file's size and by the limits below; external data lies inside the model's folder and
// nowhere else (no absolute path, no "..", no link that leaves it).

#include <span>
#include <string>

#include "base/status.h"
#include "onnx/model.h"

namespace headrace::onnx {

inline constexpr int kMaxGraphDepth = 32;             // graphs within graphs
inline constexpr int64_t kMinOpset = 7, kMaxOpset = 28;

// Errors: not_found, malformed, unsupported (an opset or IR beyond what is known), resource_exhausted. Large tensors show the bytes of
// their files, which stay mapped as long as they: replace such a file by renaming another one.
Result<Model> read_model(const std::string& path);
// `folder`: where external data may lie; "" allows none.
Result<Model> parse_model(std::span<const std::byte> bytes, const std::string& folder);
// What the IR document demands, which parse_model has checked already: every name is written once and before it is read, outputs exist,
// no cycle, initializers hold what their dims say, functions do not call themselves. Operators that are not known: unsupported.
Status check_model(const Model& model);
// As ONNX file; tensors lie inside. Errors: resource_exhausted beyond protobuf's 2 GiB, unavailable for the disk.
Status write_model(const Model& model, const std::string& path);
// A TensorProto, SequenceProto or OptionalProto by itself, as ONNX's backend tests hold inputs and outputs; `kind` says which.
Result<Value> parse_value(std::span<const std::byte> bytes, Type::Kind kind);
// The reverse. Errors: resource_exhausted as above.
Result<std::string> value_bytes(const Value& value);

}  // namespace headrace::onnx
