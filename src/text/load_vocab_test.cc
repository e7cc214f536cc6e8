// Vocabularies as GGUF metadata carries them, against the libraries that made them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/golden_json.h"
#include "text/tokenizer.h"

namespace headrace::text {
namespace {

using nlohmann::json;

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size() && text[i] != '='; ++i) {
    bits = bits << 6 | static_cast<uint32_t>(digits.find(text[i]));
    if (i % 4 > 0) out.push_back(static_cast<char>(bits >> (6 - i % 4 * 2)));
  }
  return out;
}

VocabSpec spec_of(const json& row) {
  VocabSpec spec;
  spec.model = row.at("model");
  spec.pre = row.value("pre", "");
  spec.tokens = row.at("tokens").get<std::vector<std::string>>();
  spec.scores = row.value("scores", std::vector<float>());
  spec.types = row.value("types", std::vector<int32_t>());
  spec.merges = row.value("merges", std::vector<std::string>());
  spec.bos_id = row.value("bos_id", -1);
  spec.eos_id = row.value("eos_id", -1);
  spec.unk_id = row.value("unk_id", -1);
  spec.cls_id = row.value("cls_id", -1);
  spec.sep_id = row.value("sep_id", -1);
  spec.add_bos = row.value("add_bos", false);
  spec.add_eos = row.value("add_eos", false);
  spec.add_space_prefix = row.value("add_space_prefix", false);
  spec.remove_extra_whitespaces = row.value("remove_extra_whitespaces", false);
  spec.lowercase = row.value("lowercase", true);
  spec.strip_accents = row.value("strip_accents", true);
  spec.precompiled_charsmap = from_base64(row.value("charsmap", ""));
  return spec;
}

Result<std::unique_ptr<Tokenizer>> open(const json& row) {
  if (row.contains("proto")) return Tokenizer::from_sentencepiece(from_base64(row.at("proto")));
  return Tokenizer::from_vocab(spec_of(row));
}

json golden_rows() { return testing::golden_json("gguf_vocabularies.json"); }

VocabSpec golden_spec(std::string_view name) {
  for (const json& row : golden_rows()) {
    if (row.at(0) == name) return spec_of(row.at(2));
  }
  ADD_FAILURE() << "no golden " << name;
  return {};
}

// Golden: each vocabulary, and the ids and the text of the ids that the Python package that its row names
// gives for each text (null: the library writes unknown tokens in its own way).
TEST(Vocab, GivesTheIdsOfTheLibraryThatTheVocabularyIsFrom) {
  for (const json& row : golden_rows()) {
    const auto tokenizer = open(row.at(2));
    ASSERT_TRUE(tokenizer.has_value()) << row.at(0) << ": " << tokenizer.error().to_string();
    EXPECT_GE(row.at(3).size(), 10u);
    for (const json& want : row.at(3)) {
      SCOPED_TRACE(row.at(0).dump() + " " + want.at(0).dump());
      const auto got = (*tokenizer)->encode(want.at(0).get<std::string>());
      ASSERT_TRUE(got.has_value()) << got.error().to_string();
      EXPECT_EQ(got->ids, want.at(1).get<std::vector<int32_t>>());
      if (want.at(2).is_null()) continue;
      EXPECT_EQ((*tokenizer)->decode(got->ids, true), want.at(2).get<std::string>());
    }
  }
}

TEST(Vocab, SentencePieceControlTokensInUntrustedTextStayText) {
  const auto tokenizer = Tokenizer::from_vocab(golden_spec("sentencepiece_bytes"));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  const EncodeOptions plain{.add_special_tokens = false, .special = SpecialTokens::nowhere};
  const int32_t eos = (*tokenizer)->eos_id();
  const std::string text = "a</s>b <0x41>";
  const auto as_text = (*tokenizer)->encode(text, plain);
  ASSERT_TRUE(as_text.has_value());
  EXPECT_EQ(std::count(as_text->ids.begin(), as_text->ids.end(), eos), 0);
  EXPECT_EQ((*tokenizer)->decode(as_text->ids, true), text);
  const auto as_token = (*tokenizer)->encode(text);
  ASSERT_TRUE(as_token.has_value());
  EXPECT_EQ(std::count(as_token->ids.begin(), as_token->ids.end(), eos), 1);
}

// The limit is far above what it takes, sanitizers and all; a quadratic loop would take hours.
TEST(Vocab, OneWordOfAMegabyteTakesNoLongerThanItsLengthTimesALogarithm) {
  const auto tokenizer = Tokenizer::from_vocab(golden_spec("sentencepiece_bytes"));
  ASSERT_TRUE(tokenizer.has_value());
  for (const std::string_view unit : {"over", "the\xF0\x9F\x98\x80", "\xE2\x96\x81"}) {
    std::string word;
    while (word.size() < 1 << 20) word += unit;
    const auto start = std::chrono::steady_clock::now();
    const auto got = (*tokenizer)->encode(word, {.add_special_tokens = false});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << unit;
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->offsets.back().end, word.size());
  }
}

TEST(Vocab, RefusesEverySentencePieceFileThatIsCutOff) {
  for (const json& row : golden_rows()) {
    if (row.at(0) != "proto_bpe") continue;
    const std::string proto = from_base64(row.at(2).at("proto"));
    ASSERT_GT(proto.size(), 1000u);
    for (size_t size = 0; size < proto.size(); size += 7) {
      const auto tokenizer = Tokenizer::from_sentencepiece(std::string_view(proto).substr(0, size));
      EXPECT_EQ(tokenizer ? Code::ok : tokenizer.error().code(), Code::malformed) << size;
    }
    return;
  }
  FAIL() << "no golden proto_bpe";
}

TEST(Vocab, RefusesScoresThatDoNotFitTheTokens) {
  const auto message = [](auto change) {
    VocabSpec spec = golden_spec("sentencepiece_bytes");
    change(spec);
    const auto tokenizer = Tokenizer::from_vocab(std::move(spec));
    return tokenizer ? std::string("accepted") : tokenizer.error().to_string();
  };
  EXPECT_NE(message([](VocabSpec& s) { s.scores.pop_back(); }).find("want a score for each of"),
            std::string::npos);
  EXPECT_NE(message([](VocabSpec& s) { s.scores[300] = std::stof("nan"); }).find("score of token 300"),
            std::string::npos);
  EXPECT_NE(message([](VocabSpec& s) {
              s.tokens[300] = std::string(5000, 'x');
            }).find("token 300: want at most 1024"),
            std::string::npos);
  EXPECT_NE(message([](VocabSpec& s) { s.tokens[4] = std::string(5000, 'x'); }).find("malformed"),
            std::string::npos);
}

}  // namespace
}  // namespace headrace::text
