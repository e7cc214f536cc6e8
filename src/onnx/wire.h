#pragma once
// Protobuf's wire format, walked before protobuf itself reads it: two bytes of a file may become hundreds in memory, so what a message
// holds is counted first. Nothing is allocated.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace headrace::onnx {

// How many messages and strings a ModelProto holds. Errors: malformed where the wire format is broken, resource_exhausted for messages
// within each other deeper than `max_depth`.
Result<uint64_t> count_entries(std::span<const std::byte> model, int max_depth);

}  // namespace headrace::onnx
