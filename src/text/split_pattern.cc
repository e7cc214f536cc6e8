#include "text/split_pattern.h"

#include <array>
#include <cstdint>

#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

struct Spelling {
  SplitPattern pattern;
  std::string_view regex;
};

constexpr Spelling kSpellings[] = {
    {SplitPattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::qwen35,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::o200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::tekken,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

// What the patterns ask of a character, as bits.
enum : uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,
  kLineBreak = 8,  // CR or LF, which are white space too
  kMark = 16,
  kUpperLike = 32,  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLowerLike = 64,  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
};

uint8_t classify(char32_t c) {
  constexpr uint32_t upper = category_set(Category::Lu, Category::Lt, Category::Lm, Category::Lo) | kMarks;
  constexpr uint32_t lower = category_set(Category::Ll, Category::Lm, Category::Lo) | kMarks;
  const uint32_t bit = category_bit(c);
  uint8_t out = 0;
  if (bit & kLetters) out |= kLetter;
  if (bit & kNumbers) out |= kNumber;
  if (bit & kMarks) out |= kMark;
  if (bit & upper) out |= kUpperLike;
  if (bit & lower) out |= kLowerLike;
  if (is_white_space(c)) out |= kSpace;
  if (c == '\r' || c == '\n') out |= kLineBreak;
  return out;
}

struct Char {
  uint8_t bits;
  uint8_t length;  // 0 at the end of the text
};

class Scanner {
 public:
  Scanner(std::string_view text, size_t at) : text_(text), at_(at) {}

  Char peek(size_t at) const {
    static const std::array<uint8_t, 128> ascii = [] {
      std::array<uint8_t, 128> bits;
      for (char32_t c = 0; c < 128; ++c) bits[c] = classify(c);
      return bits;
    }();
    if (at >= text_.size()) return {0, 0};
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x80) return {ascii[byte], 1};
    const Utf8Char c = decode_utf8(text_.substr(at));
    return {classify(c.code), c.length};
  }

  // The end of the run of characters, from `at` on, that have one of `bits`.
  size_t run_with(size_t at, uint8_t bits) const {
    for (Char c = peek(at); c.length && (c.bits & bits); c = peek(at)) at += c.length;
    return at;
  }
  // The same for characters that have none of `bits`.
  size_t run_without(size_t at, uint8_t bits) const {
    for (Char c = peek(at); c.length && !(c.bits & bits); c = peek(at)) at += c.length;
    return at;
  }

  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  // `'s|'t|'re|'ve|'m|'ll|'d` at `at`, or 0. In any case U+017F, the long s, is an s too.
  size_t contraction(size_t at, bool any_case) const {
    if (byte(at) != '\'') return 0;
    const auto letter = [&](size_t i) -> char {
      const char c = byte(i);
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char first = letter(at + 1), second = letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    if (any_case && text_.substr(at + 1, 2) == "\xC5\xBF") return at + 3;
    return 0;
  }

  // `\s+(?!\S)|\s+` at white space: a run gives its last character to the word after it.
  size_t white_space(size_t at) const {
    size_t end = at, last = at;
    for (Char c = peek(end); c.length && (c.bits & kSpace); c = peek(end)) {
      last = end;
      end += c.length;
    }
    return end == text_.size() || last == at ? end : last;
  }

  // `\s*[\r\n]+|\s+(?!\S)|\s+`: a run that has a line break ends after its last one.
  size_t white_space_by_lines(size_t at) const {
    size_t end = at, last = at, after_break = 0;
    for (Char c = peek(end); c.length && (c.bits & kSpace); c = peek(end)) {
      last = end;
      end += c.length;
      if (c.bits & kLineBreak) after_break = end;
    }
    if (after_break) return after_break;
    return end == text_.size() || last == at ? end : last;
  }

  size_t numbers(size_t at, int most) const {
    Char c = peek(at);
    for (int i = 0; i < most && c.length && (c.bits & kNumber); ++i) {
      at += c.length;
      c = peek(at);
    }
    return at;
  }

  size_t gpt2() const {
    if (const size_t end = contraction(at_, false)) return end;
    const bool space = byte(at_) == ' ';
    const size_t body = at_ + space;
    const Char c = peek(body);
    if (c.length && (c.bits & kLetter)) return run_with(body, kLetter);
    if (c.length && (c.bits & kNumber)) return run_with(body, kNumber);
    if (c.length && !(c.bits & kSpace)) return run_without(body, kLetter | kNumber | kSpace);
    return white_space(at_);
  }

  // llama3, qwen2 and qwen35: they differ in the digits of a number and in what else continues a word.
  size_t llama3(int most_digits, uint8_t word) const {
    if (const size_t end = contraction(at_, true)) return end;
    const Char first = peek(at_);
    if (first.bits & word) return run_with(at_, word);
    if (first.bits & kNumber) return numbers(at_, most_digits);
    if (!(first.bits & kLineBreak)) {
      const size_t body = at_ + first.length;
      if (peek(body).bits & word) return run_with(body, word);
    }
    return punctuation_or_space(word | kNumber | kSpace, false);
  }

  // ` ?[^\s\p{L}\p{N}]+[\r\n]*` (`[\r\n/]*` with `slash`), else white space.
  size_t punctuation_or_space(uint8_t excluded, bool slash) const {
    const size_t body = at_ + (byte(at_) == ' ');
    const Char c = peek(body);
    if (!c.length || (c.bits & excluded)) return white_space_by_lines(at_);
    size_t end = run_without(body, excluded);
    while (byte(end) == '\r' || byte(end) == '\n' || (slash && byte(end) == '/')) ++end;
    return end;
  }

  struct CasedWord {
    size_t ends_lower = 0;  // end of `[upper]*[lower]+`, 0 when it does not match
    size_t any = 0;         // end of `[upper]+[lower]*`, 0 when it does not match
  };

  // Lm, Lo and marks are both: the first form takes the longest run of uppers and gives back what it must to
  // find a lower, which is the run's last one.
  CasedWord cased_word(size_t at) const {
    size_t end = at, after_last_lower = 0;
    for (Char c = peek(end); c.length && (c.bits & kUpperLike); c = peek(end)) {
      end += c.length;
      if (c.bits & kLowerLike) after_last_lower = end;
    }
    const size_t lower_end = run_with(end, kLowerLike);
    return {lower_end > end ? lower_end : after_last_lower, end > at ? lower_end : 0};
  }

  size_t o200k(int most_digits, bool contractions) const {
    const Char first = peek(at_);
    const bool may_lead = !(first.bits & (kLetter | kNumber | kLineBreak));
    const CasedWord led = may_lead ? cased_word(at_ + first.length) : CasedWord{};
    const CasedWord bare = cased_word(at_);
    for (const size_t end : {led.ends_lower, bare.ends_lower, led.any, bare.any}) {
      if (!end) continue;
      const size_t longer = contractions ? contraction(end, true) : 0;
      return longer ? longer : end;
    }
    if (first.bits & kNumber) return numbers(at_, most_digits);
    return punctuation_or_space(kLetter | kNumber | kSpace, true);
  }

 private:
  std::string_view text_;
  size_t at_;
};

}  // namespace

std::optional<SplitPattern> find_split_pattern(std::string_view regex) {
  for (const Spelling& spelling : kSpellings) {
    if (spelling.regex == regex) return spelling.pattern;
  }
  return std::nullopt;
}

size_t next_word(SplitPattern pattern, std::string_view text, size_t at) {
  const Scanner scanner(text, at);
  switch (pattern) {
    case SplitPattern::gpt2:
      return scanner.gpt2();
    case SplitPattern::llama3:
      return scanner.llama3(3, kLetter);
    case SplitPattern::qwen2:
      return scanner.llama3(1, kLetter);
    case SplitPattern::qwen35:
      return scanner.llama3(1, kLetter | kMark);
    case SplitPattern::o200k:
      return scanner.o200k(3, true);
    case SplitPattern::tekken:
      return scanner.o200k(1, false);
  }
  return text.size();
}

}  // namespace headrace::text
