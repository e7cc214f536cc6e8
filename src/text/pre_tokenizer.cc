#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

// A stretch of a piece; the stretches of a piece cover it, in order.
struct Cut {
  size_t begin;
  size_t end;
  bool is_match;
};

void emit_cuts(const Piece& piece, std::vector<Cut> cuts, SplitBehavior behavior, std::vector<Piece>& out) {
  std::vector<Cut> kept;
  const auto merge = [&](Cut cut, bool with_last) {
    if (with_last) {
      kept.back().end = cut.end;
      kept.back().is_match = cut.is_match;
    } else {
      kept.push_back(cut);
    }
  };
  for (size_t i = 0; i < cuts.size(); ++i) {
    const Cut cut = cuts[i];
    const bool after_match = i > 0 && cuts[i - 1].is_match;
    switch (behavior) {
      case SplitBehavior::removed:
        if (!cut.is_match) kept.push_back(cut);
        break;
      case SplitBehavior::isolated:
        kept.push_back(cut);
        break;
      case SplitBehavior::contiguous:
        merge(cut, i > 0 && cuts[i - 1].is_match == cut.is_match);
        break;
      case SplitBehavior::merged_with_previous:
        merge(cut, i > 0 && cut.is_match && !after_match);
        break;
      case SplitBehavior::merged_with_next:
        merge(cut, after_match && !cut.is_match);
        break;
    }
  }
  for (const Cut& cut : kept) {
    if (cut.end > cut.begin) out.push_back(piece.sub(cut.begin, cut.end));
  }
}

// Matches of single characters, one cut each; what lies between is one cut.
template <class Matches>
std::vector<Cut> cut_at_chars(std::string_view text, Matches matches) {
  std::vector<Cut> cuts;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text.substr(at));
    if (matches(c.code)) {
      if (at > begin) cuts.push_back({begin, at, false});
      cuts.push_back({at, at + c.length, true});
      begin = at + c.length;
    }
    at += c.length;
  }
  if (begin < text.size()) cuts.push_back({begin, text.size(), false});
  return cuts;
}

class PatternSplit final : public PreTokenizer {
 public:
  explicit PatternSplit(SplitPattern pattern) : pattern_(pattern) {}
  Status split(const Piece& piece, PieceArena&, std::vector<Piece>& out) const override {
    for (size_t at = 0; at < piece.text.size();) {
      const size_t end = next_word(pattern_, piece.text, at);
      out.push_back(piece.sub(at, end));
      at = end;
    }
    return {};
  }

 private:
  SplitPattern pattern_;
};

class MatchSplit : public PreTokenizer {
 public:
  MatchSplit(SplitBehavior behavior, bool invert) : behavior_(behavior), invert_(invert) {}
  Status split(const Piece& piece, PieceArena&, std::vector<Piece>& out) const override {
    std::vector<Regex::Match> matches;
    HR_RETURN_IF_ERROR(find_all(piece.text, matches));
    std::vector<Cut> cuts;
    size_t at = 0;
    for (const auto& [begin, end] : matches) {
      if (begin > at) cuts.push_back({at, begin, invert_});
      cuts.push_back({begin, end, !invert_});
      at = end;
    }
    if (at < piece.text.size()) cuts.push_back({at, piece.text.size(), invert_});
    emit_cuts(piece, std::move(cuts), behavior_, out);
    return {};
  }

 protected:
  virtual Status find_all(std::string_view text, std::vector<Regex::Match>& out) const = 0;

 private:
  SplitBehavior behavior_;
  bool invert_;
};

class RegexSplit final : public MatchSplit {
 public:
  RegexSplit(Regex regex, SplitBehavior behavior, bool invert)
      : MatchSplit(behavior, invert), regex_(std::move(regex)) {}

 protected:
  Status find_all(std::string_view text, std::vector<Regex::Match>& out) const override {
    return regex_.find_all(text, out);
  }

 private:
  Regex regex_;
};

class StringSplit final : public MatchSplit {
 public:
  StringSplit(std::string wanted, SplitBehavior behavior, bool invert)
      : MatchSplit(behavior, invert), wanted_(std::move(wanted)) {}

