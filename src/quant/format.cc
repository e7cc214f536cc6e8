// The table of formats: one row a line of formats.def, loops over blocks made from each format's own
// conversions.
#include "quant/format.h"

#include <array>
#include <cstring>

#include "quant/fp8_e4m3.h"
#include "quant/fp8_e5m2.h"
#include "quant/iq4_nl.h"
#include "quant/iq4_xs.h"
#include "quant/mxfp4.h"
#include "quant/plain.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace headrace {
namespace {

// Blocks are copied out before use: files align tensors to 8 bytes at least, but a row may start anywhere.
template <class Block>
void decode_blocks(const std::byte* blocks, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; i += Block::kElements, blocks += sizeof(Block)) {
    Block block;
    std::memcpy(&block, blocks, sizeof(Block));
    Block::decode(block, out + i);
  }
}

template <class Block>
void encode_blocks(const float* values, int64_t elements, std::byte* blocks) {
  for (int64_t i = 0; i < elements; i += Block::kElements, blocks += sizeof(Block)) {
    Block block;
    Block::encode(values + i, block);
    std::memcpy(blocks, &block, sizeof(Block));
  }
}

template <class Block>
constexpr auto encoder() -> void (*)(const float*, int64_t, std::byte*) {
  if constexpr (requires(const float* in, Block& block) { Block::encode(in, block); }) {
    return encode_blocks<Block>;
  } else {
    return nullptr;
  }
}

template <class Block>
constexpr std::string_view safetensors_name() {
  if constexpr (requires { Block::kSafetensors; }) {
    return Block::kSafetensors;
  } else {
    return {};
  }
}

// The index of the first block with a scale (or, in plain floats, a value) that is not finite; -1 without
// one. Groups of blocks are folded without a branch, which the compiler can keep in registers.
template <class Block>
int64_t first_non_finite(std::span<const std::byte> bytes) {
  constexpr int64_t kGroup = 64;
  const int64_t count = static_cast<int64_t>(bytes.size() / sizeof(Block));
  const auto finite = [&](int64_t index) {
    Block block;
    std::memcpy(&block, bytes.data() + index * sizeof(Block), sizeof(Block));
    return block.finite();
  };
  for (int64_t begin = 0; begin < count; begin += kGroup) {
    const int64_t end = std::min(count, begin + kGroup);
    bool all = true;
    for (int64_t i = begin; i < end; ++i) all &= finite(i);
    if (all) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (!finite(i)) return i;
    }
  }
  return -1;
}

using FirstNonFinite = int64_t (*)(std::span<const std::byte>);

constexpr auto kFormats = std::to_array<FormatInfo>({
#define HR_FORMAT(id, ...)                \
  {Format::id,                            \
   #id,                                   \
   __VA_ARGS__::kGgufType,                \
   __VA_ARGS__::kElements,                \
   static_cast<int>(sizeof(__VA_ARGS__)), \
   decode_blocks<__VA_ARGS__>,            \
   encoder<__VA_ARGS__>(),                \
   safetensors_name<__VA_ARGS__>()},
#include "quant/formats.def"
#undef HR_FORMAT
});

constexpr auto kFirstNonFinite = std::to_array<FirstNonFinite>({
#define HR_FORMAT(id, ...) first_non_finite<__VA_ARGS__>,
#include "quant/formats.def"
#undef HR_FORMAT
});

}  // namespace

const FormatInfo& format_info(Format format) {
  return kFormats[static_cast<size_t>(format)];
}
std::span<const FormatInfo> all_formats() {
  return kFormats;
}

std::optional<Format> format_from_gguf(uint32_t ggml_type) {
  for (const FormatInfo& info : kFormats) {
    if (info.gguf_type >= 0 && static_cast<uint32_t>(info.gguf_type) == ggml_type) return info.format;
  }
  return std::nullopt;
}

std::optional<Format> format_from_name(std::string_view name) {
  for (const FormatInfo& info : kFormats) {
    if (info.name == name) return info.format;
  }
  return std::nullopt;
}

std::optional<Format> format_from_safetensors(std::string_view dtype) {
  for (const FormatInfo& info : kFormats) {
    if (!dtype.empty() && info.safetensors == dtype) return info.format;
  }
  return std::nullopt;
}

Result<uint64_t> format_bytes(Format format, uint64_t elements) {
  const FormatInfo& info = format_info(format);
  const uint64_t per_block = static_cast<uint64_t>(info.block_elements);
  if (elements % per_block != 0) {
    return error(Code::malformed, "{} elements are not a whole number of {} blocks of {}", elements,
                 info.name, per_block);
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements / per_block, static_cast<uint64_t>(info.block_bytes), &bytes)) {
    return error(Code::malformed, "{} elements of {} have more than 2^64 bytes", elements, info.name);
  }
  return bytes;
}

Status check_finite_blocks(Format format, std::span<const std::byte> bytes) {
  const int64_t block = kFirstNonFinite[static_cast<size_t>(format)](bytes);
  if (block < 0) return Status();
  const FormatInfo& info = format_info(format);
  return make_status(
      Code::malformed,
      "{} block {} (elements {} to {}) holds a NaN or an infinity; the file is damaged: fetch or "
      "convert it again",
      info.name, block, block * info.block_elements, (block + 1) * info.block_elements - 1);
}

}  // namespace headrace
