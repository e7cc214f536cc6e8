#include "text/normalizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

// A character of the result and how many of the source it stands for, as the library counts: 0 one for one,
// above 0 added, below 0 that many more taken away. The library hands out sources in order, also where marks
// change places.
struct Char {
  char32_t code;
  int change;
};

constexpr char32_t kHangulBase = 0xAC00, kLeadBase = 0x1100, kVowelBase = 0x1161, kFinalBase = 0x11A7;
constexpr int kVowels = 21, kFinals = 28, kSyllables = 19 * kVowels * kFinals;

// Calls visit(code, source) for each character.
template <class Visit>
void for_each_char(const AlignedText& text, Visit visit) {
  for (size_t at = 0; at < text.text.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.text).substr(at));
    visit(c.code, ByteRange{text.origin[at].begin, text.origin[at + c.length - 1].end});
    at += c.length;
  }
}

void append_char(AlignedText& out, char32_t code, ByteRange source) {
  std::string bytes;
  append_utf8(bytes, code);
  out.append(bytes, source);
}

void decompose(char32_t code, bool compatible, std::vector<Char>& out) {
  if (code >= kHangulBase && code < kHangulBase + kSyllables) {
    const int index = static_cast<int>(code - kHangulBase);
    out.push_back({static_cast<char32_t>(kLeadBase + index / (kVowels * kFinals)), 0});
    out.push_back({static_cast<char32_t>(kVowelBase + index / kFinals % kVowels), 1});
    if (index % kFinals) out.push_back({static_cast<char32_t>(kFinalBase + index % kFinals), 1});
    return;
  }
  const std::u32string_view parts =
      compatible ? compatible_decomposition(code) : canonical_decomposition(code);
  if (parts.empty()) out.push_back({code, 0});
  for (size_t i = 0; i < parts.size(); ++i) out.push_back({parts[i], i > 0});
}

// Marks between two characters of class 0 stand in the order of their classes.
void order_marks(std::vector<Char>& chars) {
  for (size_t begin = 0; begin < chars.size();) {
    if (combining_class(chars[begin].code) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < chars.size() && combining_class(chars[end].code) != 0) ++end;
    std::stable_sort(chars.begin() + begin, chars.begin() + end, [](const Char& a, const Char& b) {
      return combining_class(a.code) < combining_class(b.code);
    });
    begin = end;
  }
}

char32_t compose_pair(char32_t first, char32_t second) {
  if (first >= kLeadBase && first < kLeadBase + 19 && second >= kVowelBase && second < kVowelBase + kVowels) {
    return kHangulBase + ((first - kLeadBase) * kVowels + (second - kVowelBase)) * kFinals;
  }
  if (first >= kHangulBase && first < kHangulBase + kSyllables && (first - kHangulBase) % kFinals == 0 &&
      second > kFinalBase && second < kFinalBase + kFinals) {
    return first + (second - kFinalBase);
  }
  return compose(first, second);
}

void compose_all(std::vector<Char>& chars) {
  std::vector<Char> out;
  out.reserve(chars.size());
  size_t starter = SIZE_MAX;  // in out
  for (const Char& c : chars) {
    const uint8_t its_class = combining_class(c.code);
    if (starter != SIZE_MAX) {
      // Blocked by what stands between: a mark of the same or a higher class, or another starter.
      const uint8_t last_class = combining_class(out.back().code);
      const bool adjacent = out.size() - 1 == starter;
      if (adjacent || (last_class != 0 && last_class < its_class)) {
        if (const char32_t composed = compose_pair(out[starter].code, c.code)) {
          out[starter].code = composed;
          out[starter].change += c.change - 1;
          continue;
        }
      }
    }
    if (its_class == 0) starter = out.size();
    out.push_back(c);
  }
  chars = std::move(out);
}

AlignedText laid_out(const std::vector<Char>& chars, const std::vector<ByteRange>& sources) {
  AlignedText out;
  size_t at = 0;
  for (const Char& c : chars) {
    const size_t from = c.change > 0 ? std::max<size_t>(at, 1) - 1 : at;
    append_char(out, c.code, sources[std::min(from, sources.size() - 1)]);
    if (c.change <= 0) at += 1 - c.change;
  }
  return out;
}

class Form final : public Normalizer {
 public:
  explicit Form(UnicodeForm form) : form_(form) {}

