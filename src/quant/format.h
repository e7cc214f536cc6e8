#pragma once
// The storage formats of weights: what a checkpoint's tensor holds. formats.def is the list; each format's header
// (q4_0.h, ...) holds its block, bits, ids and scalar conversions. A format here says nothing about layouts: the
// order in which a kernel wants the same blocks is quant/layout.h's.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"

namespace headrace {

enum class Format : uint8_t {
#define HR_FORMAT(id, ...) id,
#include "quant/formats.def"
#undef HR_FORMAT
};

struct FormatInfo {
  Format format;
  std::string_view name;  // "q4_1", as on the command line
  int gguf_type;          // ggml_type number, -1 when GGUF has none
  int block_elements;     // elements along K that share a block; 1 for plain floats
  int block_bytes;
  // Decodes `elements` (a multiple of block_elements) exactly as the `gguf` package does.
  void (*decode)(const std::byte* blocks, int64_t elements, float* out);
  // Rounds to nearest with the reference's algorithm; null where nothing writes the format.
  void (*encode)(const float* values, int64_t elements, std::byte* blocks);
  std::string_view safetensors;  // the dtype there ("BF16"); empty when it has none
};

const FormatInfo& format_info(Format format);
std::span<const FormatInfo> all_formats();
std::optional<Format> format_from_gguf(uint32_t ggml_type);
std::optional<Format> format_from_name(std::string_view name);
std::optional<Format> format_from_safetensors(std::string_view dtype);

// Bytes of `elements` in `format`. Errors: malformed when elements is not a whole number of blocks or overflows.
Result<uint64_t> format_bytes(Format format, uint64_t elements);

// Refuses blocks whose scales (or, in plain floats, values) are NaN or infinite: one such weight makes every later
// number NaN. Run once, at packing time; the caller adds the tensor's name. Errors: malformed, naming the block.
Status check_finite_blocks(Format format, std::span<const std::byte> bytes);

}  // namespace headrace