 protected:
  Status find_all(std::string_view text, std::vector<Regex::Match>& out) const override {
    if (wanted_.empty()) return {};
    for (size_t at = text.find(wanted_); at != text.npos; at = text.find(wanted_, at + wanted_.size())) {
      out.push_back({at, at + wanted_.size()});
    }
    return {};
  }

 private:
  std::string wanted_;
};

// Splits at characters that a predicate picks.
template <class Matches>
class CharSplit final : public PreTokenizer {
 public:
  CharSplit(Matches matches, SplitBehavior behavior) : matches_(matches), behavior_(behavior) {}
  Status split(const Piece& piece, PieceArena&, std::vector<Piece>& out) const override {
    emit_cuts(piece, cut_at_chars(piece.text, matches_), behavior_, out);
    return {};
  }

 private:
  Matches matches_;
  SplitBehavior behavior_;
};

template <class Matches>
PreTokenizerPtr split_at(Matches matches, SplitBehavior behavior) {
  return std::make_unique<CharSplit<Matches>>(matches, behavior);
}

class WordSplit final : public PreTokenizer {
 public:
  Status split(const Piece& piece, PieceArena&, std::vector<Piece>& out) const override {
    enum Kind { space, word, other } last = space;
    size_t begin = 0;
    for (size_t at = 0; at <= piece.text.size();) {
      const bool end = at == piece.text.size();
      const Utf8Char c = end ? Utf8Char{U' ', 1} : decode_utf8(piece.text.substr(at));
      const Kind kind = (properties(c.code) & kWordChar) ? word : is_white_space(c.code) ? space : other;
      if (kind != last || end) {
        if (last != space && at > begin) out.push_back(piece.sub(begin, at));
        begin = at;
        last = kind;
      }
      at += c.length;
    }
    return {};
  }
};

// Apart where the script changes. As in the library: characters of no script (and spaces) belong to the word before them,
// and those that the piece begins with are dropped.
class ScriptSplit final : public PreTokenizer {
 public:
  Status split(const Piece& piece, PieceArena&, std::vector<Piece>& out) const override {
    size_t begin = piece.text.size();
    uint8_t last = 0;  // script_group: 0 for none
    for (size_t at = 0; at < piece.text.size();) {
      const Utf8Char c = decode_utf8(piece.text.substr(at));
      const uint8_t script = script_group(c.code);
      if (script != 0 && script != last) {
        if (last != 0) out.push_back(piece.sub(begin, at));
        begin = at;
        last = script;
      }
      at += c.length;
    }
    if (begin < piece.text.size()) out.push_back(piece.sub(begin, piece.text.size()));
    return {};
  }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(size_t num_chars) : num_chars_(num_chars) {}
  Status split(const Piece& piece, PieceArena&, std::vector<Piece>& out) const override {
    for (size_t begin = 0, at = 0; at < piece.text.size(); begin = at) {
      for (size_t i = 0; i < num_chars_ && at < piece.text.size(); ++i) at += decode_utf8(piece.text.substr(at)).length;
      out.push_back(piece.sub(begin, at));
    }
    return {};
  }

 private:
  size_t num_chars_;
};

class SpellBytes final : public PreTokenizer {
 public:
  Status split(const Piece& piece, PieceArena& arena, std::vector<Piece>& out) const override {
    AlignedText& spelled = arena.add();
    for (size_t at = 0, end; at < piece.text.size(); at = end) {
      end = at + decode_utf8(piece.text.substr(at)).length;
      spelled.append(spell_bytes(piece.text.substr(at, end - at)), piece.source(at, end));
    }
    out.push_back(spelled.piece());
    return {};
  }
};

class InSequence final : public PreTokenizer {
 public:
  explicit InSequence(PreTokenizers steps) : steps_(std::move(steps)) {}
  Status split(const Piece& piece, PieceArena& arena, std::vector<Piece>& out) const override {
    std::vector<Piece> pieces{piece}, next;
    for (const PreTokenizerPtr& step : steps_) {
      next.clear();
      for (const Piece& part : pieces) HR_RETURN_IF_ERROR(step->split(part, arena, next));
      pieces.swap(next);
    }
    out.insert(out.end(), pieces.begin(), pieces.end());
    return {};
  }

 private:
  PreTokenizers steps_;
};

