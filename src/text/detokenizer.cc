#include "text/detokenizer.h"

#include "text/utf8.h"

namespace headrace::text {
namespace {

// "<0x0A>", of a vocabulary where it stands for that byte.
bool is_byte_token(std::string_view spelling, std::string_view bytes) {
  return bytes.size() == 1 && spelling.size() == 6 && spelling.starts_with("<0x") && spelling.ends_with('>');
}

}  // namespace

std::string Detokenizer::push(int32_t id) {
  std::string bytes = tokenizer_.token_bytes(id);
  if (bytes.empty()) return {};
  const bool is_byte = is_byte_token(tokenizer_.token_text(id), bytes);
  if (first_) bytes = first_bytes(id, std::move(bytes));
  std::string out;
  if (is_byte) {
    for (const char byte : bytes) take_byte(byte, out);
  } else {
    give_up(pending_.size(), out);
    out += bytes;
  }
  return out;
}

std::string Detokenizer::finish() {
  std::string out;
  give_up(pending_.size(), out);
  return out;
}

std::string Detokenizer::first_bytes(int32_t id, std::string bytes) {
  first_ = false;
  // Part of a character has no prefix, and decode() would replace it.
  if (!is_valid_utf8(bytes)) return bytes;
  std::string alone = tokenizer_.decode({&id, 1}, true);
  // The space at a word's end, where the vocabulary marks those, goes only from the end of the text.
  return !alone.empty() && alone + ' ' == bytes ? bytes : alone;
}

void Detokenizer::take_byte(char byte, std::string& out) {
  pending_ += byte;
  while (!pending_.empty()) {
    const Utf8Char c = decode_utf8(pending_);
    if (c.state == Utf8State::incomplete) return;
    if (c.state == Utf8State::ill_formed) {
      give_up(c.length, out);
      continue;
    }
    out.append(pending_, 0, c.length);
    pending_.erase(0, c.length);
  }
}

void Detokenizer::give_up(size_t bytes, std::string& out) {
  for (size_t i = 0; i < bytes; ++i) out += kReplacementUtf8;
  pending_.erase(0, bytes);
}

}  // namespace headrace::text
