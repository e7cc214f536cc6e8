#include "core/shape.h"

#include <gtest/gtest.h>

#include "core/half.h"

#include <cmath>

namespace headrace {
namespace {

TEST(Shape, AffineDimsEvaluateAndPrint) {
  SymbolTable symbols;
  const Dim t = Dim::symbol(symbols.add("T", 512));
  const Dim s = Dim::symbol(symbols.add("S", 8));
  const Dim dim = t * 2 + s + 3;
  Bindings bindings;
  bindings.set(0, 10);
  bindings.set(1, 4);
  EXPECT_EQ(dim.eval(bindings), 27);
  EXPECT_EQ(dim.eval(symbols.upper_bounds()), 1035);
  EXPECT_EQ(dim.to_string(symbols.names()), "2*T+S+3");
  EXPECT_TRUE(dim - dim == Dim(0));
  EXPECT_EQ((Shape{t, 64}).elements(bindings), 640);
}

TEST(Half, EveryBinary16ValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const f16 value{static_cast<uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(wide))));
    } else {
      ASSERT_EQ(to_f16(wide).bits, bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(to_f16(65519.0f).bits, 0x7BFF);  // IEEE 754-2008: below the midpoint 65520
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f).bits, 0x3C00);
  EXPECT_EQ(to_f16(1.0f + 0x3p-11f).bits, 0x3C02);
  EXPECT_EQ(to_f16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(to_f16(0x1.8p-25f).bits, 0x0001);
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f).bits, 0x3F80);
  EXPECT_EQ(to_bf16(1.0f + 0x3p-8f).bits, 0x3F82);
}

}  // namespace
}  // namespace headrace
