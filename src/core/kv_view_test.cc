// The layout that kv_view.h writes down, counted by hand.
#include "core/kv_view.h"

#include <gtest/gtest.h>

#include <vector>

namespace headrace {
namespace {

TEST(KvSpec, ABlockHasKeysAndValuesAndTheScalesOfCodes) {
  KvSpec spec{.heads = 3, .head_dim = 64, .dtype = DType::f16};
  EXPECT_EQ(spec.block_bytes(), 3 * 2 * 16 * 64 * 2);
  EXPECT_EQ(spec.token_bytes(), 3 * 2 * 64 * 2);
  spec.dtype = DType::bf16;
  EXPECT_EQ(spec.block_bytes(), 3 * 2 * 16 * 64 * 2);
  spec.dtype = DType::f32;
  EXPECT_EQ(spec.block_bytes(), 3 * 2 * 16 * 64 * 4);
  spec.dtype = DType::i8;
  EXPECT_EQ(spec.block_bytes(), 3 * 2 * 16 * (64 + 4));
  EXPECT_EQ(spec.token_bytes(), 3 * 2 * (64 + 4));
}

TEST(KvView, APartBeginsOnACacheLineWhateverTheHeadsWidth) {
  for (const int head_dim : {4, 20, 21, 64, 80}) {
    const KvSpec spec{.heads = 2, .head_dim = head_dim, .dtype = DType::i8};
    const int64_t numbers = (head_dim * 16 + 63) / 64 * 64;
    const int64_t block = spec.block_bytes(), run = kKvRunBlocks * block + 4096;
    std::vector<std::byte> pool(static_cast<size_t>(2 * run));
    const KvView view{spec, pool.data(), block, run, 20};
    const auto offset = [&](const auto* at) { return reinterpret_cast<const std::byte*>(at) - pool.data(); };
    const int64_t second = run + block + 2 * (numbers + 64);  // block 17, head 1
    EXPECT_EQ(offset(view.key_block<int8_t>(17, 1)), second);
    EXPECT_EQ(offset(view.key_scales(17, 1)), second + numbers);
    EXPECT_EQ(offset(view.value_block<int8_t>(17, 1)), second + numbers + 64);
    EXPECT_EQ(offset(view.value_scales(17, 1)), second + 2 * numbers + 64);
    EXPECT_EQ(block, 2 * 2 * (numbers + 64));
    EXPECT_EQ(block % 64, 0);
  }
}

TEST(KvView, HalfFloatsLieOneBehindTheOther) {
  const KvSpec spec{.heads = 2, .head_dim = 20, .dtype = DType::f16};
  std::vector<std::byte> pool(static_cast<size_t>(4 * spec.block_bytes()));
  const KvView view{spec, pool.data(), spec.block_bytes(), kKvRunBlocks * spec.block_bytes(), 4};
  EXPECT_EQ(reinterpret_cast<std::byte*>(view.value_block<uint16_t>(3, 1)) - pool.data(),
            3 * spec.block_bytes() + 3 * 16 * 20 * 2);
}

}  // namespace
}  // namespace headrace
