// Every format is one of two kinds here. Plain: one number an element, interleaved by columns (bf16 by pairs of
// columns, as vdpbf16ps wants them). Blocks: a few f16 heads and a few 32-bit words, each interleaved by rows.
#include "quant/layout.h"

#include <cstring>

#include "base/check.h"

namespace headrace {
namespace {

constexpr int kMaxBlockBytes = 256;
constexpr int kMaxBlockElements = 256;
constexpr uint64_t kTileAlignment = 64;

// Which bytes of a block are what. `flip` is xored onto every word: Q8_0's signed codes become unsigned (code + 128),
// what u8 x s8 dot products take.
struct BlockParts {
  int heads = 0, heads_at = 0;  // count of scales (f16 but for MXFP4), offset in the block
  int words = 0, words_at = 0;  // count of 32-bit words, offset in the block
  uint32_t flip = 0;
  int head_bytes = 2;
};

// heads == words == 0: a plain format.
BlockParts block_parts(Format format) {
  switch (format) {
    case Format::q4_0: return {1, 0, 4, 2};               // scale | codes
    case Format::q4_1: return {2, 0, 4, 4};               // scale, min | codes
    case Format::q5_0: return {1, 0, 5, 2};               // scale | high bits, low codes
    case Format::q5_1: return {2, 0, 5, 4};               // scale, min | high bits, low codes
    case Format::q8_0: return {1, 0, 8, 2, 0x80808080u};  // scale | codes
    case Format::q4_k: return {2, 0, 35, 4};              // scale, min_scale | scales, codes
    case Format::q6_k: return {1, 208, 52, 0};            // scale | low, high, scales
    case Format::q2_k: return {2, 80, 20, 0};             // scale, min_scale | scales, codes
    case Format::q3_k: return {1, 108, 27, 0};            // scale | high, low, scales
    case Format::q5_k: return {2, 0, 43, 4};              // scale, min_scale | scales, high, low
    case Format::iq4_nl: return {1, 0, 4, 2};             // scale | codes
    case Format::iq4_xs: return {2, 0, 33, 4};            // scale, scales_high | scales_low, codes
    case Format::mxfp4: return {1, 0, 4, 1, 0, 1};        // exponent, a byte | codes
    default: return {};
  }
}

uint64_t tile_block_bytes(const BlockParts& parts) {
  return static_cast<uint64_t>(kTileRows) * (parts.head_bytes * parts.heads + 4 * parts.words);
}

// Columns that lie together in a plain format.
int plain_group(Format format) { return format == Format::bf16 ? 2 : 1; }

void pack_blocks(const BlockParts& parts, int block_bytes, int64_t blocks, std::span<const std::byte* const, kTileRows> rows,
                 std::byte* tile) {
  static constexpr std::byte kZeroBlock[kMaxBlockBytes] = {};
  for (int row = 0; row < kTileRows; ++row) {
    const std::byte* block = rows[row] == nullptr ? kZeroBlock : rows[row];
    const int stride = rows[row] == nullptr ? 0 : block_bytes;
    std::byte* out = tile;
    for (int64_t b = 0; b < blocks; ++b, block += stride) {
      for (int head = 0; head < parts.heads; ++head, out += parts.head_bytes * kTileRows) {
        std::memcpy(out + parts.head_bytes * row, block + parts.heads_at + parts.head_bytes * head, parts.head_bytes);
      }
      for (int i = 0; i < parts.words; ++i, out += 4 * kTileRows) {
        uint32_t word;
        std::memcpy(&word, block + parts.words_at + 4 * i, 4);
        word ^= parts.flip;
        std::memcpy(out + 4 * row, &word, 4);
      }
    }
  }
}

void unpack_block(const BlockParts& parts, const std::byte* tile_block, int row, std::byte* block) {
  for (int head = 0; head < parts.heads; ++head, tile_block += parts.head_bytes * kTileRows) {
    std::memcpy(block + parts.heads_at + parts.head_bytes * head, tile_block + parts.head_bytes * row, parts.head_bytes);
  }
  for (int i = 0; i < parts.words; ++i, tile_block += 4 * kTileRows) {
    uint32_t word;
    std::memcpy(&word, tile_block + 4 * row, 4);
    word ^= parts.flip;
    std::memcpy(block + parts.words_at + 4 * i, &word, 4);
  }
}

// kSize: bytes of an element; kGroup: columns that lie together.
template <int kSize, int kGroup>
void pack_plain(int64_t columns, std::span<const std::byte* const, kTileRows> rows, std::byte* tile) {
  constexpr int kUnit = kSize * kGroup;
  for (int row = 0; row < kTileRows; ++row) {
    const std::byte* from = rows[row];
    std::byte* out = tile + row * kUnit;
    int64_t column = 0;
    for (; from != nullptr && column + kGroup <= columns; column += kGroup, from += kUnit, out += kTileRows * kUnit) {
      std::memcpy(out, from, kUnit);
    }
    for (; column < columns; column += kGroup, out += kTileRows * kUnit) {
      std::memset(out, 0, kUnit);
      if (from != nullptr) std::memcpy(out, from, kSize);  // the last column of an odd count
    }
  }
}

}  // namespace

uint64_t tile16_bytes(Format format, int64_t columns) {
  CHECK(columns >= 0);
  const FormatInfo& info = format_info(format);
  const BlockParts parts = block_parts(format);
  uint64_t bytes;
  if (parts.words != 0) {
    CHECK(columns % info.block_elements == 0);
    bytes = static_cast<uint64_t>(columns / info.block_elements) * tile_block_bytes(parts);
  } else {
    const int64_t group = plain_group(format);
    bytes = static_cast<uint64_t>((columns + group - 1) / group * group) * kTileRows * info.block_bytes;
  }
  return (bytes + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
}

uint64_t layout_bytes(WeightLayout layout, Format format, int64_t rows, int64_t columns) {
  CHECK(rows >= 0 && columns >= 0);
  const FormatInfo& info = format_info(format);
  const uint64_t count = static_cast<uint64_t>(rows);
  switch (layout) {
    case WeightLayout::row_major:
      CHECK(columns % info.block_elements == 0);
      return count * static_cast<uint64_t>(columns / info.block_elements) * info.block_bytes;
    case WeightLayout::dense_f32: return count * static_cast<uint64_t>(columns) * sizeof(float);
    case WeightLayout::tile16: return (count + kTileRows - 1) / kTileRows * tile16_bytes(format, columns);
  }
  return 0;
}

void pack_tile16(Format format, int64_t columns, std::span<const std::byte* const, kTileRows> rows, std::byte* tile) {
  const FormatInfo& info = format_info(format);
  const BlockParts parts = block_parts(format);
  if (parts.words != 0) {
    CHECK(columns % info.block_elements == 0);
    pack_blocks(parts, info.block_bytes, columns / info.block_elements, rows, tile);
  } else if (format == Format::bf16) {
    pack_plain<2, 2>(columns, rows, tile);
  } else {
    switch (info.block_bytes) {
      case 1: pack_plain<1, 1>(columns, rows, tile); break;
      case 2: pack_plain<2, 1>(columns, rows, tile); break;
      case 4: pack_plain<4, 1>(columns, rows, tile); break;
      case 8: pack_plain<8, 1>(columns, rows, tile); break;
      default: CHECK(false);
    }
  }
}

void decode_tile16_row(Format format, int64_t columns, const std::byte* tile, int row, float* out) {
  CHECK(row >= 0 && row < kTileRows);
  const FormatInfo& info = format_info(format);
  const BlockParts parts = block_parts(format);
  if (parts.words != 0) {
    std::byte block[kMaxBlockBytes];
    const uint64_t step = tile_block_bytes(parts);
    for (int64_t at = 0; at < columns; at += info.block_elements, tile += step) {
      unpack_block(parts, tile, row, block);
      info.decode(block, info.block_elements, out + at);
    }
    return;
  }
  const int group = plain_group(format);
  const int64_t unit = static_cast<int64_t>(group) * info.block_bytes;
  const std::byte* from = tile + row * unit;
  for (int64_t at = 0; at < columns; at += group, from += kTileRows * unit) {
    const int64_t count = columns - at < group ? columns - at : group;
    info.decode(from, count, out + at);
  }
}

void decode_tile16_panel(Format format, int64_t columns, const std::byte* tile, int64_t begin, int64_t end, float* panel) {
  const FormatInfo& info = format_info(format);
  const BlockParts parts = block_parts(format);
  CHECK(begin >= 0 && begin <= end && end <= columns && begin % kTilePanelGrain == 0);
  if (parts.words != 0) {
    std::byte block[kMaxBlockBytes];
    float values[kMaxBlockElements];
    for (int64_t at = begin; at < end; at += info.block_elements) {
      const std::byte* from = tile + static_cast<uint64_t>(at / info.block_elements) * tile_block_bytes(parts);
      for (int row = 0; row < kTileRows; ++row) {
        unpack_block(parts, from, row, block);
        info.decode(block, info.block_elements, values);
        float* to = panel + (at - begin) * kTileRows + row;
        for (int i = 0; i < info.block_elements; ++i) to[i * kTileRows] = values[i];
      }
    }
    return;
  }
  const int group = plain_group(format);
  for (int64_t at = begin; at < end; ++at) {
    for (int row = 0; row < kTileRows; ++row) {
      const int64_t element = at / group * group * kTileRows + row * group + at % group;
      info.decode(tile + element * info.block_bytes, 1, panel + (at - begin) * kTileRows + row);
    }
  }
}

}  // namespace headrace
