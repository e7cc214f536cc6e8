#include "text/named_split.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/golden_json.h"

namespace headrace::text {
namespace {

std::vector<std::string> words_of(const NamedSplit& split, std::string_view text) {
  PieceArena arena;
  std::vector<Piece> pieces{{text}}, next;
  for (const PreTokenizerPtr& step : split.steps) {
    next.clear();
    for (const Piece& piece : pieces) EXPECT_TRUE(step->split(piece, arena, next).ok());
    pieces.swap(next);
  }
  std::vector<std::string> words;
  for (const Piece& piece : pieces) words.emplace_back(piece.text);
  return words;
}

// Golden: the words of the Python package that the file names, given the same regular expressions.
TEST(NamedSplit, CutsWhereTheLibraryCuts) {
  const auto golden = testing::golden_json("named_splits.json");
  ASSERT_GE(golden.at("rows").size(), 10u);
  for (const auto& row : golden.at("rows")) {
    const auto split = split_named(row.at(0).get<std::string>());
    ASSERT_TRUE(split.has_value()) << row.at(0);
    for (const auto& want : row.at(1)) {
      const auto words = want.get<std::vector<std::string>>();
      std::string text;
      for (const std::string& word : words) text += word;
      EXPECT_EQ(words_of(*split, text), words) << row.at(0) << " " << nlohmann::json(text);
    }
  }
}

TEST(NamedSplit, RefusesAnUnknownNameAndListsTheKnownOnes) {
  const auto split = split_named("nobody");
  ASSERT_FALSE(split.has_value());
  const std::string message = split.error().to_string();
  for (const char* part : {"unsupported", "\"nobody\"", "llama-bpe", "deepseek-v3", "qwen2"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

// The limit is far above what it takes; a quadratic scan would take minutes.
TEST(NamedSplit, LongRunsOfAnythingTakeLinearTime) {
  for (const char* name : {"deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon", "bloom", "viking",
                           "seed-coder", "bailingmoe", "jais-2", "minicpm5", "laguna"}) {
    const auto split = split_named(name);
    ASSERT_TRUE(split.has_value());
    for (const char* unit : {" ", "a", "1", "!", "\n"}) {
      std::string text;
      for (int i = 0; i < 50'000; ++i) text += unit;
      const auto start = std::chrono::steady_clock::now();
      words_of(*split, text + "x");
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10))
          << name << " '" << unit << "'";
    }
  }
}

}  // namespace
}  // namespace headrace::text
