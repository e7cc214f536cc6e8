// Tokenizer::from_vocab: vocabularies as GGUF metadata carries them.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "text/bpe.h"
#include "text/pipeline_tokenizer.h"

namespace headrace::text {
namespace {

// How each named vocabulary cuts its text, from its published tokenizer.json.
struct PreName {
  std::string_view name;
  SplitPattern pattern;
  bool digits_apart = false;  // a Digits(individual_digits) step comes first
  bool ignore_merges = false;
};

using enum SplitPattern;
constexpr PreName kPreNames[] = {
    {"", gpt2},
    {"default", gpt2},
    {"gpt-2", gpt2},
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
};

enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

Result<const PreName*> find_pre(std::string_view name) {
  const auto* found = std::find_if(std::begin(kPreNames), std::end(kPreNames),
                                   [&](const PreName& row) { return row.name == name; });
  if (found == std::end(kPreNames)) {
    return error(Code::unsupported, "vocabulary: pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not known",
                 name);
  }
  return found;
}

Result<std::vector<std::pair<std::string_view, std::string_view>>> split_merges(
    const std::vector<std::string>& merges) {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(merges.size());
  for (const std::string_view merge : merges) {
    // A token may begin with a space only in vocabularies that are not spelled in the byte alphabet.
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return error(Code::malformed, "vocabulary: merge {}: want \"left right\", got \"{}\"", pairs.size(),
                   merge);
    }
    pairs.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return pairs;
}

PostProcessor frame_of(const VocabSpec& spec) {
  PostProcessor post;
  if (spec.add_bos && spec.bos_id >= 0) post.single.push_back({.ids = {spec.bos_id}});
  post.single.push_back({.ids = {}, .text = 0});
  if (spec.add_eos && spec.eos_id >= 0) post.single.push_back({.ids = {spec.eos_id}});
  return post;
}

Result<std::unique_ptr<Tokenizer>> load_byte_level(VocabSpec spec) {
  HR_ASSIGN_OR_RETURN(const PreName* pre, find_pre(spec.pre));
  PipelineTokenizer::Parts parts;
  auto vocabulary = std::make_unique<Vocabulary>();
  size_t num_bytes = 0;
  for (const std::string& token : spec.tokens) num_bytes += token.size();
  vocabulary->reserve(spec.tokens.size(), num_bytes);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    HR_RETURN_IF_ERROR(vocabulary->add(spec.tokens[id], static_cast<int64_t>(id)));
    const int32_t type = spec.types.empty() ? kNormal : spec.types[id];
    if (type != kControl && type != kUserDefined) continue;
    parts.added.push_back(
        {.id = static_cast<int32_t>(id), .content = spec.tokens[id], .special = type == kControl});
  }
  HR_ASSIGN_OR_RETURN(const auto merges, split_merges(spec.merges));
  HR_ASSIGN_OR_RETURN(
      parts.model, Bpe::make(*vocabulary, merges, {.byte_level = true, .ignore_merges = pre->ignore_merges}));
  parts.vocabulary = std::move(vocabulary);
  if (pre->digits_apart) parts.pre_tokenizers.push_back(split_digits(true));
  parts.pre_tokenizers.push_back(split_by_pattern(pre->pattern));
  parts.decoders.push_back(decode_byte_level());
  parts.bos_id = spec.bos_id;
  parts.eos_id = spec.eos_id;
  parts.post = frame_of(spec);
  return PipelineTokenizer::make(std::move(parts));
}

Status check(const VocabSpec& spec) {
  const auto num_tokens = static_cast<int64_t>(spec.tokens.size());
  if (num_tokens == 0) return make_status(Code::malformed, "vocabulary: there are no tokens");
  if (!spec.types.empty() && spec.types.size() != spec.tokens.size()) {
    return make_status(Code::malformed, "vocabulary: want a type for each of {} tokens, got {}", num_tokens,
                       spec.types.size());
  }
  for (const auto& [name, id] : {std::pair("bos", spec.bos_id), std::pair("eos", spec.eos_id),
                                 std::pair("unknown", spec.unk_id), std::pair("padding", spec.pad_id)}) {
    if (id < -1 || id >= num_tokens) {
      return make_status(Code::malformed, "vocabulary: {} token: want an id below {}, got {}", name,
                         num_tokens, id);
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_vocab(VocabSpec spec) {
  HR_RETURN_IF_ERROR(check(spec));
  if (spec.model == "gpt2") return load_byte_level(std::move(spec));
  return error(Code::unsupported, "vocabulary: model \"{}\" (tokenizer.ggml.model): want gpt2", spec.model);
}

}  // namespace headrace::text
