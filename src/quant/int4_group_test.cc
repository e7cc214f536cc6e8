// The layouts' values are checked by the suite `quant`; here are the sizes that must be refused, and 3-bit
// codes.
#include "quant/int4_group.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

struct Small {
  std::vector<int32_t> qweight = std::vector<int32_t>(8, 0x76543210);
  std::vector<int32_t> qzeros = {0x11111111};
  std::vector<float> scales = std::vector<float>(8, 0.5f);
  std::vector<int32_t> g_idx;
  GroupQuantized view() const {
    return {.bits = 4,
            .in_features = 8,
            .out_features = 8,
            .groups = 1,
            .group_size = 8,
            .qweight = qweight,
            .qzeros = qzeros,
            .scales = scales,
            .g_idx = g_idx};
  }
};

TEST(Int4Group, SizesThatDisagreeAreRefusedByField) {
  Small small;
  EXPECT_TRUE(unpack_gptq(small.view(), GptqZeros::plain));
  EXPECT_TRUE(unpack_awq(small.view()));
  small.scales.pop_back();
  EXPECT_EQ(unpack_gptq(small.view(), GptqZeros::plain).error().message(),
            "scales: want 1 x 8 = 8 values, got 7");
  small = Small();
  small.g_idx = {0, 0, 0, 1, 0, 0, 0, 0};
  EXPECT_EQ(unpack_gptq(small.view(), GptqZeros::plain).error().message(),
            "g_idx[3] is 1; want a group in 0..0");
  GroupQuantized matrix = Small().view();
  matrix.group_size = 4;
  EXPECT_EQ(unpack_awq(matrix).error().code(), Code::malformed);
  matrix = Small().view();
  matrix.out_features = int64_t{1} << 40;
  EXPECT_EQ(unpack_awq(matrix).error().code(), Code::malformed);
  matrix.bits = 5;
  EXPECT_EQ(unpack_gptq(matrix, GptqZeros::plain).error().code(), Code::unsupported);
}

TEST(Int4Group, ThreeBitCodesStraddleWords) {
  // 32 codes 0, 1, ... 7, 0, ... as a stream of 96 bits, low bits first, in one column of a 32 x 32 matrix.
  uint64_t low = 0, high = 0;
  for (int i = 0; i < 32; ++i) {
    const uint64_t code = static_cast<uint64_t>(i % 8);
    const int bit = i * 3;
    if (bit < 64) low |= code << bit;
    if (bit + 3 > 64) high |= bit < 64 ? code >> (64 - bit) : code << (bit - 64);
  }
  std::vector<int32_t> qweight;
  for (const uint32_t word :
       {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high)}) {
    qweight.insert(qweight.end(), 32, static_cast<int32_t>(word));
  }
  const std::vector<int32_t> qzeros(3, 0);
  const std::vector<float> scales(32, 1.0f);
  const GroupQuantized matrix{.bits = 3,
                              .in_features = 32,
                              .out_features = 32,
                              .groups = 1,
                              .group_size = 32,
                              .qweight = qweight,
                              .qzeros = qzeros,
                              .scales = scales,
                              .g_idx = {}};
  const Result<std::vector<float>> values = unpack_gptq(matrix, GptqZeros::plain);
  ASSERT_TRUE(values) << values.error().message();
  for (int row = 0; row < 32; ++row) EXPECT_EQ((*values)[row * 32 + 5], static_cast<float>(row % 8)) << row;
}

}  // namespace
}  // namespace headrace
