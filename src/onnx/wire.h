#pragma once
// Protobuf's wire format, walked before protobuf itself reads it: two bytes of a file may become hundreds in memory, so what a message
// holds is counted first; and weights stay in the file, as protobuf would copy them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace headrace::onnx {

// How many messages and strings a ModelProto holds. Errors: malformed where the wire format is broken, resource_exhausted for messages
// within each other deeper than `max_depth`.
// Nothing is allocated.
Result<uint64_t> count_entries(std::span<const std::byte> model, int max_depth);

// A ModelProto without its tensors' raw data: each raw_data field holds the number of what it held, four bytes in the machine's order.
struct DetachedModel {
  std::string model;
  std::vector<std::span<const std::byte>> raw_data;  // of the bytes that were given
};
// Of bytes that count_entries has walked without an error.
DetachedModel detach_raw_data(std::span<const std::byte> model);

}  // namespace headrace::onnx
