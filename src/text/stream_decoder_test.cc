#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "text/utf8.h"

namespace headrace::text {
namespace {

std::string stream_in_pieces(std::string_view bytes, size_t piece, StreamDecoder::Options options = {}) {
  StreamDecoder decoder(std::move(options));
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += piece) out += decoder.push(bytes.substr(at, piece));
  return out + decoder.finish();
}

// Expected values: Python 3.11, bytes.decode("utf-8", "replace").
TEST(StreamDecoder, ReplacesMaximalIllFormedSubpartsAsPythonDoes) {
  const std::pair<std::string, std::string> rows[] = {
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xF0\x9F\x98", "\xEF\xBF\xBD"},
      {"\xF0\x9F\x98"
       "A",
       "\xEF\xBF\xBD"
       "A"},
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xE4\xB8\xE4\xB8\x96", "\xEF\xBF\xBD\xE4\xB8\x96"},
  };
  for (const auto& [bytes, text] : rows) {
    for (size_t piece : {1, 2, 3, 99}) EXPECT_EQ(stream_in_pieces(bytes, piece), text);
    EXPECT_EQ(to_valid_utf8(bytes), text);
  }
}

TEST(StreamDecoder, GivesTheSameTextHoweverTheBytesAreCut) {
  std::mt19937 random(7);
  const std::string alphabet = "ab\xE4\xB8\x96\xF0\x9F\x98\x80\x80\xFF#";
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (int i = 0; i < 60; ++i) bytes.push_back(alphabet[random() % alphabet.size()]);
    const std::string whole = stream_in_pieces(bytes, bytes.size());
    EXPECT_EQ(whole, to_valid_utf8(bytes));
    for (size_t piece = 1; piece < 6; ++piece) EXPECT_EQ(stream_in_pieces(bytes, piece), whole);
  }
}

TEST(StreamDecoder, NeverSendsAnyPartOfAStopString) {
  const std::string bytes = "one ## two ##\n#### three";
  for (size_t piece = 1; piece < bytes.size(); ++piece) {
    EXPECT_EQ(stream_in_pieces(bytes, piece, {.stop = {"####", "##\n###"}}), "one ## two ");
  }
}

TEST(StreamDecoder, IgnoresWhatFollowsAStopString) {
  StreamDecoder decoder({.stop = {"END"}});
  EXPECT_EQ(decoder.push("xEND more"), "x");
  EXPECT_TRUE(decoder.stopped());
  EXPECT_EQ(decoder.matched(), "END");
  EXPECT_EQ(decoder.push("y"), "");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, PassesOverStopStringsWhileTheyAreIgnored) {
  StreamDecoder decoder({.stop = {"aa"}});
  decoder.ignore_stops(true);
  std::string out = decoder.push("xaaay");
  EXPECT_EQ(out, "xaaay");
  out += decoder.push("a");
  decoder.ignore_stops(false);
  out += decoder.push("az");
  EXPECT_TRUE(decoder.stopped());
  EXPECT_EQ(out, "xaaay");
}

TEST(StreamDecoder, HoldsOnlyTheLongestPrefixOfALongPeriodicStopString) {
  StreamDecoder decoder({.stop = {std::string(100'000, 'a') + "b"}});
  size_t sent = 0;
  for (int i = 0; i < 300'000; ++i) sent += decoder.push("a").size();
  EXPECT_EQ(sent, 200'000u);
  EXPECT_EQ(decoder.push("b"), "");
  EXPECT_TRUE(decoder.stopped());
}

}  // namespace
}  // namespace headrace::text
