// The reference for a packed weight is its own format's decode, which format_test.cc holds against the `gguf` package.
#include "quant/layout.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

namespace headrace {
namespace {

std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
  std::vector<std::byte> out(count);
  for (std::byte& byte : out) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(seed >> 56);
  }
  return out;
}

// NaN payloads count too: bits are compared, not values.
bool same_bits(const float* a, const float* b, size_t count) { return std::memcmp(a, b, count * sizeof(float)) == 0; }

struct Packed {
  int64_t columns;
  std::vector<std::vector<std::byte>> rows;
  std::vector<std::byte> tile;
};

// A tile with rows 3 and 15 missing.
Packed pack(const FormatInfo& info, int64_t columns) {
  Packed packed{columns, {}, {}};
  const std::byte* pointers[kTileRows];
  for (int row = 0; row < kTileRows; ++row) {
    packed.rows.push_back(random_bytes(columns / info.block_elements * info.block_bytes, 77 + row));
  }
  for (int row = 0; row < kTileRows; ++row) {
    if (row == 3 || row == 15) std::memset(packed.rows[row].data(), 0, packed.rows[row].size());
    pointers[row] = row == 3 || row == 15 ? nullptr : packed.rows[row].data();
  }
  packed.tile.assign(tile16_bytes(info.format, columns) + 64, std::byte{0xA5});
  pack_tile16(info.format, columns, pointers, packed.tile.data());
  return packed;
}

std::vector<int64_t> column_counts(const FormatInfo& info) {
  const int64_t block = info.block_elements;
  if (block == 1) return {1, 2, 7, 64, 301};
  return {block, 3 * block, 8 * block, 18 * block};
}

TEST(Layout, EveryFormatSurvivesTile16BitForBit) {
  for (const FormatInfo& info : all_formats()) {
    for (const int64_t columns : column_counts(info)) {
      const Packed packed = pack(info, columns);
      std::vector<float> want(columns), got(columns);
      for (int row = 0; row < kTileRows; ++row) {
        info.decode(packed.rows[row].data(), columns, want.data());
        decode_tile16_row(info.format, columns, packed.tile.data(), row, got.data());
        EXPECT_TRUE(same_bits(want.data(), got.data(), columns)) << info.name << " row " << row << " of " << columns;
      }
    }
  }
}

TEST(Layout, PackingStaysInsideTheTile) {
  for (const FormatInfo& info : all_formats()) {
    for (const int64_t columns : column_counts(info)) {
      const Packed packed = pack(info, columns);
      for (size_t i = packed.tile.size() - 64; i < packed.tile.size(); ++i) {
        ASSERT_EQ(packed.tile[i], std::byte{0xA5}) << info.name << " " << columns;
      }
    }
  }
}

TEST(Layout, AnyRangeOfAPanelHoldsTheSameNumbersAsTheRows) {
  for (const FormatInfo& info : all_formats()) {
    const int64_t columns = info.block_elements == 1 ? 517 : 768;
    const Packed packed = pack(info, columns);
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, columns}, {256, columns}, {256, 512}, {512, 512}}) {
      std::vector<float> panel((end - begin) * kTileRows), want(columns);
      decode_tile16_panel(info.format, columns, packed.tile.data(), begin, end, panel.data());
      for (int row = 0; row < kTileRows; ++row) {
        info.decode(packed.rows[row].data(), columns, want.data());
        for (int64_t k = begin; k < end; ++k) {
          const float got = panel[(k - begin) * kTileRows + row];
          ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want[k])) << info.name << " " << row << "," << k;
        }
      }
    }
  }
}

// docs of layout.h: where a kernel expects to find codes.
TEST(Layout, FourBitCodesLieFourColumnsToADword) {
  const FormatInfo& info = format_info(Format::q4_1);
  std::vector<std::byte> row(20, std::byte{0});
  for (int i = 0; i < 16; ++i) row[4 + i] = static_cast<std::byte>(i | ((15 - i) << 4));
  const std::byte* pointers[kTileRows] = {};
  pointers[2] = row.data();
  std::vector<std::byte> tile(tile16_bytes(info.format, 32));
  ASSERT_EQ(tile.size(), 320u);
  pack_tile16(info.format, 32, pointers, tile.data());
  for (int word = 0; word < 4; ++word) {
    for (int b = 0; b < 4; ++b) {
      const int code = static_cast<int>(tile[64 + 64 * word + 4 * 2 + b]);
      EXPECT_EQ(code & 15, 4 * word + b);
      EXPECT_EQ(code >> 4, 15 - (4 * word + b));
    }
  }
}

TEST(Layout, TilesArePaddedToWholeCacheLinesAndRowsToWholeTiles) {
  EXPECT_EQ(tile16_bytes(Format::q4_0, 32), 320u);    // 288, rounded up
  EXPECT_EQ(tile16_bytes(Format::bf16, 3), 128u);     // two pairs
  EXPECT_EQ(tile16_bytes(Format::f32, 5), 320u);
  EXPECT_EQ(layout_bytes(WeightLayout::tile16, Format::q4_1, 17, 64), 2u * 640u);
  EXPECT_EQ(layout_bytes(WeightLayout::row_major, Format::q4_1, 17, 64), 17u * 40u);
  EXPECT_EQ(layout_bytes(WeightLayout::dense_f32, Format::q4_1, 17, 64), 17u * 256u);
}

}  // namespace
}  // namespace headrace