  bool leaves(std::string_view text) const override {
    while (!text.empty()) {
      const Utf8Char c = decode_utf8(text);
      if (c.code >= 0x80 && (form_ != UnicodeForm::nfc || !is_stable_under_nfc(c.code))) return false;
      text.remove_prefix(c.length);
    }
    return true;
  }

  Status apply(AlignedText& text) const override {
    if (leaves(text.text)) return {};
    const bool compatible = form_ == UnicodeForm::nfkc || form_ == UnicodeForm::nfkd;
    std::vector<Char> chars;
    std::vector<ByteRange> sources;
    for_each_char(text, [&](char32_t code, ByteRange source) {
      decompose(code, compatible, chars);
      sources.push_back(source);
    });
    order_marks(chars);
    if (form_ == UnicodeForm::nfc || form_ == UnicodeForm::nfkc) compose_all(chars);
    text = laid_out(chars, sources);
    return {};
  }

 private:
  UnicodeForm form_;
};

class Lowercase final : public Normalizer {
 public:
  Status apply(AlignedText& text) const override {
    AlignedText out;
    for_each_char(text, [&](char32_t code, ByteRange source) {
      const std::u32string_view lower = lowercase(code);
      if (lower.empty()) append_char(out, code, source);
      for (const char32_t c : lower) append_char(out, c, source);
    });
    text = std::move(out);
    return {};
  }
};

class StripEnds final : public Normalizer {
 public:
  StripEnds(bool left, bool right) : left_(left), right_(right) {}
  Status apply(AlignedText& text) const override {
    size_t begin = text.text.size(), end = 0;
    for (size_t at = 0; at < text.text.size();) {
      const Utf8Char c = decode_utf8(std::string_view(text.text).substr(at));
      if (!is_white_space(c.code)) {
        begin = std::min(begin, at);
        end = at + c.length;
      }
      at += c.length;
    }
    if (!left_) begin = 0;
    if (!right_) end = text.text.size();
    AlignedText out;
    if (begin < end) {
      out.text = text.text.substr(begin, end - begin);
      out.origin.assign(text.origin.begin() + begin, text.origin.begin() + end);
    }
    text = std::move(out);
    return {};
  }

 private:
  bool left_, right_;
};

// Drops the characters that have one of `properties`.
class Drop final : public Normalizer {
 public:
  explicit Drop(uint8_t wanted) : properties_(wanted) {}
  Status apply(AlignedText& text) const override {
    AlignedText out;
    for_each_char(text, [&](char32_t code, ByteRange source) {
      if (!(properties(code) & properties_)) append_char(out, code, source);
    });
    text = std::move(out);
    return {};
  }

 private:
  uint8_t properties_;
};

// What `text` has before byte `end`, to the beginning of the last character: what is put in the place of a match has the
// source of the match's last character, as in the library.
ByteRange source_before(const AlignedText& text, size_t end) {
  if (end == 0) return {text.origin[0].begin, text.origin[0].begin};
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<uint8_t>(text.text[begin]) & 0xC0) == 0x80) --begin;
  return {text.origin[begin].begin, text.origin[end - 1].end};
}

class ReplaceText final : public Normalizer {
 public:
  ReplaceText(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  bool leaves(std::string_view text) const override { return from_.empty() || text.find(from_) == text.npos; }
  Status apply(AlignedText& text) const override {
    if (from_.empty()) return {};
    AlignedText out;
    out.text.reserve(text.text.size() / 4 * 5);
    out.origin.reserve(text.text.size() / 4 * 5);
    size_t at = 0;
    for (size_t found; (found = text.text.find(from_, at)) != std::string::npos; at = found + from_.size()) {
      out.append(text, at, found);
      out.append(to_, source_before(text, found + from_.size()));
    }
    out.append(text, at, text.text.size());
    text = std::move(out);
    return {};
  }

 private:
  std::string from_, to_;
};

class ReplaceRegex final : public Normalizer {
 public:
  ReplaceRegex(Regex from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  Status apply(AlignedText& text) const override {
    std::vector<Regex::Match> matches;
    HR_RETURN_IF_ERROR(from_.find_all(text.text, matches));
    AlignedText out;
    size_t at = 0;
    for (const auto& [begin, end] : matches) {
      out.append(text, at, begin);
      out.append(to_, source_before(text, end));
      at = end;
    }
    out.append(text, at, text.text.size());
    text = std::move(out);
    return {};
  }

 private:
  Regex from_;
  std::string to_;
};

// SentencePiece's rules for machine translation: control characters go, what separates words becomes a space.
class Nmt final : public Normalizer {
 public:
  Status apply(AlignedText& text) const override {
    AlignedText out;
    for_each_char(text, [&](char32_t code, ByteRange source) {
      if (removed(code)) return;
      append_char(out, separates(code) ? U' ' : code, source);
    });
    text = std::move(out);
    return {};
  }

