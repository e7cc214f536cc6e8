#pragma once
// How packed weights lie in memory. A layout is a permutation of a format's bits (plain floats may also be widened
// exactly): never a re-quantization, so one copy serves every batch size and --exact.

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format.h"

namespace headrace {

enum class WeightLayout : uint8_t {
  row_major,  // as the checkpoint stores it
  dense_f32,  // row-major float32: norms, biases, tables (exact for f32, f16, bf16)
  tile16,     // 16 rows interleaved, what the CPU matrix kernels read: see pack_tile16
};

inline constexpr int kTileRows = 16;

// Bytes of [rows, columns] in a layout; tile16 pads the last tile with zero blocks.
uint64_t layout_bytes(WeightLayout layout, Format format, int64_t rows, int64_t columns);

// tile16, for each tile of 16 rows (a multiple of 64 bytes):
//   plain formats  [column][16 rows]; bf16 [column pair][16 rows][2], an odd last column paired with zeros
//   block formats  for each block along K: each f16 field [16 rows], then each 32-bit word of the rest [16 rows], in
//                  the block's order (scales first, also where the block has them last; MXFP4's is one byte). Q8_0's
//                  codes are stored plus 128, as bytes.
// So one 64-byte load holds 16 rows x 4 consecutive 8-bit codes, or, for 4-bit formats, 16 rows x 4 codes of elements
// 4w.. in the low halves and of elements 16 + 4w.. in the high ones: a mask and a shift feed u8 x s8 dot products.
//
// Writes one tile from 16 row pointers (each row: columns/block_elements blocks; a null pointer is a zero row).
// `columns` is a whole number of blocks.
void pack_tile16(Format format, int64_t columns, std::span<const std::byte* const, kTileRows> rows, std::byte* tile);
// The reverse for one row, to prove that nothing was lost and to gather embedding rows: decodes row `row` (0..15).
void decode_tile16_row(Format format, int64_t columns, const std::byte* tile, int row, float* out);
// Decodes columns [begin, end) of all 16 rows to panel[column - begin][16]. `begin` is a multiple of kTilePanelGrain; for
// block formats the range is whole blocks.
inline constexpr int kTilePanelGrain = 256;
void decode_tile16_panel(Format format, int64_t columns, const std::byte* tile, int64_t begin, int64_t end, float* panel);
uint64_t tile16_bytes(Format format, int64_t columns);

}  // namespace headrace
