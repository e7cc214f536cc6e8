#pragma once
// The one Tokenizer: added tokens, a normalizer, pre-tokenizers, a model, a post-processor and a decoder, put
// together by load_tokenizer_json.cc and load_vocab.cc.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/limits.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace headrace::text {

class PipelineTokenizer final : public Tokenizer {
 public:
  struct Parts {
    std::unique_ptr<const Vocabulary> vocabulary;  // the model's; added tokens may be outside it
    std::unique_ptr<const Model> model;
    std::vector<AddedToken> added;
    NormalizerPtr normalizer;  // may be null
    PreTokenizers pre_tokenizers;
    PostProcessor post;
    std::optional<Truncation> truncation;
    std::optional<Padding> padding;
    std::vector<DecoderPtr> decoders;  // empty: tokens with spaces between them
    int32_t bos_id = -1;
    int32_t eos_id = -1;
  };
  static Result<std::unique_ptr<Tokenizer>> make(Parts parts);

  Result<Encoding> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  std::string token_bytes(int32_t id) const override;
  std::string token_text(int32_t id) const override;
  bool is_special(int32_t id) const override;
  int32_t token_id(std::string_view token) const override;
  int32_t vocab_size() const override { return vocab_size_; }
  int32_t bos_id() const override { return parts_.bos_id; }
  int32_t eos_id() const override { return parts_.eos_id; }

 private:
  struct Run;  // the encoding of one text

  Status encode_text(std::string_view text, const EncodeOptions& options, Encoding& out) const;
  void append(const PostProcessor::Item& item, const Encoding* text, Encoding& out) const;
  void trim_offsets(std::string_view text, std::span<const size_t> matched, Encoding& encoding) const;

  explicit PipelineTokenizer(Parts parts) : parts_(std::move(parts)) {}
  Status index_added_tokens();

  Parts parts_;
  TokenFinder raw_finder_;         // tokens looked for in the source text
  TokenFinder normalized_finder_;  // tokens looked for after normalization
  StringTable added_ids_;
  std::vector<int32_t> added_of_;  // by id: index in parts_.added, or -1
  int32_t vocab_size_ = 0;
};

}  // namespace headrace::text
