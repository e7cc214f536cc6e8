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

// tile16: for each tile of 16 rows and each block along K, the 16 blocks' parts lie together. Writes one tile from 16
// row pointers (each row: columns/block_elements blocks; a null pointer is a zero row).
void pack_tile16(Format format, int64_t columns, std::span<const std::byte* const, kTileRows> rows, std::byte* tile);
// The reverse for one row, to prove that nothing was lost and to gather embedding rows: decodes row `row` (0..15).
void decode_tile16_row(Format format, int64_t columns, const std::byte* tile, int row, float* out);
uint64_t tile16_bytes(Format format, int64_t columns);

}  // namespace headrace
