#include "onnx/ops/regex.h"

#include <gtest/gtest.h>

#include <string>

namespace headrace::onnx {
namespace {

// Expected: Python's re.fullmatch, which agrees with RE2 on these but a{,2}, which RE2 takes as it stands.
TEST(Regex, MatchesWholeTextsAsRe2) {
  struct Row {
    const char *pattern, *text;
    bool matches;
  };
  const Row rows[] = {
      {"abc", "abc", true},
      {"abc", "abcd", false},
      {"a|ab", "ab", true},
      {"(a|ab)(c|bcd)", "abcd", true},
      {"a*", "aaaa", true},
      {"a*", "", true},
      {"a+", "", false},
      {"a?b", "b", true},
      {"a{2,3}", "aaaa", false},
      {"a{2,3}", "aaa", true},
      {"a{2}", "aa", true},
      {"a{2,}", "a", false},
      {"[a-c]+", "abcab", true},
      {"[^a-c]+", "xyz", true},
      {"[^a-c]+", "xbz", false},
      {"[]a]+", "]a]", true},
      {"[a\\]]+", "]a", true},
      {"[a-]+", "-a", true},
      {".", "\n", false},
      {"(?s).", "\n", true},
      {".*", "a\303\261b", true},
      {"\303\261+", "\303\261\303\261", true},
      {"(?i)stra\303\237e", "STRA\303\237E", true},
      {"(?i)[a-z]+", "ABC", true},
      {"(?i)\303\204", "\303\244", true},
      {"\\d+\\.\\d*", "12.5", true},
      {"\\w+@\\w+\\.com", "me@site.com", true},
      {"\\S+\\s\\S+", "a b", true},
      {"^a$", "a", true},
      {"a$b", "ab", false},
      {"\\bfoo\\b", "foo", true},
      {"a\\Bb", "ab", true},
      {"a\\bb", "ab", false},
      {"(?m)a$\\nb", "a\nb", true},
      {"(?:ab)+", "abab", true},
      {"(?P<x>a)b", "ab", true},
      {"\\x41\\x61", "Aa", true},
      {"a{,2}x", "a{,2}x", true},
      {"(|a)b", "b", true},
      {"(a(?i)b)c", "aBc", true},
      {"(a(?i)b)c", "aBC", false},
      {"(?i:a)b", "Ab", true},
      {"(?i:a)b", "AB", false},
      {"a*?b", "aab", true},
      {"[\\d\\-x]+", "1-x", true},
      {"[\\W]", "!", true},
      {"(?:)", "", true},
  };
  for (const Row& row : rows) {
    const auto regex = Regex::compile(row.pattern);
    ASSERT_TRUE(regex.has_value()) << row.pattern << ": " << regex.error().to_string();
    EXPECT_EQ(regex->matches_all_of(row.text), row.matches) << row.pattern << " on " << row.text;
  }
}

TEST(Regex, RefusesWhatRe2Refuses) {
  for (const char* pattern : {"a)", "[a", "a**", "*a", "a{2,1}", "a{1001}", "(?<n", "\\1", "\\q", "[b-a]", "(?z)", "\\p{Greek}",
                              "[[:nope:]]", "\\x{110000}"}) {
    EXPECT_FALSE(Regex::compile(pattern).has_value()) << pattern;
  }
  EXPECT_FALSE(Regex::compile(std::string(10'000, '(')).has_value());
}

TEST(Regex, TakesTimeThatGrowsWithTheTextAlone) {
  const auto regex = Regex::compile("(a*)*(a|aa)*(a?){50}b");
  ASSERT_TRUE(regex.has_value());
  EXPECT_FALSE(regex->matches_all_of(std::string(20'000, 'a')));
}

}  // namespace
}  // namespace headrace::onnx
