#include "text/json_lists.h"

#include <gtest/gtest.h>

namespace headrace::text {
namespace {

std::string ids_of(std::string_view list) {
  std::deque<std::string> decoded;
  const auto ids = read_ids(list, decoded);
  if (!ids) return "malformed";
  std::string out;
  for (const auto& [token, id] : *ids) out += std::string(token) + "=" + std::to_string(id) + ";";
  return out;
}

TEST(JsonLists, TakesTheVocabularyAndTheMergesOfTheModelAlone) {
  const std::string_view file =
      R"( {"vocab": {"x": 1}, "a": "]}\"{", "model": {"type": "BPE", "vocab": {"q\"]": 0 }, "merges":["a b"] , "z": 1e3}, "b": [{}]} )";
  const JsonLists lists = take_lists(file);
  EXPECT_EQ(lists.vocab, R"({"q\"]": 0 })");
  EXPECT_EQ(lists.merges, R"(["a b"])");
  EXPECT_EQ(
      lists.rest,
      R"( {"vocab": {"x": 1}, "a": "]}\"{", "model": {"type": "BPE", "vocab": null, "merges":null , "z": 1e3}, "b": [{}]} )");
}

TEST(JsonLists, LeavesWhatIsNoObjectToTheParser) {
  for (const std::string_view text : {"", "[]", "{", R"({"model": {"vocab": {)", R"({"model": {"vocab": {}})",
                                      "nul", R"({"a")", R"({"model": {"vocab": "\)"}) {
    EXPECT_EQ(take_lists(text).rest, text);
    EXPECT_TRUE(take_lists(text).vocab.empty());
  }
}

TEST(JsonLists, ReadsStringsWithEveryEscape) {
  EXPECT_EQ(ids_of(R"({"\u00e9\n\"\\\/\t": 3, "\ud83d\ude00": 4})"),
            "\xC3\xA9\n\"\\/\t=3;\xF0\x9F\x98\x80=4;");
  EXPECT_EQ(ids_of("{}"), "");
  EXPECT_EQ(ids_of(" { \"a\" : -5 } "), "a=-5;");
  EXPECT_EQ(ids_of("{\n                    \"a longer token \\\" than eight\"\n\t          :\r\n5}"), "a longer token \" than eight=5;");
}

TEST(JsonLists, RefusesWhatJsonRefuses) {
  for (const std::string_view list : {"",
                                      "{",
                                      "}",
                                      "[]",
                                      R"({"a"})",
                                      R"({"a":})",
                                      R"({"a":1,})",
                                      R"({"a":1 "b":2})",
                                      R"({"a":1}})",
                                      R"({"a":"1"})",
                                      R"({a:1})",
                                      R"({"\x":1})",
                                      R"({"\ud83d":1})",
                                      R"({"\udc00\ud800":1})",
                                      R"({"\u12":1})",
                                      R"({"a":1e5})",
                                      R"({"a":99999999999999999999})",
                                      "{\"a\nb\":1}",
                                      "{\"nine bytes\nand more\":1}",
                                      "{\"12345678\\",
                                      "{\"\xFF\":1}",
                                      "{\"a\\\":1}",
                                      "null"}) {
    EXPECT_EQ(ids_of(list), "malformed") << list;
  }
  const auto scores = [](std::string_view list) {
    std::deque<std::string> decoded;
    return read_scores(list, decoded).has_value();
  };
  EXPECT_TRUE(scores(R"([["a", -1.5e-3], ["b", 2]])"));
  EXPECT_FALSE(scores(R"([["a", -inf]])"));
  EXPECT_FALSE(scores(R"([["a"]])"));
  EXPECT_FALSE(scores(R"([["a", 1, 2]])"));
}

TEST(JsonLists, ReadsMergesOfBothSpellings) {
  std::deque<std::string> decoded;
  const auto merges = read_merges(R"(["a b", ["c d", "\n"], "\u0120 x"])", decoded);
  ASSERT_TRUE(merges.has_value());
  EXPECT_EQ(*merges, (Merges{{"a", "b"}, {"c d", "\n"}, {"\xC4\xA0", "x"}}));
  EXPECT_FALSE(read_merges(R"(["ab"])", decoded).has_value());
  EXPECT_FALSE(read_merges(R"(["a b c"])", decoded).has_value());
  EXPECT_FALSE(read_merges(R"([["a"]])", decoded).has_value());
  EXPECT_FALSE(read_merges(R"([1])", decoded).has_value());
}

}  // namespace
}  // namespace headrace::text
