#include "text/named_split.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace headrace::text {
namespace {

// How each named vocabulary cuts its text, from its published tokenizer.json: first the regular expressions,
// one after the other, each keeping its matches and what lies between them; then the digits; then the
// pattern.
struct NamedRow {
  std::string_view name;
  std::optional<SplitPattern> pattern;
  bool digits_apart = false;  // a Digits(individual_digits) step comes before the pattern
  bool ignore_merges = false;
  std::span<const std::string_view> regexes = {};
};

using Regexes = std::string_view[];
constexpr Regexes kDeepseekLlm = {
    R"([\r\n])",
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)",
    R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)",
    // `\s+$`, without a look at each place of a long run.
    R"((?<!\s)\s++$)", R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N}+)"};
constexpr Regexes kDeepseekCoder = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                    R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N})"};
constexpr Regexes kDeepseekV3 = {
    R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Regexes kThreeDigits = {R"([\p{P}\$\+<=>\^~\|`]+)",
                                  R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
                                  R"([0-9][0-9][0-9])"};
constexpr Regexes kBloom = {R"( ?[^(\s|.,!?…。，、।۔،)]+)"};
constexpr Regexes kViking = {R"( ?[^(\s|.,!?…。，、।۔،)]+)", R"(\p{N})"};
constexpr Regexes kGroupsOfThree = {R"(\p{N}{1,3})"};
constexpr Regexes kLines = {R"([^\n]+|[\n]+)"};
constexpr Regexes kSeedCoder = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Regexes kBailing = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr Regexes kJais2 = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"};

using enum SplitPattern;
constexpr NamedRow kRows[] = {
    {"gpt-2", gpt2},
    {"default", gpt2},
    {"phi-2", gpt2},
    {"mpt", gpt2},
    {"olmo", gpt2},
    {"jais", gpt2},
    {"roberta-bpe", gpt2},
    {"gigachat", gpt2},
    {"jina-es", gpt2},
    {"jina-de", gpt2},
    {"jina-v1-en", gpt2},
    {"jina-v2-code", gpt2},
    {"modern-bert", gpt2},
    {"exaone4", gpt2},
    {"smollm", gpt2, true},
    {"starcoder", gpt2, true},
    {"refact", gpt2, true},
    {"command-r", gpt2, true},
    {"codeshell", gpt2, true},
    {"exaone", gpt2, true},
    {"minerva-7b", gpt2, true},
    {"llama3", llama3, false, true},
    {"llama-v3", llama3, false, true},
    {"llama-bpe", llama3, false, true},
    {"falcon3", llama3, false, true},
    {"pixtral", llama3, false, true},
    {"dbrx", llama3},
    {"smaug-bpe", llama3},
    {"chatglm-bpe", llama3},
    {"glm4", llama3},
    {"qwen2", qwen2},
    {"deepseek-r1-qwen", qwen2},
    {"stablelm2", qwen2},
    {"megrez", qwen2},
    {"qwen35", qwen35},
    {"gpt-4o", o200k},
    {"llama4", o200k},
    {"tekken", tekken, false, true},
    {"jina-v2-es", gpt2},
    {"jina-v2-de", gpt2},
    {"a.x-4.0", gpt2},
    {"mellum", gpt2},
    {"trillion", gpt2},
    {"granite-docling", gpt2},
    {"mellum2", gpt2, true},
    {"falcon-h1", llama3, false, true},
    {"midm-2.0", llama3, false, true},
    {"lfm2", llama3, false, true},
    {"jina-v5-nano", llama3, false, true},
    {"glm5", llama3},
    {"kormo", qwen2},
    {"f2llmv2", qwen2},
    {"hunyuan", qwen2},
    {"solar-open", qwen2},
    {"grok-2", qwen2},
    {"kanana2", o200k},
    {"talkie", o200k},
    {"minimax-m2", o200k},
    {"deepseek-llm", std::nullopt, false, false, kDeepseekLlm},
    {"deepseek-coder", std::nullopt, false, false, kDeepseekCoder},
    {"deepseek-v3", std::nullopt, false, false, kDeepseekV3},
    {"hunyuan-dense", std::nullopt, false, false, kDeepseekV3},
    {"joyai-llm", std::nullopt, false, false, kDeepseekV3},
    {"falcon", std::nullopt, false, false, kThreeDigits},
    {"bloom", std::nullopt, false, false, kBloom},
    {"poro-chat", std::nullopt, false, false, kBloom},
    {"gpt3-finnish", std::nullopt, false, false, kBloom},
    {"viking", std::nullopt, false, false, kViking},
    {"minicpm5", llama3, false, true, kGroupsOfThree},
    {"laguna", qwen2, false, false, kLines},
    {"seed-coder", std::nullopt, false, false, kSeedCoder},
    {"bailingmoe", std::nullopt, false, false, kBailing},
    {"bailingmoe2", std::nullopt, false, false, kBailing},
    {"llada-moe", std::nullopt, false, false, kBailing},
    {"jais-2", std::nullopt, false, false, kJais2},
};

std::string known_names() {
  std::string names;
  for (const NamedRow& row : kRows) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace

Result<NamedSplit> split_named(std::string_view name) {
  if (name.empty()) name = "default";
  const auto* row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const NamedRow& r) { return r.name == name; });
  if (row == std::end(kRows)) {
    return error(Code::unsupported,
                 "vocabulary: pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not known; want one of {}", name,
                 known_names());
  }
  NamedSplit split{{}, row->ignore_merges};
  for (const std::string_view regex : row->regexes) {
    HR_ASSIGN_OR_RETURN(PreTokenizerPtr step, split_by_regex(regex, SplitBehavior::isolated, false));
    split.steps.push_back(std::move(step));
  }
  if (row->digits_apart) split.steps.push_back(split_digits(true));
  if (row->pattern) split.steps.push_back(split_by_pattern(*row->pattern));
  return split;
}

std::string_view find_split_name(const SplitSteps& steps) {
  for (const NamedRow& row : kRows) {
    if (row.pattern == steps.pattern && row.digits_apart == steps.digits_apart && row.ignore_merges == steps.ignore_merges &&
        std::ranges::equal(row.regexes, steps.regexes)) {
      return row.name;
    }
  }
  return {};
}

}  // namespace headrace::text
