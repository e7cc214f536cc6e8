#pragma once
// Text to token ids and back, equal to the Hugging Face `tokenizers` library. Immutable after loading, and safe
// to use from any number of threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace headrace::text {

// Bytes [begin, end) of the source text.
struct ByteRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<ByteRange> offsets;  // one per id; {0, 0} for ids that the post-processor or padding added
  std::vector<uint8_t> type_ids;   // one per id, the segment it belongs to; empty: all 0
};

// Where special tokens written in the text become control ids.
enum class SpecialTokens : uint8_t {
  everywhere,   // as `tokenizers` does: `headrace tokenize`, raw completions
  nowhere,      // always plain text
  in_trusted,   // only inside EncodeOptions::trusted: what the chat template itself wrote
};

struct EncodeOptions {
  bool add_special_tokens = true;  // run the post-processor (BOS and the like)
  SpecialTokens special = SpecialTokens::everywhere;
  std::span<const ByteRange> trusted = {};  // sorted, disjoint
  // Cut and fill up as the file says (tokenizer.json's truncation and padding). Not for prompts: the engine refuses those
  // that are too long.
  bool limits = false;
  // The second text of a pair (cross-encoders). The offsets of its ids are positions in it.
  std::optional<std::string_view> pair = std::nullopt;
};

// The vocabulary as model files outside Hugging Face's format carry it (GGUF metadata keys in brackets).
struct VocabSpec {
  std::string model;                // [tokenizer.ggml.model] gpt2, llama, bert, t5
  std::string pre;                  // [tokenizer.ggml.pre] name of the pre-tokenizer, for gpt2
  std::vector<std::string> tokens;  // [tokenizer.ggml.tokens]
  std::vector<float> scores;        // [tokenizer.ggml.scores] may be empty
  std::vector<int32_t> types;       // [tokenizer.ggml.token_type] 1 normal 2 unknown 3 control 4 user 5 unused 6 byte
  std::vector<std::string> merges;  // [tokenizer.ggml.merges] "left right"
  int32_t bos_id = -1, eos_id = -1, unk_id = -1, pad_id = -1;
  int32_t cls_id = -1, sep_id = -1;  // [cls_token_id, seperator_token_id] of bert
  bool add_bos = false, add_eos = false, add_space_prefix = false;
  bool remove_extra_whitespaces = false;           // of t5 and SentencePiece's own files
  bool lowercase = true, strip_accents = true;     // [normalizer.lowercase, normalizer.strip_accents] of bert
  std::string precompiled_charsmap;                // [precompiled_charsmap] of t5; may be empty
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Errors: malformed (not JSON, missing or contradictory parts), unsupported (a component that is not
  // implemented, named). Time and memory are linear in the file.
  static Result<std::unique_ptr<Tokenizer>> from_tokenizer_json(std::string_view json);
  static Result<std::unique_ptr<Tokenizer>> from_vocab(VocabSpec spec);
  // The bytes of a SentencePiece model file. It adds neither BOS nor EOS: the file does not say whether to.
  static Result<std::unique_ptr<Tokenizer>> from_sentencepiece(std::string_view model);

  // `text` may hold any bytes; ill-formed UTF-8 is read as U+FFFD as Rust's lossy decoding does.
  // Time is linear in the text up to a logarithm. Errors: resource_exhausted (text over 1 GiB), invalid_argument (`limits`
  // that cannot be kept), malformed (a text that the model has no token for and no unknown token to stand in).
  virtual Result<Encoding> encode(std::string_view text, const EncodeOptions& options = {}) const = 0;

  // The whole text of `ids`, as the library's decode() gives it. Ids outside the vocabulary are skipped.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;

  // The bytes that `id` adds to a running text; empty for special tokens and ids outside the vocabulary.
  // Concatenating them gives decode(ids, true) wherever the decoder works token by token.
  virtual std::string token_bytes(int32_t id) const = 0;
  // The token as the vocabulary spells it ("Ġthe", "<|im_end|>"); empty outside the vocabulary.
  virtual std::string token_text(int32_t id) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  // The id of a vocabulary entry, or -1.
  virtual int32_t token_id(std::string_view token) const = 0;

  virtual int32_t vocab_size() const = 0;  // 1 + the largest id
  virtual int32_t bos_id() const = 0;      // -1 when there is none
  virtual int32_t eos_id() const = 0;
};

}  // namespace headrace::text
