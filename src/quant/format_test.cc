// Goldens: tests/golden/quant_formats.txt, written with the `gguf` package by tools/make_quant_goldens.py.
#include "quant/format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "quant/q4_1.h"
#include "quant/q8_0.h"
#include "testing/golden.h"

namespace headrace {
namespace {

// The generator of tools/make_quant_goldens.py.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() { return state_ = state_ * 6364136223846793005u + 1442695040888963407u; }
  std::vector<std::byte> bytes(size_t count) {
    std::vector<std::byte> out(count);
    for (std::byte& byte : out) byte = static_cast<std::byte>(next() >> 56);
    return out;
  }
  std::vector<float> floats(size_t count, size_t block) {
    std::vector<float> out(count);
    for (size_t i = 0; i < count; ++i) {
      int64_t total = 0;
      for (int k = 0; k < 4; ++k) total += static_cast<int64_t>(next() >> 54) - 511;
      const size_t index = i / block;
      out[i] = index == 3 ? 0.0f : std::ldexp(static_cast<float>(total), -static_cast<int>(index % 24));
    }
    return out;
  }

 private:
  uint64_t state_;
};

uint64_t fnv(std::span<const std::byte> data) {
  uint64_t value = 0xCBF29CE484222325u;
  for (const std::byte byte : data) value = (value ^ static_cast<uint64_t>(byte)) * 0x100000001B3u;
  return value;
}

std::vector<std::string> golden_lines() {
  std::ifstream file(testing::golden_path("quant_formats.txt"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  return lines;
}

TEST(Format, DecodesAndEncodesEveryTypeAsTheGgufPackageDoes) {
  int checked = 0;
  for (const std::string& line : golden_lines()) {
    std::istringstream in(line);
    std::string what, name, hash;
    uint64_t seed = 0, blocks = 0;
    in >> what >> name;
    if (what == "block") continue;
    in >> seed >> blocks >> hash;
    SCOPED_TRACE(line);
    const std::optional<Format> format = format_from_name(name);
    ASSERT_TRUE(format);
    const FormatInfo& info = format_info(*format);
    const size_t elements = blocks * info.block_elements;
    if (what == "decode") {
      const std::vector<std::byte> raw = Random(seed).bytes(blocks * info.block_bytes);
      std::vector<float> values(elements);
      info.decode(raw.data(), static_cast<int64_t>(elements), values.data());
      for (float& value : values) {
        if (std::isnan(value)) value = std::bit_cast<float>(0x7FC00000u);
      }
      EXPECT_EQ(fmt::format("{:016x}", fnv(std::as_bytes(std::span(values)))), hash);
    } else {
      ASSERT_EQ(what, "encode");
      ASSERT_NE(info.encode, nullptr);
      const std::vector<float> values = Random(seed).floats(elements, info.block_elements);
      std::vector<std::byte> coded(blocks * info.block_bytes);
      info.encode(values.data(), static_cast<int64_t>(elements), coded.data());
      EXPECT_EQ(fmt::format("{:016x}", fnv(coded)), hash);
    }
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

TEST(Format, OneBlockOfEachTypeIsRightValueByValue) {
  int checked = 0;
  for (const std::string& line : golden_lines()) {
    std::istringstream in(line);
    std::string what, name, hex;
    in >> what >> name >> hex;
    if (what != "block") continue;
    SCOPED_TRACE(name);
    const FormatInfo& info = format_info(format_from_name(name).value());
    std::vector<std::byte> raw;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
      raw.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    ASSERT_EQ(raw.size(), static_cast<size_t>(info.block_bytes));
    std::vector<float> values(info.block_elements);
    info.decode(raw.data(), info.block_elements, values.data());
    for (int i = 0; i < 8; ++i) {
      float want = 0;
      in >> want;
      EXPECT_EQ(values[i], want) << "element " << i;
    }
    ++checked;
  }
  EXPECT_GE(checked, 13);
}

TEST(Format, NamesAndGgufNumbersLeadBackToTheFormat) {
  for (const FormatInfo& info : all_formats()) {
    EXPECT_EQ(format_from_name(info.name), info.format);
    EXPECT_EQ(format_info(info.format).name, info.name);
    if (info.gguf_type < 0) continue;
    EXPECT_EQ(format_from_gguf(info.gguf_type), info.format);
  }
  EXPECT_EQ(format_from_gguf(3), Format::q4_1);  // GGML_TYPE_Q4_1
  EXPECT_FALSE(format_from_gguf(9999));
  EXPECT_FALSE(format_from_name("q4_2"));
}

TEST(Format, BytesAreCheckedForWholeBlocksAndOverflow) {
  EXPECT_EQ(format_bytes(Format::q4_1, 64).value(), 40u);
  EXPECT_EQ(format_bytes(Format::f32, 0).value(), 0u);
  EXPECT_EQ(format_bytes(Format::q4_0, 33).error().code(), Code::malformed);
  EXPECT_EQ(format_bytes(Format::f32, uint64_t{1} << 62).error().code(), Code::malformed);
}

TEST(Format, ABlockWithANanOrInfiniteScaleIsFoundByIndex) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<BlockQ4_1> blocks(200);
    std::memset(blocks.data(), 0x11, blocks.size() * sizeof(BlockQ4_1));
    EXPECT_TRUE(check_finite_blocks(Format::q4_1, std::as_bytes(std::span(blocks))).ok());
    blocks[130].min = to_f16(bad);
    const Status status = check_finite_blocks(Format::q4_1, std::as_bytes(std::span(blocks)));
    EXPECT_EQ(status.code(), Code::malformed);
    EXPECT_NE(status.message().find("block 130"), std::string::npos) << status.message();

    std::vector<float> values(100, 1.0f);
    EXPECT_TRUE(check_finite_blocks(Format::f32, std::as_bytes(std::span(values))).ok());
    values[99] = bad;
    EXPECT_FALSE(check_finite_blocks(Format::f32, std::as_bytes(std::span(values))).ok());
  }
}

TEST(Format, EncodersTakeValuesThatAreNotFiniteWithoutUndefinedBehaviour) {
  std::vector<float> values(32, std::numeric_limits<float>::quiet_NaN());
  values[5] = std::numeric_limits<float>::infinity();
  std::byte block[64];
  for (const FormatInfo& info : all_formats()) {
    if (info.encode == nullptr || info.block_elements > 32) continue;
    info.encode(values.data(), info.block_elements, block);
  }
  // A block of denormals: 1 / scale is infinite, every code has to stay in range.
  std::vector<float> tiny(32, 1e-42f);
  BlockQ8_0 coded;
  BlockQ8_0::encode(tiny.data(), coded);
  for (const int8_t code : coded.codes) EXPECT_GE(code, -127);
}

}  // namespace
}  // namespace headrace
