#include "text/pre_tokenizer.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

class PatternSplit final : public PreTokenizer {
 public:
  explicit PatternSplit(SplitPattern pattern) : pattern_(pattern) {}
  void split(const Piece& piece, PieceArena&, std::vector<Piece>& out) const override {
    for (size_t at = 0; at < piece.text.size();) {
      const size_t end = next_word(pattern_, piece.text, at);
      out.push_back(piece.sub(at, end));
      at = end;
    }
  }

 private:
  SplitPattern pattern_;
};

class DigitSplit final : public PreTokenizer {
 public:
  explicit DigitSplit(bool individual) : individual_(individual) {}
  void split(const Piece& piece, PieceArena&, std::vector<Piece>& out) const override {
    const std::string_view text = piece.text;
    size_t begin = 0;
    bool in_number = false;
    const auto close = [&](size_t end) {
      if (end > begin) out.push_back(piece.sub(begin, end));
      begin = end;
    };
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = decode_utf8(text.substr(at));
      const bool number = (category_bit(c.code) & kNumbers) != 0;
      if (number != in_number || (number && individual_)) close(at);
      in_number = number;
      at += c.length;
    }
    close(text.size());
  }

 private:
  bool individual_;
};

class PrefixSpace final : public PreTokenizer {
 public:
  void split(const Piece& piece, PieceArena& arena, std::vector<Piece>& out) const override {
    if (piece.text.starts_with(' ')) {
      out.push_back(piece);
      return;
    }
    AlignedText& longer = arena.add();
    longer.append(" ", piece.source(0, decode_utf8(piece.text).length));
    for (size_t i = 0; i < piece.text.size(); ++i)
      longer.append(piece.text.substr(i, 1), piece.source(i, i + 1));
    out.push_back(longer.piece());
  }
};

}  // namespace

std::unique_ptr<const PreTokenizer> split_by_pattern(SplitPattern pattern) {
  return std::make_unique<PatternSplit>(pattern);
}
std::unique_ptr<const PreTokenizer> split_digits(bool individual) {
  return std::make_unique<DigitSplit>(individual);
}
std::unique_ptr<const PreTokenizer> add_prefix_space() {
  return std::make_unique<PrefixSpace>();
}

}  // namespace headrace::text
