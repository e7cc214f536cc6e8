#include "text/regex.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "testing/golden_json.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

// Golden: how many of all code points each class matches in the Python package that the file names, and a digest of them.
TEST(Regex, ClassesHaveTheCodePointsOfTheLibrary) {
  std::string text;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code < 0xD800 || code >= 0xE000) append_utf8(text, code);
  }
  const auto golden = testing::golden_json("regex_classes.json");
  for (const auto& row : golden.at("rows")) {
    SCOPED_TRACE(row.at(0).dump());
    const auto regex = Regex::compile(row.at(0).get<std::string>());
    ASSERT_TRUE(regex.has_value()) << regex.error().to_string();
    std::vector<Regex::Match> matches;
    ASSERT_TRUE(regex->find_all(text, matches).ok());
    uint64_t digest = 0xCBF29CE484222325;
    for (const auto& match : matches) {
      const uint32_t code = decode_utf8(std::string_view(text).substr(match.begin)).code;
      for (int shift = 0; shift < 32; shift += 8) digest = (digest ^ (code >> shift & 0xFF)) * 0x100000001B3;
    }
    EXPECT_EQ(matches.size(), row.at(1).get<size_t>());
    EXPECT_EQ(fmt::format("{:016x}", digest), row.at(2).get<std::string>());
  }
}

}  // namespace
}  // namespace headrace::text
