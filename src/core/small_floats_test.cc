// Goldens: tools/golden/small_floats.py (ml_dtypes 0.6.0, onnx 1.23.2), and the tables of ONNX's operator document of Cast.
#include "core/small_floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace headrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

class Digest {
 public:
  void add(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325;
};

template <class T>
uint64_t digest_worths(int codes) {
  Digest digest;
  for (int code = 0; code < codes; ++code) {
    const float value = to_float(T{static_cast<uint8_t>(code)});
    const uint32_t bits = value != value ? 0x7FC00000u : std::bit_cast<uint32_t>(value);
    for (int byte = 0; byte < 4; ++byte) digest.add(static_cast<uint8_t>(bits >> (8 * byte)));
  }
  return digest.value();
}

std::vector<double> all_halves() {
  std::vector<double> values;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = to_float(f16{static_cast<uint16_t>(bits)});
    if (value == value) values.push_back(static_cast<double>(value));
  }
  return values;
}

template <class T>
uint64_t digest_codes(bool saturate) {
  Digest digest;
  for (const double value : all_halves()) digest.add(to_small_float<T>(value, saturate).bits);
  return digest.value();
}

template <class T>
void expect_digests(int codes, uint64_t worths, uint64_t plain, uint64_t saturated) {
  EXPECT_EQ(digest_worths<T>(codes), worths);
  EXPECT_EQ(digest_codes<T>(false), plain);
  EXPECT_EQ(digest_codes<T>(true), saturated);
}

TEST(SmallFloats, EveryCodeAndEveryHalfConvertAsInMlDtypes) {
  expect_digests<f8e4m3fn>(256, 0xdad1d9c50f749ca5, 0x427aaebb3ee1dd63, 0xaf47090016b81063);
  expect_digests<f8e4m3fnuz>(256, 0xf51851cb11c63018, 0x4e68c3bcff07e86d, 0x8085b2e0380086e3);
  expect_digests<f8e5m2>(256, 0x6c1e56b6fb09c905, 0x61911f52756e0a25, 0x26fad67d8c0b8573);
  expect_digests<f8e5m2fnuz>(256, 0x94ae6fc493d49818, 0x9b8fc14b6031566d, 0x0d13f62be652bd63);
  expect_digests<f4e2m1>(16, 0x2403bb76b85dfea5, 0x1fb1dba66200138b, 0x1fb1dba66200138b);
}

TEST(SmallFloats, EveryHalfBecomesAScaleInEachRoundingAsInOnnx) {
  const auto codes = [](ScaleRounding rounding) {
    Digest digest;
    for (const double value : all_halves()) {
      if (value > 0 && value < kInfinity) digest.add(to_f8e8m0(value, true, rounding).bits);
    }
    return digest.value();
  };
  EXPECT_EQ(digest_worths<f8e8m0>(256), 0x6d2c8b41c3f0e5a5);
  EXPECT_EQ(codes(ScaleRounding::up), 0xadaf9e8a39221b2f);
  EXPECT_EQ(codes(ScaleRounding::down), 0x49aa64ea4be92512);
  EXPECT_EQ(codes(ScaleRounding::nearest), 0x048e281b8c65dd87);
}

TEST(SmallFloats, SpecialValuesFollowTheTablesOfCast) {
  EXPECT_EQ((to_small_float<f8e4m3fn>(kInfinity, true).bits), 0x7E);
  EXPECT_EQ((to_small_float<f8e4m3fn>(-kInfinity, false).bits), 0xFF);
  EXPECT_EQ((to_small_float<f8e4m3fn>(-0.0, true).bits), 0x80);
  EXPECT_EQ((to_small_float<f8e4m3fn>(kNan, true).bits & 0x7F), 0x7F);
  EXPECT_EQ((to_small_float<f8e4m3fnuz>(-0.0, true).bits), 0x00);
  EXPECT_EQ((to_small_float<f8e4m3fnuz>(-1e-30, true).bits), 0x00);
  EXPECT_EQ((to_small_float<f8e4m3fnuz>(-kInfinity, false).bits), 0x80);
  EXPECT_EQ((to_small_float<f8e4m3fnuz>(kNan, true).bits), 0x80);
  EXPECT_EQ((to_small_float<f8e5m2>(-kInfinity, false).bits), 0xFC);
  EXPECT_EQ((to_small_float<f8e5m2>(1e300, true).bits), 0x7B);
  EXPECT_EQ((to_small_float<f8e5m2fnuz>(kInfinity, false).bits), 0x80);
  EXPECT_EQ((to_f8e8m0(0, true, ScaleRounding::up).bits), 0x00);
  EXPECT_EQ((to_f8e8m0(0, false, ScaleRounding::nearest).bits), 0xFF);
  EXPECT_EQ((to_f8e8m0(kInfinity, true, ScaleRounding::up).bits), 0xFE);
  EXPECT_EQ((to_f8e8m0(kInfinity, false, ScaleRounding::nearest).bits), 0xFF);
  EXPECT_EQ((to_f8e8m0(kNan, true, ScaleRounding::up).bits), 0xFF);
}

TEST(SmallFloats, ADoubleIsRoundedOnceToSixteenBits) {
  // Just above the middle of two halves, by less than a float can hold: through float it would go down to the even one.
  const double above = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(to_small_float<f16>(above, false).bits, 0x3C01);
  EXPECT_EQ(to_f16(static_cast<float>(above)).bits, 0x3C00);
  EXPECT_EQ(to_small_float<bf16>(1 + 0x1p-8 + 0x1p-40, false).bits, 0x3F81);
  EXPECT_EQ(to_small_float<f16>(-65520, false).bits, 0xFC00);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float half = to_float(f16{static_cast<uint16_t>(bits)}), brain = to_float(bf16{static_cast<uint16_t>(bits)});
    if (half == half) {
      EXPECT_EQ(to_small_float<f16>(static_cast<double>(half), false).bits, bits);
    }
    if (brain == brain) {
      EXPECT_EQ(to_small_float<bf16>(static_cast<double>(brain), false).bits, bits);
    }
  }
}

}  // namespace
}  // namespace headrace
