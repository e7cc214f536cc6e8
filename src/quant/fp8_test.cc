// Values: the OCP 8-bit floating point specification (table of E4M3 and E5M2 extremes), and exhaustive round
// trips.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "quant/fp8_e4m3.h"
#include "quant/fp8_e5m2.h"
#include "quant/int8.h"

namespace headrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Fp8, TheExtremesAreThoseOfTheSpecification) {
  EXPECT_EQ(fp8_e4m3_to_float(0x7E), 448.0f);
  EXPECT_EQ(fp8_e4m3_to_float(0x08), 0x1p-6f);
  EXPECT_EQ(fp8_e4m3_to_float(0x07), 0x1.cp-7f);
  EXPECT_EQ(fp8_e4m3_to_float(0x01), 0x1p-9f);
  EXPECT_TRUE(std::isnan(fp8_e4m3_to_float(0xFF)));
  EXPECT_EQ(fp8_e5m2_to_float(0x7B), 57344.0f);
  EXPECT_EQ(fp8_e5m2_to_float(0x04), 0x1p-14f);
  EXPECT_EQ(fp8_e5m2_to_float(0x03), 0x1.8p-15f);
  EXPECT_EQ(fp8_e5m2_to_float(0x01), 0x1p-16f);
  EXPECT_EQ(fp8_e5m2_to_float(0xFC), -kInfinity);
  EXPECT_TRUE(std::isnan(fp8_e5m2_to_float(0x7D)));
}

// Halfway points between neighbours, and one float either side, decide every rounding.
template <class Decode, class Encode>
void check_every_code(int last_finite, Decode decode, Encode encode) {
  for (int code = 0; code <= last_finite; ++code) {
    const float value = decode(static_cast<uint8_t>(code));
    EXPECT_EQ(encode(value), code);
    EXPECT_EQ(encode(-value), code | 0x80);
    if (code == last_finite) continue;
    const float middle = (value + decode(static_cast<uint8_t>(code + 1))) / 2;
    EXPECT_EQ(encode(middle), code % 2 == 0 ? code : code + 1) << middle;
    EXPECT_EQ(encode(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(encode(std::nextafter(middle, kInfinity)), code + 1);
  }
}

TEST(Fp8, EncodingRoundsToTheNearestCodeAndHalvesToEven) {
  check_every_code(0x7E, fp8_e4m3_to_float, [](float value) { return float_to_fp8_e4m3(value, false); });
  check_every_code(0x7B, fp8_e5m2_to_float, [](float value) { return float_to_fp8_e5m2(value, false); });
}

TEST(Fp8, PastTheLargestValueSaturationDecides) {
  EXPECT_EQ(float_to_fp8_e4m3(464.0f, false), 0x7E);
  EXPECT_EQ(float_to_fp8_e4m3(465.0f, false), 0x7F);
  EXPECT_EQ(float_to_fp8_e4m3(-1e30f, true), 0xFE);
  EXPECT_EQ(float_to_fp8_e4m3(kInfinity, false), 0x7F);
  EXPECT_EQ(float_to_fp8_e5m2(61440.0f, false), 0x7C);
  EXPECT_EQ(float_to_fp8_e5m2(61439.0f, false), 0x7B);
  EXPECT_EQ(float_to_fp8_e5m2(-kInfinity, true), 0xFB);
  EXPECT_TRUE(std::isnan(fp8_e5m2_to_float(float_to_fp8_e5m2(std::nanf(""), true))));
  EXPECT_TRUE(std::isnan(fp8_e4m3_to_float(float_to_fp8_e4m3(std::nanf(""), true))));
  EXPECT_EQ(float_to_fp8_e4m3(1e-40f, true), 0);
}

TEST(Int8, SumsArePastWhatSixteenBitsHold) {
  const std::vector<uint8_t> a(1000, 255);
  const std::vector<int8_t> b(1000, -128);
  EXPECT_EQ(dot_u8s8(a, b), -32640000);
}

}  // namespace
}  // namespace headrace
