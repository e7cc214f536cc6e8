#include "testing/byte_tokenizer.h"

namespace headrace::testing {
namespace {

constexpr std::string_view kEosText = "<|end|>";

class ByteTokenizer final : public text::Tokenizer {
 public:
  Result<text::Encoding> encode(std::string_view text, const text::EncodeOptions& options) const override {
    text::Encoding encoding;
    for (uint32_t i = 0; i < text.size();) {
      const bool special = options.special == text::SpecialTokens::everywhere && text.substr(i).starts_with(kEosText);
      const uint32_t length = special ? static_cast<uint32_t>(kEosText.size()) : 1;
      encoding.ids.push_back(special ? kByteEos : static_cast<unsigned char>(text[i]));
      encoding.offsets.push_back({i, i + length});
      i += length;
    }
    return encoding;
  }
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    std::string text;
    for (const int32_t id : ids) text += id == kByteEos && !skip_special_tokens ? std::string(kEosText) : token_bytes(id);
    return text;
  }
  std::string token_bytes(int32_t id) const override {
    return id >= 0 && id < kByteEos ? std::string(1, static_cast<char>(id)) : std::string();
  }
  std::string token_text(int32_t id) const override { return id == kByteEos ? std::string(kEosText) : token_bytes(id); }
  bool is_special(int32_t id) const override { return id == kByteEos; }
  int32_t token_id(std::string_view token) const override {
    if (token == kEosText) return kByteEos;
    return token.size() == 1 ? static_cast<unsigned char>(token[0]) : -1;
  }
  int32_t vocab_size() const override { return kByteVocab; }
  int32_t bos_id() const override { return -1; }
  int32_t eos_id() const override { return kByteEos; }
};

}  // namespace

std::unique_ptr<text::Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::vector<int32_t> byte_ids(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace headrace::testing
