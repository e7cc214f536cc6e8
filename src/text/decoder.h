#pragma once
// The steps that turn the spellings of tokens back into text.

#include <memory>
#include <string>
#include <vector>

#include "text/regex.h"

namespace headrace::text {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Rewrites the list of pieces; the text is their concatenation.
  virtual void apply(std::vector<std::string>& pieces) const = 0;
  // What one piece that is not the text's first becomes, as bytes: a step's share of Tokenizer::token_bytes.
  virtual std::string bytes_of(std::string piece) const = 0;
};

using DecoderPtr = std::unique_ptr<const Decoder>;

DecoderPtr decode_byte_level();
DecoderPtr decode_replace(std::string from, std::string to);
DecoderPtr decode_replace_regex(Regex from, std::string to);
DecoderPtr decode_byte_fallback();
DecoderPtr decode_fuse();
DecoderPtr decode_strip(std::string content, size_t start, size_t stop);
DecoderPtr decode_metaspace(std::string replacement, bool strips_first);
DecoderPtr decode_wordpiece(std::string prefix, bool cleanup);
DecoderPtr decode_bpe(std::string suffix);
DecoderPtr decode_ctc(std::string pad, std::string delimiter, bool cleanup);

}  // namespace headrace::text