// `prefix` in front of the piece; its bytes come from where the piece's first character came from.
Piece with_prefix(const Piece& piece, std::string_view prefix, PieceArena& arena) {
  AlignedText& longer = arena.add();
  longer.append(prefix, piece.source(0, decode_utf8(piece.text).length));
  for (size_t i = 0; i < piece.text.size(); ++i)
    longer.append(piece.text.substr(i, 1), piece.source(i, i + 1));
  return longer.piece();
}

class PrefixSpace final : public PreTokenizer {
 public:
  Status split(const Piece& piece, PieceArena& arena, std::vector<Piece>& out) const override {
    out.push_back(piece.text.starts_with(' ') ? piece : with_prefix(piece, " ", arena));
    return {};
  }
};

class Prefix final : public PreTokenizer {
 public:
  explicit Prefix(std::string prefix) : prefix_(std::move(prefix)) {}
  Status split(const Piece& piece, PieceArena& arena, std::vector<Piece>& out) const override {
    out.push_back(with_prefix(piece, prefix_, arena));
    return {};
  }

 private:
  std::string prefix_;
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  Status split(const Piece& source, PieceArena& arena, std::vector<Piece>& out) const override {
    Piece piece = source;
    if (piece.text.find(' ') != piece.text.npos) {
      AlignedText& replaced = arena.add();
      for (size_t i = 0; i < source.text.size(); ++i) {
        const std::string_view byte = source.text.substr(i, 1);
        replaced.append(byte == " " ? std::string_view(replacement_) : byte, source.source(i, i + 1));
      }
      piece = replaced.piece();
    }
    const bool wanted = scheme_ == PrependScheme::always ||
                        (scheme_ == PrependScheme::first && source.source(0, 1).begin == 0);
    if (wanted && !piece.text.starts_with(replacement_)) piece = with_prefix(piece, replacement_, arena);
    if (!split_) {
      out.push_back(piece);
      return {};
    }
    return StringSplit(replacement_, SplitBehavior::merged_with_next, false).split(piece, arena, out);
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

}  // namespace

PreTokenizerPtr split_by_pattern(SplitPattern pattern) {
  return std::make_unique<PatternSplit>(pattern);
}

Result<PreTokenizerPtr> split_by_regex(std::string_view regex, SplitBehavior behavior, bool invert) {
  HR_ASSIGN_OR_RETURN(Regex compiled, Regex::compile(regex));
  return std::make_unique<RegexSplit>(std::move(compiled), behavior, invert);
}

PreTokenizerPtr split_by_string(std::string text, SplitBehavior behavior, bool invert) {
  return std::make_unique<StringSplit>(std::move(text), behavior, invert);
}

PreTokenizerPtr split_digits(bool individual) {
  return split_at([](char32_t c) { return (properties(c) & kRustNumeric) != 0; },
                  individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
}

PreTokenizerPtr split_punctuation(SplitBehavior behavior) {
  return split_at([](char32_t c) { return (properties(c) & kPunctuationChar) != 0; }, behavior);
}

PreTokenizerPtr split_white_space() {
  return split_at(is_white_space, SplitBehavior::removed);
}
PreTokenizerPtr split_words() {
  return std::make_unique<WordSplit>();
}

PreTokenizerPtr split_as_bert() {
  PreTokenizers steps;
  steps.push_back(split_white_space());
  steps.push_back(
      split_at([](char32_t c) { return (properties(c) & kBertPunctuation) != 0; }, SplitBehavior::isolated));
  return std::make_unique<InSequence>(std::move(steps));
}

PreTokenizerPtr split_scripts() {
  return std::make_unique<ScriptSplit>();
}
PreTokenizerPtr split_fixed_length(size_t num_chars) {
  return std::make_unique<FixedLength>(num_chars);
}
PreTokenizerPtr spell_bytes_of_words() {
  return std::make_unique<SpellBytes>();
}
PreTokenizerPtr add_prefix_space() {
  return std::make_unique<PrefixSpace>();
}
PreTokenizerPtr add_prefix(std::string prefix) {
  return std::make_unique<Prefix>(std::move(prefix));
}
PreTokenizerPtr metaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}

}  // namespace headrace::text
