// Tokenizer::from_vocab: vocabularies as GGUF metadata carries them.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "text/bpe.h"
#include "text/named_split.h"
#include "text/pipeline_tokenizer.h"
#include "text/scored_bpe.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

namespace headrace::text {
namespace {

enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

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

int32_t type_of(const VocabSpec& spec, size_t id) {
  return spec.types.empty() ? kNormal : spec.types[id];
}

Result<std::unique_ptr<Vocabulary>> read_tokens(const VocabSpec& spec) {
  auto vocabulary = std::make_unique<Vocabulary>();
  size_t num_bytes = 0;
  for (const std::string& token : spec.tokens) num_bytes += token.size();
  vocabulary->reserve(spec.tokens.size(), num_bytes);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    HR_RETURN_IF_ERROR(vocabulary->add(spec.tokens[id], static_cast<int64_t>(id)));
  }
  return vocabulary;
}

Result<std::unique_ptr<Tokenizer>> load_byte_level(VocabSpec spec) {
  HR_ASSIGN_OR_RETURN(NamedSplit pre, split_named(spec.pre));
  PipelineTokenizer::Parts parts;
  HR_ASSIGN_OR_RETURN(auto vocabulary, read_tokens(spec));
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const int32_t type = type_of(spec, id);
    if (type != kControl && type != kUserDefined) continue;
    parts.added.push_back(
        {.id = static_cast<int32_t>(id), .content = spec.tokens[id], .special = type == kControl});
  }
  HR_ASSIGN_OR_RETURN(const auto merges, split_merges(spec.merges));
  HR_ASSIGN_OR_RETURN(
      parts.model, Bpe::make(*vocabulary, merges, {.byte_level = true, .ignore_merges = pre.ignore_merges}));
  parts.vocabulary = std::move(vocabulary);
  parts.pre_tokenizers = std::move(pre.steps);
  parts.decoders.push_back(decode_byte_level());
  parts.bos_id = spec.bos_id;
  parts.eos_id = spec.eos_id;
  parts.post = frame_of(spec);
  return PipelineTokenizer::make(std::move(parts));
}

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// What SentencePiece matches before its model sees the text: control tokens, the unknown token, and
// user-defined tokens, whose spaces the file may spell either way.
std::vector<AddedToken> sentencepiece_added(const VocabSpec& spec) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const int32_t type = type_of(spec, id);
    if (type != kControl && type != kUnknown && type != kUserDefined) continue;
    added.push_back({.id = static_cast<int32_t>(id),
                     .content = spec.tokens[id],
                     .normalized = type == kUserDefined,
                     .special = type != kUserDefined});
  }
  return added;
}

// NaN where the token takes no part in the model: it is matched before, stands for a byte, or is unused
// (byte-pair encoding joins across unused tokens).
Result<std::vector<float>> sentencepiece_scores(const VocabSpec& spec) {
  if (spec.scores.size() != spec.tokens.size()) {
    return error(Code::malformed,
                 "vocabulary: want a score for each of {} tokens (tokenizer.ggml.scores), got {}",
                 spec.tokens.size(), spec.scores.size());
  }
  std::vector<float> scores = spec.scores;
  for (size_t id = 0; id < scores.size(); ++id) {
    if (!std::isfinite(scores[id])) {
      return error(Code::malformed, "vocabulary: score of token {}: want a finite number, got {}", id,
                   scores[id]);
    }
    const int32_t type = type_of(spec, id);
    if (type != kNormal && !(type == kUnused && spec.model == "llama"))
      scores[id] = std::numeric_limits<float>::quiet_NaN();
  }
  return scores;
}

Result<NormalizerPtr> sentencepiece_normalizer(const VocabSpec& spec) {
  std::vector<NormalizerPtr> steps;
  if (!spec.precompiled_charsmap.empty()) {
    HR_ASSIGN_OR_RETURN(Charsmap map, Charsmap::parse(spec.precompiled_charsmap));
    steps.push_back(apply_charsmap(std::move(map), CharsmapRule::longest));
  }
  if (spec.remove_extra_whitespaces) steps.push_back(collapse_spaces());
  steps.push_back(replace_text(" ", std::string(kSpace)));
  return normalize_in_sequence(std::move(steps));
}

// How both kinds of SentencePiece vocabulary go back to text, and what frames an encoding.
Result<std::unique_ptr<Tokenizer>> finish_sentencepiece(PipelineTokenizer::Parts parts, const VocabSpec& spec,
                                                        bool byte_fallback) {
  parts.decoders.push_back(decode_replace(std::string(kSpace), " "));
  if (byte_fallback) parts.decoders.push_back(decode_byte_fallback());
  parts.decoders.push_back(decode_fuse());
  if (spec.add_space_prefix) parts.decoders.push_back(decode_strip(" ", 1, 0));
  parts.bos_id = spec.bos_id;
  parts.eos_id = spec.eos_id;
  parts.post = frame_of(spec);
  return PipelineTokenizer::make(std::move(parts));
}

