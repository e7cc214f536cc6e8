// Tokenizer::from_sentencepiece: the model files of the SentencePiece library, a protocol buffer message of
// which few fields matter. Read by hand: a bounded pass over the bytes, each length checked against what is
// left.
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "text/tokenizer.h"

namespace headrace::text {
namespace {

// The fields of one message, in order.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  struct Field {
    uint64_t number;
    uint64_t value = 0;      // of a varint or a fixed-width field, as its bits
    std::string_view bytes;  // of a length-delimited one
  };
  // Nothing at the end of the message, and at the first byte that does not belong there: then broken() is
  // true.
  std::optional<Field> next() {
    if (at_ == bytes_.size() || broken_) return std::nullopt;
    const auto key = varint();
    Field field{key.value_or(0) >> 3, 0, {}};
    std::optional<uint64_t> value;
    switch (key.value_or(7) & 7) {
      case 0:
        value = varint();
        break;
      case 1:
        value = fixed(8);
        break;
      case 2:
        if (const auto length = varint(); length && *length <= bytes_.size() - at_) {
          field.bytes = bytes_.substr(at_, *length);
          at_ += *length;
          value = 0;
        }
        break;
      case 5:
        value = fixed(4);
        break;
    }
    broken_ = !value || field.number == 0;
    if (broken_) return std::nullopt;
    field.value = *value;
    return field;
  }
  bool broken() const { return broken_; }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  std::optional<uint64_t> fixed(size_t width) {
    if (bytes_.size() - at_ < width) return std::nullopt;
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes_[at_ + i]);
    at_ += width;
    return value;
  }

  std::string_view bytes_;
  size_t at_ = 0;
  bool broken_ = false;
};

Status broken(std::string_view what) {
  return make_status(Code::malformed, "SentencePiece model: {} is cut off or not a protocol buffer message",
                     what);
}

Status read_piece(std::string_view bytes, VocabSpec& spec) {
  Message message(bytes);
  std::string token;
  float score = 0;
  int32_t type = 1;
  while (const auto field = message.next()) {
    if (field->number == 1) token = field->bytes;
    if (field->number == 2) {
      const auto bits = static_cast<uint32_t>(field->value);
      std::memcpy(&score, &bits, sizeof(score));
    }
    if (field->number == 3) type = static_cast<int32_t>(field->value & 0xFF);
  }
  if (message.broken()) return broken("a piece");
  spec.tokens.push_back(std::move(token));
  spec.scores.push_back(score);
  spec.types.push_back(type);
  return {};
}

// TrainerSpec.
Status read_trainer(std::string_view bytes, VocabSpec& spec) {
  Message message(bytes);
  uint64_t model = 1;
  bool suffix = false;
  spec.unk_id = 0;
  spec.bos_id = 1;
  spec.eos_id = 2;
  while (const auto field = message.next()) {
    const auto id = static_cast<int32_t>(static_cast<uint32_t>(field->value));
    if (field->number == 3) model = field->value;
    if (field->number == 24) suffix = field->value != 0;
    if (field->number == 40) spec.unk_id = id;
    if (field->number == 41) spec.bos_id = id;
    if (field->number == 42) spec.eos_id = id;
    if (field->number == 43) spec.pad_id = id;
  }
  if (message.broken()) return broken("the trainer's specification");
  if (model != 1 && model != 2) {
    return make_status(Code::unsupported, "SentencePiece model: model_type {}: want 1 (unigram) or 2 (bpe)",
                       model);
  }
  if (suffix) return make_status(Code::unsupported, "SentencePiece model: treat_whitespace_as_suffix");
  spec.model = model == 1 ? "t5" : "llama";
  return {};
}

// NormalizerSpec.
Status read_normalizer(std::string_view bytes, VocabSpec& spec) {
  Message message(bytes);
  while (const auto field = message.next()) {
    if (field->number == 2) spec.precompiled_charsmap = field->bytes;
    if (field->number == 3) spec.add_space_prefix = field->value != 0;
    if (field->number == 4) spec.remove_extra_whitespaces = field->value != 0;
    if (field->number == 5 && field->value == 0) {
      return make_status(Code::unsupported, "SentencePiece model: escape_whitespaces false");
    }
  }
  return message.broken() ? broken("the normalizer's specification") : Status();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_sentencepiece(std::string_view model) {
  VocabSpec spec;
  spec.add_space_prefix = spec.remove_extra_whitespaces =
      true;  // what the library takes for what is not said
  std::string_view trainer, normalizer;
  Message message(model);
  while (const auto field = message.next()) {
    if (field->number == 1) HR_RETURN_IF_ERROR(read_piece(field->bytes, spec));
    if (field->number == 2) trainer = field->bytes;
    if (field->number == 3) normalizer = field->bytes;
  }
  if (message.broken()) return tl::unexpected(broken("the file"));
  if (trainer.empty() || normalizer.empty()) {
    return error(Code::malformed, "SentencePiece model: no trainer's or no normalizer's specification");
  }
  HR_RETURN_IF_ERROR(read_trainer(trainer, spec));
  HR_RETURN_IF_ERROR(read_normalizer(normalizer, spec));
  for (int32_t* id : {&spec.bos_id, &spec.eos_id, &spec.pad_id}) {
    if (*id < 0) *id = -1;
  }
  return from_vocab(std::move(spec));
}

}  // namespace headrace::text
