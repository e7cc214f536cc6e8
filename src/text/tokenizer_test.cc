#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/golden_json.h"
#include "text/byte_alphabet.h"

namespace headrace::text {
namespace {

// A byte-level vocabulary: 256 bytes in the order of their values, then what the merges make, then special
// tokens.
VocabSpec small_vocabulary() {
  VocabSpec spec{.model = "gpt2", .pre = "smollm"};
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    spec.tokens.push_back(spell_bytes(std::string_view(&raw, 1)));
  }
  for (const auto& [left, right] :
       {std::pair("h", "e"), {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {"Ġ", "w"}, {"a", "a"}, {"aa", "aa"}}) {
    spec.merges.push_back(std::string(left) + " " + right);
    spec.tokens.push_back(std::string(left) + right);
  }
  spec.types.assign(spec.tokens.size(), 1);
  for (const char* special : {"<s>", "</s>"}) {
    spec.tokens.push_back(special);
    spec.types.push_back(3);
  }
  spec.bos_id = spec.tokens.size() - 2;
  spec.eos_id = spec.tokens.size() - 1;
  return spec;
}

constexpr int32_t kHello = 256 + 3, kSpaceW = 256 + 4, kAaaa = 256 + 6, kBos = 256 + 7, kEos = 256 + 8;

std::unique_ptr<Tokenizer> make(VocabSpec spec) {
  auto tokenizer = Tokenizer::from_vocab(std::move(spec));
  EXPECT_TRUE(tokenizer.has_value()) << (tokenizer ? "" : tokenizer.error().to_string());
  return *std::move(tokenizer);
}

std::vector<int32_t> ids(const Tokenizer& tokenizer, std::string_view text,
                         const EncodeOptions& options = {}) {
  auto encoding = tokenizer.encode(text, options);
  EXPECT_TRUE(encoding.has_value());
  EXPECT_EQ(encoding->ids.size(), encoding->offsets.size());
  return encoding->ids;
}

TEST(Tokenizer, JoinsThePairOfLowestRankFirst) {
  const auto tokenizer = make(small_vocabulary());
  EXPECT_EQ(ids(*tokenizer, "hello w"), (std::vector<int32_t>{kHello, kSpaceW}));
  EXPECT_EQ(ids(*tokenizer, "12"), (std::vector<int32_t>{'1', '2'}));
}

TEST(Tokenizer, GivesLongAndShortWordsTheSameTokens) {
  const auto tokenizer = make(small_vocabulary());
  for (const size_t length : {1, 4, 47, 48, 49, 50, 1001}) {
    std::vector<int32_t> want(length / 4, kAaaa);
    for (size_t i = 0; i < length % 4 / 2; ++i) want.push_back(256 + 5);
    if (length % 2) want.push_back('a');
    EXPECT_EQ(ids(*tokenizer, std::string(length, 'a')), want);
  }
}

TEST(Tokenizer, PutsSpecialTokensAroundTheTextWhenAsked) {
  VocabSpec spec = small_vocabulary();
  spec.add_bos = spec.add_eos = true;
  const auto tokenizer = make(std::move(spec));
  EXPECT_EQ(ids(*tokenizer, "hello"), (std::vector<int32_t>{kBos, kHello, kEos}));
  EXPECT_EQ(ids(*tokenizer, "hello", {.add_special_tokens = false}), (std::vector<int32_t>{kHello}));
  EXPECT_EQ(ids(*tokenizer, ""), (std::vector<int32_t>{kBos, kEos}));
}

TEST(Tokenizer, RecognisesSpecialTokensOnlyWhereTheOptionsLetIt) {
  const auto tokenizer = make(small_vocabulary());
  const std::string text = "<s></s>hello<s>";
  const std::vector<int32_t> spelled = {'<', 's', '>'};
  EXPECT_EQ(ids(*tokenizer, text), (std::vector<int32_t>{kBos, kEos, kHello, kBos}));
  const auto plain = ids(*tokenizer, text, {.special = SpecialTokens::nowhere});
  EXPECT_EQ(std::count(plain.begin(), plain.end(), kBos), 0);
  EXPECT_EQ(tokenizer->decode(plain, true), text);
  const ByteRange trusted[] = {{3, 7}};
  EXPECT_EQ(ids(*tokenizer, text, {.special = SpecialTokens::in_trusted, .trusted = trusted}),
            (std::vector<int32_t>{'<', 's', '>', kEos, kHello, '<', 's', '>'}));
}

TEST(Tokenizer, TakesNoSpecialTokenThatCrossesTheBorderOfATrustedRange) {
  const auto tokenizer = make(small_vocabulary());
  const ByteRange trusted[] = {{1, 3}, {3, 6}};
  // "<" is the user's, "s>" the template's, "<s>" wholly the template's.
  EXPECT_EQ(ids(*tokenizer, "<s><s>", {.special = SpecialTokens::in_trusted, .trusted = trusted}),
            (std::vector<int32_t>{'<', 's', '>', kBos}));
}

TEST(Tokenizer, DecodesBytesOfCutCharactersTogether) {
  const auto tokenizer = make(small_vocabulary());
  const std::vector<int32_t> smile = {0xF0, 0x9F, 0x98, 0x80};
  EXPECT_EQ(tokenizer->decode(smile, true), "\xF0\x9F\x98\x80");
  EXPECT_EQ(tokenizer->token_bytes(0x9F), "\x9F");
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{0xF0, 'a', kBos, -1, 1 << 30}, true),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(tokenizer->token_bytes(kBos), "");
  EXPECT_EQ(tokenizer->token_text(kSpaceW), "Ġw");
}

TEST(Tokenizer, OffsetsCoverWholeCharactersOfTheSource) {
  const auto tokenizer = make(small_vocabulary());
  const auto encoding = tokenizer->encode("h\xE4\xB8\x96\xFFo");
  ASSERT_TRUE(encoding.has_value());
  EXPECT_EQ(encoding->ids, (std::vector<int32_t>{'h', 0xE4, 0xB8, 0x96, 0xEF, 0xBF, 0xBD, 'o'}));
  EXPECT_EQ(encoding->offsets,
            (std::vector<ByteRange>{{0, 1}, {1, 4}, {1, 4}, {1, 4}, {4, 5}, {4, 5}, {4, 5}, {5, 6}}));
}

TEST(Tokenizer, RefusesVocabulariesThatContradictThemselves) {
  const auto message = [](auto change) {
    VocabSpec spec = small_vocabulary();
    change(spec);
    const auto tokenizer = Tokenizer::from_vocab(std::move(spec));
    return tokenizer ? std::string("accepted") : tokenizer.error().to_string();
  };
  EXPECT_EQ(message([](VocabSpec& s) { s.tokens[1] = s.tokens[0]; }).substr(0, 9), "malformed");
  EXPECT_EQ(message([](VocabSpec& s) { s.merges.push_back("x y"); }).substr(0, 9), "malformed");
  EXPECT_EQ(message([](VocabSpec& s) { s.merges.push_back("xy"); }).substr(0, 9), "malformed");
  EXPECT_EQ(message([](VocabSpec& s) { s.types.pop_back(); }).substr(0, 9), "malformed");
  EXPECT_EQ(message([](VocabSpec& s) { s.eos_id = 100'000; }).substr(0, 9), "malformed");
  EXPECT_EQ(message([](VocabSpec& s) { s.tokens.clear(); }).substr(0, 9), "malformed");
  EXPECT_EQ(message([](VocabSpec& s) { s.pre = "nobody"; }).substr(0, 11), "unsupported");
  EXPECT_EQ(message([](VocabSpec& s) { s.model = "nothing"; }).substr(0, 11), "unsupported");
}

TEST(TokenizerJson, ReportsWhatIsWrongWithTheFile) {
  const auto code = [](std::string_view text) {
    const auto tokenizer = Tokenizer::from_tokenizer_json(text);
    return tokenizer ? Code::ok : tokenizer.error().code();
  };
  EXPECT_EQ(code(""), Code::malformed);
  EXPECT_EQ(code("[]"), Code::malformed);
  EXPECT_EQ(code("{}"), Code::malformed);
  EXPECT_EQ(
      code(
          R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}})"),
      Code::malformed);
  EXPECT_EQ(code(R"({"model": {"type": "Nonsense", "vocab": {}}, "decoder": null})"), Code::unsupported);
  // Ids that are no ids.
  for (const char* id : {"6.6e55", "1.5", "4294967296", "\"1\""}) {
    EXPECT_EQ(code(fmt::format(R"({{"model": {{"type": "Unigram", "unk_id": {}, "vocab": [["a", 0]]}}}})", id)), Code::malformed);
    EXPECT_EQ(code(fmt::format(R"({{"model": {{"type": "WordLevel", "vocab": {{"a": 0}}}}, "added_tokens": )"
                               R"([{{"id": {}, "content": "b"}}]}})",
                               id)),
              Code::malformed);
  }
  for (const char* rule : {R"("truncation": {"max_length": 1e30})", R"("truncation": {"max_length": 8, "stride": -1})",
                           R"("padding": {"strategy": "BatchLongest", "pad_id": 1e30})",
                           R"("padding": {"strategy": {"Fixed": 1e30}})",
                           R"("pre_tokenizer": {"type": "FixedLength", "length": -2.5})"}) {
    EXPECT_EQ(code(fmt::format(R"({{"model": {{"type": "WordLevel", "vocab": {{"a": 0}}}}, {}}})", rule)), Code::malformed)
        << rule;
  }
  // A frame for one text that asks for a second one.
  for (const char* text : {"B", "@"}) {
    EXPECT_EQ(code(fmt::format(
                  R"({{"model": {{"type": "WordLevel", "vocab": {{"a": 0}}}}, "post_processor": {{"type": )"
                  R"("TemplateProcessing", "single": [{{"Sequence": {{"id": "{}"}}}}], "pair": []}}}})",
                  text)),
              Code::malformed);
  }
}

// Golden: each tokenizer and what the Python package that the file names makes of each text, null where it refuses. Offsets of
// ids that the post-processor or padding adds are null.
TEST(TokenizerJson, DoesWhatTheLibraryDoesWithEachComponent) {
  const auto golden = testing::golden_json("tokenizer_components.json");
  ASSERT_GE(golden.at("rows").size(), 27u);
  for (const auto& row : golden.at("rows")) {
    const auto tokenizer = Tokenizer::from_tokenizer_json(row.at(1).dump());
    ASSERT_TRUE(tokenizer.has_value()) << row.at(0) << ": " << tokenizer.error().to_string();
    for (const auto& want : row.at(2)) {
      SCOPED_TRACE(row.at(0).dump() + " " + want.at(0).dump() + " " + want.at(1).dump());
      const auto text = want.at(0).get<std::string>();
      const auto pair = want.at(1).is_null() ? std::string() : want.at(1).get<std::string>();
      EncodeOptions options{.limits = true};
      if (!want.at(1).is_null()) options.pair = pair;
      const auto got = (*tokenizer)->encode(text, options);
      if (want.at(2).is_null()) {
        EXPECT_FALSE(got.has_value());
        continue;
      }
      ASSERT_TRUE(got.has_value()) << got.error().to_string();
      EXPECT_EQ(got->ids, want.at(2).get<std::vector<int32_t>>());
      nlohmann::json offsets = nlohmann::json::array();
      for (size_t i = 0; i < got->ids.size(); ++i) {
        const bool added = i < want.at(3).size() && want.at(3).at(i).is_null();
        offsets.push_back(added ? nlohmann::json()
                                : nlohmann::json{got->offsets[i].begin, got->offsets[i].end});
      }
      EXPECT_EQ(offsets, want.at(3));
      auto types = got->type_ids;
      types.resize(got->ids.size());
      EXPECT_EQ(types, want.at(4).get<std::vector<uint8_t>>());
      EXPECT_EQ((*tokenizer)->decode(got->ids, false), want.at(5).get<std::string>());
    }
  }
}

}  // namespace
}  // namespace headrace::text