 private:
  static bool removed(char32_t c) {
    return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  }
  static bool separates(char32_t c) {
    return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  }
};

class SpellBytes final : public Normalizer {
 public:
  Status apply(AlignedText& text) const override {
    AlignedText out;
    for (size_t at = 0, end; at < text.text.size(); at = end) {
      end = at + decode_utf8(std::string_view(text.text).substr(at)).length;
      out.append(spell_bytes(std::string_view(text.text).substr(at, end - at)), source_before(text, end));
    }
    text = std::move(out);
    return {};
  }
};

class PrependText final : public Normalizer {
 public:
  explicit PrependText(std::string text) : prefix_(std::move(text)) {}
  Status apply(AlignedText& text) const override {
    if (text.text.empty()) return {};
    const size_t first = decode_utf8(text.text).length;
    AlignedText out;
    out.append(prefix_, {text.origin[0].begin, text.origin[first - 1].end});
    out.text += text.text;
    out.origin.insert(out.origin.end(), text.origin.begin(), text.origin.end());
    text = std::move(out);
    return {};
  }

 private:
  std::string prefix_;
};

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// BertNormalizer's first two steps.
class BertClean final : public Normalizer {
 public:
  BertClean(bool clean, bool chinese) : clean_(clean), chinese_(chinese) {}
  Status apply(AlignedText& text) const override {
    AlignedText out;
    for_each_char(text, [&](char32_t code, ByteRange source) {
      const uint8_t has = clean_ ? properties(code) : 0;
      if (has & kBertRemoved) return;
      if (has & kBertSpace) code = ' ';
      const bool apart = chinese_ && is_chinese(code);
      if (apart) out.append(" ", source);
      append_char(out, code, source);
      if (apart) out.append(" ", source);
    });
    text = std::move(out);
    return {};
  }

 private:
  bool clean_, chinese_;
};

class CollapseSpaces final : public Normalizer {
 public:
  bool leaves(std::string_view text) const override {
    return !text.starts_with(' ') && !text.ends_with(' ') && text.find("  ") == text.npos;
  }
  Status apply(AlignedText& text) const override {
    if (leaves(text.text)) return {};
    AlignedText out;
    size_t space = std::string::npos;  // the first of a run that stands after something
    for (size_t i = 0; i < text.text.size(); ++i) {
      if (text.text[i] == ' ') {
        if (space == std::string::npos && !out.text.empty()) space = i;
        continue;
      }
      if (space != std::string::npos) out.append(" ", {text.origin[space].begin, text.origin[i - 1].end});
      space = std::string::npos;
      out.append(std::string_view(text.text).substr(i, 1), text.origin[i]);
    }
    text = std::move(out);
    return {};
  }
};

class LongestFromCharsmap final : public Normalizer {
 public:
  explicit LongestFromCharsmap(Charsmap map) : map_(std::move(map)) {}
  Status apply(AlignedText& text) const override {
    AlignedText out;
    const std::string_view all = text.text;
    for (size_t at = 0, end; at < all.size(); at = end) {
      const auto match = map_.longest(all.substr(at));
      end = at + (match ? match->length : decode_utf8(all.substr(at)).length);
      const ByteRange source{text.origin[at].begin, text.origin[end - 1].end};
      out.append(match ? match->replacement : all.substr(at, end - at), source);
    }
    text = std::move(out);
    return {};
  }

 private:
  Charsmap map_;
};

// The library's rule, with its oddity: what the table has for the beginning of a short cluster replaces the cluster.
class ClustersFromCharsmap final : public Normalizer {
 public:
  explicit ClustersFromCharsmap(Charsmap map) : map_(std::move(map)) {}
  Status apply(AlignedText& text) const override {
    std::vector<Char> chars;
    std::vector<ByteRange> sources;
    for_each_char(text, [&](char32_t, ByteRange source) { sources.push_back(source); });
    const std::string_view all = text.text;
    for (size_t at = 0, end; at < all.size(); at = end) {
      end = cluster_end(all, at);
      if (end - at <= kShortCluster && replace(all.substr(at, end - at), chars)) continue;
      for (size_t next; at < end; at = next) {
        next = at + decode_utf8(all.substr(at)).length;
        const std::string_view character = all.substr(at, next - at);
        if (!replace(character, chars)) chars.push_back({decode_utf8(character).code, 0});
      }
    }
    text = chars.empty() ? AlignedText{} : laid_out(chars, sources);
    return {};
  }

