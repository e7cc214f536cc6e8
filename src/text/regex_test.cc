#include "text/regex.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "testing/golden_json.h"
#include "text/pre_tokenizer.h"

namespace headrace::text {
namespace {

// Golden: the words between and in the matches, of the Python package that the file names; null for what it refuses.
TEST(Regex, ReadsTheSyntaxOfTheLibrary) {
  const auto golden = testing::golden_json("regex_syntax.json");
  for (const auto& row : golden.at("rows")) {
    SCOPED_TRACE(row.at(0).dump());
    const auto split = split_by_regex(row.at(0).get<std::string>(), SplitBehavior::isolated, false);
    ASSERT_EQ(split.has_value(), !row.at(1).is_null()) << (split ? "" : split.error().to_string());
    if (!split) continue;
    for (const auto& want : row.at(1)) {
      std::string text;
      for (const auto& word : want) text += word.get<std::string>();
      PieceArena arena;
      std::vector<Piece> pieces;
      ASSERT_TRUE((*split)->split({text}, arena, pieces).ok());
      nlohmann::json words = nlohmann::json::array();
      for (const Piece& piece : pieces) words.push_back(piece.text);
      EXPECT_EQ(words, want);
    }
  }
}

TEST(Regex, SaysWhatItDoesNotTake) {
  const auto message = [](const std::string& pattern) {
    const auto regex = Regex::compile(pattern);
    return regex ? std::string("accepted") : regex.error().to_string();
  };
  const auto says = [&](const std::string& pattern, const char* what) {
    EXPECT_NE(message(pattern).find(what), std::string::npos) << pattern << ": " << message(pattern);
  };
  says("[a", "a class has no end");
  says("(a", "a group has no end");
  says("a)", "a group ends that did not begin");
  says("*a", "there is nothing to repeat");
  says("a|+", "there is nothing to repeat");
  says("a\\", "a backslash ends it");
  says("[b-a]", "a range of a class");
  says("\\p{Nonsense}", "property \"Nonsense\" is not known");
  says("\\xFF", "a byte above 0x7f");
  says("\\u{D800}", "not the number of a character");
  says("(?y{g}:.)", "this kind of group is not implemented");
  says("\\X", "\\X is not implemented");
  says("a{99999}", "too many repetitions");
  says(std::string(10'000, '('), "nested too deeply");
  says(std::string(10'000, '['), "nested too deeply");
  says(std::string(1 << 17, 'a'), "want at most");
  std::string sets;
  for (int i = 0; i < 1000; ++i) sets += "\\p{Alphabetic}";
  says(sets, "becomes one of over");
}

TEST(Regex, BackTrackingEndsInAnError) {
  const auto regex = Regex::compile("(a+)+[bd]");
  ASSERT_TRUE(regex.has_value());
  std::vector<Regex::Match> matches;
  EXPECT_EQ(regex->find_all(std::string(64, 'a') + "c", matches).code(), Code::resource_exhausted);
}

}  // namespace
}  // namespace headrace::text
