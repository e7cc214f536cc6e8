#include "engine/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::engine {
namespace {

using ::testing::HasSubstr;

TEST(EngineConfig, DefaultsAreInTheirRanges) { EXPECT_TRUE(check_config(EngineConfig{}).ok()); }

TEST(EngineConfig, AValueOutOfRangeIsRefusedWithFlagRangeAndValue) {
  EngineConfig config;
  config.max_seqs = 0;
  const Status status = check_config(config);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.message(), "--max-seqs: want 1 to 4096, got 0");
}

TEST(EngineConfig, EveryOptionReachesItsField) {
  for (const OptionRow& row : engine_options()) {
    EngineConfig config;
    EXPECT_EQ(config.*row.member, row.default_value) << row.field;
    config.*row.member = row.max + 1;
    EXPECT_THAT(check_config(config).message(), HasSubstr(std::string(row.flag))) << row.field;
  }
}

TEST(EngineConfig, SizesTakeBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("1500000000").value(), 1500000000u);
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("2GiB").value(), 2147483648u);
  EXPECT_EQ(parse_bytes("512MiB").value(), 536870912u);
  EXPECT_EQ(parse_bytes("1.5 GiB").value(), 1610612736u);
  EXPECT_EQ(parse_bytes("3GB").value(), 3000000000u);
}

TEST(EngineConfig, DtypesOfTheCacheHaveNames) {
  EXPECT_EQ(parse_kv_dtype("f16").value(), DType::f16);
  EXPECT_EQ(parse_kv_dtype("bf16").value(), DType::bf16);
  EXPECT_EQ(parse_kv_dtype("f32").value(), DType::f32);
  EXPECT_EQ(parse_kv_dtype("i8").value(), DType::i8);
  EXPECT_EQ(parse_kv_dtype("int8").value(), DType::i8);
  for (const char* name : {"", "F16", "i32", "q8_0", "int8 "}) {
    const Result<DType> dtype = parse_kv_dtype(name);
    ASSERT_FALSE(dtype.has_value()) << name;
    EXPECT_EQ(dtype.error().code(), Code::invalid_argument);
    EXPECT_EQ(dtype.error().message(), fmt::format("want f16, bf16, f32 or i8 (int8), got \"{}\"", name));
  }
}

TEST(EngineConfig, SizesThatAreNoneAreRefused) {
  for (const char* text : {"", "GiB", "-1", "2gib2", "nan", "inf", "1e9", "0x10", "2 GiB ", "99999999TiB", "1.2.3"}) {
    const Result<uint64_t> bytes = parse_bytes(text);
    ASSERT_FALSE(bytes.has_value()) << text;
    EXPECT_EQ(bytes.error().code(), Code::invalid_argument) << text;
    EXPECT_THAT(bytes.error().message(), HasSubstr(text));
  }
}

}  // namespace
}  // namespace headrace::engine
