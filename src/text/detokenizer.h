#pragma once
// From successive token ids to the bytes of a running text, for a StreamDecoder. One per choice; not
// thread-safe.

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace headrace::text {

class Detokenizer {
 public:
  enum class Begin : uint8_t {
    text,      // the first token begins a text: its prefix space goes, as Tokenizer::decode takes it away
    anywhere,  // it goes on with one: "▁world" is " world"
  };
  // `tokenizer` must outlive it.
  Detokenizer(const Tokenizer& tokenizer, Begin begin)
      : tokenizer_(tokenizer), first_(begin == Begin::text) {}

  // The bytes that became certain with `id`. Special tokens and ids outside the vocabulary give none. Pieces
  // of a character are held back only where each is a byte token of its own (byte fallback): what turns out
  // to be no character is one U+FFFD a byte there, as the library has it, and not one for all of them.
  std::string push(int32_t id);
  // What is still held back.
  std::string finish();

 private:
  std::string first_bytes(int32_t id, std::string bytes);
  void take_byte(char byte, std::string& out);
  void give_up(size_t bytes, std::string& out);

  const Tokenizer& tokenizer_;
  bool first_;           // nothing but special tokens so far
  std::string pending_;  // byte tokens that may become a character
};

}  // namespace headrace::text