// As llama.cpp reads such files: a space goes before every stretch of text that begins the text or follows a
// token matched before the model.
Result<std::unique_ptr<Tokenizer>> load_sentencepiece(VocabSpec spec) {
  PipelineTokenizer::Parts parts;
  HR_ASSIGN_OR_RETURN(auto vocabulary, read_tokens(spec));
  HR_ASSIGN_OR_RETURN(const std::vector<float> scores, sentencepiece_scores(spec));
  HR_ASSIGN_OR_RETURN(parts.model, ScoredBpe::make(*vocabulary, scores, spec.unk_id));
  parts.vocabulary = std::move(vocabulary);
  parts.added = sentencepiece_added(spec);
  HR_ASSIGN_OR_RETURN(parts.normalizer, sentencepiece_normalizer(spec));
  if (spec.add_space_prefix) parts.pre_tokenizers.push_back(add_prefix(std::string(kSpace)));
  return finish_sentencepiece(std::move(parts), spec, true);
}

// Unigram. The space of each word stays in front of it, so that words can be cut apart where no token goes
// over a space.
Result<std::unique_ptr<Tokenizer>> load_unigram(VocabSpec spec) {
  PipelineTokenizer::Parts parts;
  HR_ASSIGN_OR_RETURN(auto vocabulary, read_tokens(spec));
  HR_ASSIGN_OR_RETURN(const std::vector<float> scores, sentencepiece_scores(spec));
  HR_ASSIGN_OR_RETURN(parts.model,
                      Unigram::make(*vocabulary, {scores.begin(), scores.end()}, {.unk_id = spec.unk_id}));
  bool crosses_space = false;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    crosses_space |= !std::isnan(scores[id]) && spec.tokens[id].find(kSpace, 1) != std::string::npos;
  }
  HR_ASSIGN_OR_RETURN(parts.normalizer, sentencepiece_normalizer(spec));
  if (spec.add_space_prefix) parts.pre_tokenizers.push_back(add_prefix(std::string(kSpace)));
  if (!crosses_space) {
    parts.pre_tokenizers.push_back(
        split_by_string(std::string(kSpace), SplitBehavior::merged_with_next, false));
  }
  parts.vocabulary = std::move(vocabulary);
  parts.added = sentencepiece_added(spec);
  return finish_sentencepiece(std::move(parts), spec, false);
}

// WordPiece, as the files spell it: "\u2581word" begins a word, "ing" continues one. Back to "word" and
// "##ing".
Result<std::unique_ptr<Tokenizer>> load_wordpiece(VocabSpec spec) {
  PipelineTokenizer::Parts parts;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    std::string& token = spec.tokens[id];
    const int32_t type = type_of(spec, id);
    const bool bracketed = token.size() > 2 && token.starts_with('[') && token.ends_with(']');
    if (type == kControl || type == kUnknown || type == kUserDefined || bracketed) {
      parts.added.push_back(
          {.id = static_cast<int32_t>(id), .content = token, .special = type != kUserDefined});
    } else {
      token = token.starts_with(kSpace) ? token.substr(kSpace.size()) : "##" + token;
    }
  }
  HR_ASSIGN_OR_RETURN(auto vocabulary, read_tokens(spec));
  const auto id_or_named = [&](int32_t id, std::string_view name) {
    return id >= 0 ? id : vocabulary->find(name);
  };
  const int32_t cls = id_or_named(spec.cls_id >= 0 ? spec.cls_id : spec.bos_id, "[CLS]");
  const int32_t sep = id_or_named(spec.sep_id >= 0 ? spec.sep_id : spec.eos_id, "[SEP]");
  WordPiece::Options options;
  options.unk_id = id_or_named(spec.unk_id, "[UNK]");
  parts.model = std::make_unique<WordPiece>(*vocabulary, std::move(options));
  parts.vocabulary = std::move(vocabulary);
  parts.normalizer = bert_normalizer({.strip_accents = spec.strip_accents, .lowercase = spec.lowercase});
  parts.pre_tokenizers.push_back(split_as_bert());
  parts.decoders.push_back(decode_wordpiece("##", true));
  const PostProcessor::Item text{{}, 0}, second{{}, 1, 1};
  if (cls >= 0) parts.post.single.push_back({{cls}});
  parts.post.single.push_back(text);
  if (sep >= 0) parts.post.single.push_back({{sep}});
  parts.post.pair = parts.post.single;
  parts.post.pair.push_back(second);
  if (sep >= 0) parts.post.pair.push_back({{sep}, -1, 1});
  parts.bos_id = cls;
  parts.eos_id = sep;
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
                                 std::pair("unknown", spec.unk_id), std::pair("padding", spec.pad_id),
                                 std::pair("cls", spec.cls_id), std::pair("separator", spec.sep_id)}) {
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
  if (spec.model == "llama") return load_sentencepiece(std::move(spec));
  if (spec.model == "t5") return load_unigram(std::move(spec));
  if (spec.model == "bert") return load_wordpiece(std::move(spec));
  return error(Code::unsupported,
               "vocabulary: model \"{}\" (tokenizer.ggml.model): want gpt2, llama, bert or t5", spec.model);
}

}  // namespace headrace::text
