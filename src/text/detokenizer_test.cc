// Golden: tests/golden/streams.json, what the Python package that the file names decodes sequences of ids to
// (tools/make_stream_goldens.py).
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "testing/golden_json.h"
#include "text/stream_decoder.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

struct Row {
  std::string vocabulary;
  std::vector<int32_t> ids;
  std::string text;          // without special tokens
  std::string special_text;  // with them
};

class Streams : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto golden = testing::golden_json("streams.json");
    for (const auto& [name, vocabulary] : golden.at("vocabularies").items()) {
      auto tokenizer = Tokenizer::from_tokenizer_json(vocabulary.at("tokenizer").dump());
      ASSERT_TRUE(tokenizer.has_value()) << name << ": " << tokenizer.error().to_string();
      tokenizers_[name] = *std::move(tokenizer);
      for (const auto& row : vocabulary.at("rows")) rows_.push_back({name, row.at(0), row.at(1), row.at(2)});
    }
    ASSERT_GE(rows_.size(), 300u);
  }
  static const Tokenizer& tokenizer(const Row& row) { return *tokenizers_.at(row.vocabulary); }

  // What each token sends, and at last what was held back.
  static std::vector<std::string> stream(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                         Detokenizer::Begin begin, StreamDecoder::Options options = {}) {
    Detokenizer detokenizer(tokenizer, begin);
    StreamDecoder decoder(std::move(options));
    std::vector<std::string> sent;
    for (const int32_t id : ids) sent.push_back(decoder.push(detokenizer.push(id)));
    sent.push_back(decoder.push(detokenizer.finish()) + decoder.finish());
    return sent;
  }
  static std::string joined(const std::vector<std::string>& parts) {
    std::string all;
    for (const std::string& part : parts) all += part;
    return all;
  }

  static inline std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers_;
  static inline std::vector<Row> rows_;
};

TEST_F(Streams, DecodeAsTheLibraryDoes) {
  for (const Row& row : rows_) {
    SCOPED_TRACE(row.vocabulary + " " + ::testing::PrintToString(row.ids));
    EXPECT_EQ(tokenizer(row).decode(row.ids, true), row.text);
    EXPECT_EQ(tokenizer(row).decode(row.ids, false), row.special_text);
  }
}

TEST_F(Streams, GiveTheTextOfTheWholeInWholeCharacters) {
  for (const Row& row : rows_) {
    SCOPED_TRACE(row.vocabulary + " " + ::testing::PrintToString(row.ids));
    const auto sent = stream(tokenizer(row), row.ids, Detokenizer::Begin::text);
    EXPECT_EQ(joined(sent), row.text);
    for (const std::string& part : sent) EXPECT_TRUE(is_valid_utf8(part));
  }
}

// Where the cut is inside a character, the texts of both sides do not make the whole.
TEST_F(Streams, GoOnWithATextAsTheLibraryJoinsIt) {
  size_t compared = 0;
  for (const Row& row : rows_) {
    for (size_t cut = 1; cut < row.ids.size(); ++cut) {
      const std::span<const int32_t> ids = row.ids;
      const std::string before = tokenizer(row).decode(ids.first(cut), true);
      if (before.empty() || before.ends_with(kReplacementUtf8) || !row.text.starts_with(before)) continue;
      SCOPED_TRACE(row.vocabulary + " " + ::testing::PrintToString(row.ids) + " cut " + std::to_string(cut));
      EXPECT_EQ(before + joined(stream(tokenizer(row), ids.subspan(cut), Detokenizer::Begin::anywhere)),
                row.text);
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000u);
}

TEST_F(Streams, NeverSendAnyPartOfAStopStringThatCrossesTokens) {
  std::mt19937 random(3);
  size_t crossing = 0;
  for (const Row& row : rows_) {
    if (row.text.empty()) continue;
    // A stop string out of the text, cut at whole characters.
    size_t begin = random() % row.text.size(), end = begin + 1 + random() % 12;
    while (begin > 0 && (row.text[begin] & 0xC0) == 0x80) --begin;
    end = std::min(end, row.text.size());
    while (end < row.text.size() && (row.text[end] & 0xC0) == 0x80) ++end;
    const std::string stop = row.text.substr(begin, end - begin);
    const std::string want = row.text.substr(0, row.text.find(stop));
    SCOPED_TRACE(row.vocabulary + " " + ::testing::PrintToString(row.ids) + " stop " + stop);
    std::string so_far;
    for (const std::string& part :
         stream(tokenizer(row), row.ids, Detokenizer::Begin::text, {.stop = {stop, stop + "never"}})) {
      so_far += part;
      EXPECT_TRUE(want.starts_with(so_far)) << so_far;
    }
    EXPECT_EQ(so_far, want);
    crossing += stop.size() > 4;
  }
  EXPECT_GT(crossing, 100u);
}

TEST_F(Streams, HoldBackOnlyWhatMayBecomeACharacter) {
  const Tokenizer& tokenizer = *tokenizers_.at("byte_fallback");
  const auto id = [&](const char* token) { return tokenizer.token_id(token); };
  Detokenizer text(tokenizer, Detokenizer::Begin::text);
  EXPECT_EQ(text.push(id("<0xE4>")), "");
  EXPECT_EQ(text.push(id("<0xB8>")), "");
  EXPECT_EQ(text.push(id("<0x96>")), "\u4e16");
  EXPECT_EQ(text.push(id("<0xE4>")), "");
  // One for each byte, as the library has it.
  EXPECT_EQ(text.push(id("<0x41>")), "\uFFFDA");
  EXPECT_EQ(text.push(id("<0xE4>")), "");
  EXPECT_EQ(text.push(id("<0xB8>")), "");
  EXPECT_EQ(text.push(id("</s>")), "");
  EXPECT_EQ(text.finish(), "\uFFFD\uFFFD");
}

}  // namespace
}  // namespace headrace::text
