#include "testing/golden_json.h"
#include "text/split_pattern.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace headrace::text {
namespace {

const std::map<std::string, SplitPattern> kByName = {
    {"gpt2", SplitPattern::gpt2},     {"llama3", SplitPattern::llama3}, {"qwen2", SplitPattern::qwen2},
    {"qwen35", SplitPattern::qwen35}, {"o200k", SplitPattern::o200k},   {"tekken", SplitPattern::tekken},
};

std::vector<std::string> split(SplitPattern pattern, const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = next_word(pattern, text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// Golden: Split(Regex(pattern), "isolated") of the Python package that the file names.
TEST(SplitPattern, CutsWhereTheRegularExpressionCuts) {
  const auto golden = testing::golden_json("split_patterns.json");
  ASSERT_GT(golden.at("rows").size(), 900u);
  for (const auto& row : golden.at("rows")) {
    const auto words = row.at(1).get<std::vector<std::string>>();
    std::string text;
    for (const std::string& word : words) text += word;
    EXPECT_EQ(split(kByName.at(row.at(0)), text), words) << row.dump();
  }
}

TEST(SplitPattern, TakesTimeLinearInWhiteSpaceRuns) {
  const std::string text =
      std::string(1 << 20, ' ') + "\n" + std::string(1 << 20, '\n') + std::string(1 << 20, ' ');
  for (const auto& [name, pattern] : kByName) EXPECT_LE(split(pattern, text).size(), 4u) << name;
}

}  // namespace
}  // namespace headrace::text