 private:
  static constexpr size_t kShortCluster = 5;  // bytes

  // The end of the grapheme cluster at `at`, as far as clusters of up to kShortCluster bytes go: CR LF, and what a
  // mark or a joiner follows.
  static size_t cluster_end(std::string_view text, size_t at) {
    const Utf8Char first = decode_utf8(text.substr(at));
    size_t end = at + first.length;
    if (first.code == '\r') return end + text.substr(end).starts_with('\n');
    const bool control = first.code < 0x20 || (category_bit(first.code) &
                                               category_set(Category::Cc, Category::Zl, Category::Zp)) != 0;
    while (!control && end < text.size()) {
      const Utf8Char c = decode_utf8(text.substr(end));
      const bool extends = (category_bit(c.code) & kMarks) || c.code == 0x200C || c.code == 0x200D ||
                           c.code == 0xFF9E || c.code == 0xFF9F || (c.code >= 0x1F3FB && c.code <= 0x1F3FF);
      if (!extends) break;
      end += c.length;
    }
    return end;
  }

  bool replace(std::string_view part, std::vector<Char>& chars) const {
    const auto match = map_.shortest(part);
    if (!match) return false;
    int before = 0, after = 0;
    for (std::string_view rest = part; !rest.empty(); ++before) rest.remove_prefix(decode_utf8(rest).length);
    for (std::string_view rest = match->replacement; !rest.empty(); ++after) {
      const Utf8Char c = decode_utf8(rest);
      chars.push_back({c.code, after >= before});
      rest.remove_prefix(c.length);
    }
    if (after < before && !chars.empty()) chars.back().change += after - before;
    return true;
  }

  Charsmap map_;
};

class InSequence final : public Normalizer {
 public:
  explicit InSequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}
  bool leaves(std::string_view text) const override {
    return std::all_of(steps_.begin(), steps_.end(),
                       [&](const NormalizerPtr& step) { return step->leaves(text); });
  }
  Status apply(AlignedText& text) const override {
    for (const NormalizerPtr& step : steps_) HR_RETURN_IF_ERROR(step->apply(text));
    return {};
  }

 private:
  std::vector<NormalizerPtr> steps_;
};

}  // namespace

NormalizerPtr to_form(UnicodeForm form) {
  return std::make_unique<Form>(form);
}
NormalizerPtr lowercase_all() {
  return std::make_unique<Lowercase>();
}
NormalizerPtr strip_ends(bool left, bool right) {
  return std::make_unique<StripEnds>(left, right);
}
NormalizerPtr strip_accents() {
  return std::make_unique<Drop>(kCombiningMark);
}
NormalizerPtr replace_text(std::string from, std::string to) {
  return std::make_unique<ReplaceText>(std::move(from), std::move(to));
}
NormalizerPtr replace_regex(Regex from, std::string to) {
  return std::make_unique<ReplaceRegex>(std::move(from), std::move(to));
}
NormalizerPtr clean_for_translation() {
  return std::make_unique<Nmt>();
}
NormalizerPtr spell_in_byte_alphabet() {
  return std::make_unique<SpellBytes>();
}
NormalizerPtr prepend_text(std::string text) {
  return std::make_unique<PrependText>(std::move(text));
}

NormalizerPtr collapse_spaces() {
  return std::make_unique<CollapseSpaces>();
}
NormalizerPtr apply_charsmap(Charsmap map, CharsmapRule rule) {
  if (rule == CharsmapRule::longest) return std::make_unique<LongestFromCharsmap>(std::move(map));
  return std::make_unique<ClustersFromCharsmap>(std::move(map));
}

NormalizerPtr bert_normalizer(BertOptions options) {
  std::vector<NormalizerPtr> steps;
  steps.push_back(std::make_unique<BertClean>(options.clean_text, options.chinese_chars));
  if (options.strip_accents) {
    steps.push_back(to_form(UnicodeForm::nfd));
    steps.push_back(std::make_unique<Drop>(kBertMark));
  }
  if (options.lowercase) steps.push_back(lowercase_all());
  return normalize_in_sequence(std::move(steps));
}

NormalizerPtr normalize_in_sequence(std::vector<NormalizerPtr> steps) {
  return std::make_unique<InSequence>(std::move(steps));
}

}  // namespace headrace::text
