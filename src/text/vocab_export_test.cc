// A tokenizer.json said as a GGUF vocabulary, on small ones put together by hand in the shapes of published files.
#include "text/vocab_export.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "text/byte_alphabet.h"

namespace headrace::text {
namespace {

using nlohmann::json;

json added(int id, const std::string& content, bool special) {
  return {{"id", id}, {"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

json template_of(const std::string& before) {
  return {{"type", "TemplateProcessing"},
          {"single", {{{"SpecialToken", {{"id", before}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
          {"pair", json::array()},
          {"special_tokens", {{before, {{"id", before}, {"ids", {0}}, {"tokens", {before}}}}}}};
}

// Id 0 is <s>, 1 is </s>, 2 to 257 the bytes, then "th" and "the", <tool> and a gap.
json byte_level() {
  json vocab = {{"<s>", 0}, {"</s>", 1}};
  for (int byte = 0; byte < 256; ++byte) vocab[spell_bytes(std::string(1, static_cast<char>(byte)))] = 2 + byte;
  vocab["th"] = 258;
  vocab["the"] = 259;
  return {{"version", "1.0"},
          {"added_tokens", {added(0, "<s>", true), added(1, "</s>", true), added(260, "<tool>", false)}},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Digits"}, {"individual_digits", true}},
              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}}}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"t h", "th e"}}}}};
}

// <s>, <unk>, 256 bytes, "\u2581", "t", "h", "e", a run of two and of three spaces that stand for whole tokens, "th", "he", "the".
json sentencepiece() {
  json vocab = {{"<s>", 0}, {"<unk>", 1}};
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = 2 + byte;
  int id = 258;
  for (const char* token : {"\u2581", "t", "h", "e", "\u2581\u2581", "\u2581\u2581\u2581", "th", "he", "the", "\u2581the"}) vocab[token] = id++;
  json merges = json::array();
  for (const auto& [left, right] : std::vector<std::pair<const char*, const char*>>{
           {"\u2581\u2581", "\u2581"}, {"\u2581", "\u2581"}, {"\u2581", "\u2581\u2581"}, {"t", "h"}, {"h", "e"}, {"t", "he"},
           {"th", "e"}, {"\u2581", "the"}}) {
    merges.push_back(json::array({left, right}));
  }
  return {{"version", "1.0"},
          {"added_tokens", {added(0, "<s>", true), added(1, "<unk>", true)}},
          {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", template_of("<s>")},
          {"decoder", nullptr},
          {"model",
           {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}, {"unk_token", "<unk>"}, {"fuse_unk", true}, {"byte_fallback", true}}}};
}

struct Exported {
  std::unique_ptr<Tokenizer> original;
  Result<VocabSpec> spec;
};
Exported exported(const json& file, const ExportIds& ids) {
  const std::string text = file.dump();
  auto original = Tokenizer::from_tokenizer_json(text);
  EXPECT_TRUE(original) << original.error().message();
  auto spec = export_vocab(text, **original, ids);
  return {*std::move(original), std::move(spec)};
}
std::string refusal(const json& file) {
  const Exported out = exported(file, {.num_tokens = 268, .bos_id = 0, .eos_id = 1});
  return out.spec ? "" : out.spec.error().message();
}

void expect_same_ids(const Exported& out) {
  ASSERT_TRUE(out.spec) << out.spec.error().message();
  const auto copy = Tokenizer::from_vocab(*out.spec);
  ASSERT_TRUE(copy) << copy.error().message();
  for (const char* text : {"the 42 the\n\n  the", "", "   a    the", "na\u00EFve <tool> <s>the", "hththe"}) {
    EXPECT_EQ((*copy)->encode(text)->ids, out.original->encode(text)->ids) << text;
  }
}

TEST(VocabExport, AByteLevelVocabularyIsSaidByTheNameOfItsPreTokenizer) {
  const Exported out = exported(byte_level(), {.num_tokens = 264, .bos_id = 0, .eos_id = 1, .pad_id = 1});
  expect_same_ids(out);
  EXPECT_EQ(out.spec->model, "gpt2");
  EXPECT_EQ(out.spec->pre, "smollm");
  EXPECT_EQ(out.spec->merges, (std::vector<std::string>{"t h", "th e"}));
  EXPECT_FALSE(out.spec->add_bos);
  ASSERT_EQ(out.spec->tokens.size(), 264u);
  EXPECT_EQ(out.spec->tokens[259], "the");
  EXPECT_EQ(out.spec->tokens[263], "[PAD263]");
  EXPECT_EQ(out.spec->types[0], 3);
  EXPECT_EQ(out.spec->types[259], 1);
  EXPECT_EQ(out.spec->types[260], 4);
  EXPECT_EQ(out.spec->types[263], 5);
}

TEST(VocabExport, MergesOfSentencePieceBecomeScores) {
  const Exported out = exported(sentencepiece(), {.num_tokens = 268, .bos_id = 0});
  expect_same_ids(out);
  EXPECT_EQ(out.spec->model, "llama");
  EXPECT_TRUE(out.spec->add_bos);
  EXPECT_FALSE(out.spec->add_space_prefix);
  EXPECT_EQ(out.spec->unk_id, 1);
  EXPECT_EQ(out.spec->types[1], 2);
  EXPECT_EQ(out.spec->types[2], 6);
  // Its merges lie apart: the model's training kept it whole. It is found in the text, which has plain spaces.
  EXPECT_EQ(out.spec->types[263], 4);
  EXPECT_EQ(out.spec->tokens[263], "   ");
  const auto score = [&](int id) { return out.spec->scores[id]; };
  EXPECT_GT(score(264), score(265));
  EXPECT_GT(score(265), score(266));
  EXPECT_GT(score(266), score(267));
}

TEST(VocabExport, AVocabularyWhoseWaysToATokenAreMissingIsNotSentencePieces) {
  json file = sentencepiece();
  file["model"]["merges"].erase(5);  // "t" "he"
  EXPECT_NE(refusal(file).find("no merge of \"t\" and \"he\""), std::string::npos) << refusal(file);
}

TEST(VocabExport, WhatGgufCannotSayIsNamed) {
  const auto changed = [](auto change) {
    json file = byte_level();
    change(file);
    return refusal(file);
  };
  EXPECT_NE(changed([](json& file) { file["normalizer"] = {{"type", "Lowercase"}}; }).find("normalizer Lowercase"), std::string::npos);
  EXPECT_NE(changed([](json& file) {
              file["pre_tokenizer"]["pretokenizers"][0] = {
                  {"type", "Split"}, {"pattern", {{"Regex", "x+"}}}, {"behavior", "Isolated"}, {"invert", false}};
            }).find("none of those that GGUF files have names for (tokenizer.ggml.pre): \"x+\""),
            std::string::npos);
  EXPECT_NE(changed([](json& file) { file["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }).find("pre-tokenizer"),
            std::string::npos);
  EXPECT_NE(changed([](json& file) { file["model"]["end_of_word_suffix"] = "</w>"; }).find("prefix or suffix"), std::string::npos);
  EXPECT_NE(changed([](json& file) {
              file["post_processor"] = template_of("<s>");
              file["post_processor"]["special_tokens"]["<s>"]["ids"] = {260};
            }).find("post-processor"),
            std::string::npos);
}

}  // namespace
}  // namespace headrace::text
