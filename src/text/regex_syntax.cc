#include "text/regex_syntax.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "text/regex_class.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

constexpr size_t kMaxDepth = 200;        // of groups; PCRE2's own limit is 250
constexpr size_t kMaxClassDepth = 16;
constexpr uint32_t kMaxRepeat = 65'535;  // PCRE2's
constexpr std::string_view kLineBreak = R"((?>\r\n|[\n-\r\x{85}\x{2028}\x{2029}]))";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (at_ < in_.size()) {
      HR_RETURN_IF_ERROR(step());
      if (out_.size() > kMaxTranslatedRegex) {
        return error(Code::resource_exhausted, "regular expression of {} bytes becomes one of over {}", in_.size(),
                     kMaxTranslatedRegex);
      }
    }
    close_options();
    if (!groups_.empty()) return tl::unexpected(malformed("a group has no end"));
    return std::move(out_);
  }

 private:
  struct Options {
    bool ignore_case = false;
    bool dot_all = false;
    bool extended = false;
  };
  struct Group {
    Options options;        // of what is around it
    size_t begin;           // in out_
    size_t options_opened;  // groups that "(?i)" opened in what is around it
  };

  Status malformed(std::string_view what) const {
    return make_status(Code::malformed, "regular expression \"{}\", byte {}: {}", in_.substr(0, 200), at_, what);
  }
  Status unsupported(std::string_view what) const {
    return make_status(Code::unsupported, "regular expression \"{}\", byte {}: {} is not implemented",
                       in_.substr(0, 200), at_, what);
  }

  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_char() {
    const Utf8Char c = decode_utf8(in_.substr(at_));
    at_ += c.length;
    return c.code;
  }

  // What follows is one item: a quantifier would repeat it.
  void begin_item() {
    item_ = out_.size();
    quantified_ = false;
  }
  void no_item() { item_.reset(); }

  Status step() {
    const char c = in_[at_];
    if (options_.extended && (c == ' ' || (c >= '\t' && c <= '\r'))) return ++at_, Status();
    if (options_.extended && c == '#') {
      at_ = std::min(in_.find('\n', at_), in_.size());
      return {};
    }
    switch (c) {
      case '(':
        return group();
      case ')':
        return end_group();
      case '|':
        ++at_;
        out_ += '|';
        no_item();
        return {};
      case '[': {
        begin_item();
        RegexClass set;
        HR_RETURN_IF_ERROR(char_class(0, set));
        if (options_.ignore_case) set.ignore_case();
        out_ += set.pattern();
        return {};
      }
      case '.':
        ++at_;
        begin_item();
        out_ += options_.dot_all ? R"([\x{0}-\x{10ffff}])" : R"([^\n])";
        return {};
      case '^':
      case '$':
        ++at_;
        begin_item();
        out_ += c == '^' ? "(?m:^)" : "(?m:$)";
        return {};
      case '*':
      case '+':
      case '?':
        return quantifier();
      case '{':
        if (interval_ahead()) return quantifier();
        [[fallthrough]];
      default:
        if (c == '\\') return escape();
        begin_item();
        literal(take_char());
        return {};
    }
  }

  // --- groups ---

  Status group() {
    if (groups_.size() >= kMaxDepth) return malformed("groups are nested too deeply");
    if (take("(?#")) {
      while (at_ < in_.size() && in_[at_] != ')') at_ += in_[at_] == '\\' ? 2 : 1;
      return take(")") ? Status() : malformed("a comment has no end");
    }
    if (next_is("(?") && !next_is("(?<") && !next_is("(?'")) {
      for (const std::string_view opening : {"(?:", "(?=", "(?!", "(?>"}) {
        if (take(opening)) return open(opening);
      }
      return option_group();
    }
    for (const std::string_view opening : {"(?<=", "(?<!"}) {
      if (take(opening)) return open(opening);
    }
    if (next_is("(?<") || next_is("(?'")) {
      const size_t end = in_.find(in_[at_ + 2] == '<' ? '>' : '\'', at_ + 3);
      if (end == in_.npos) return malformed("the name of a group has no end");
      const std::string_view opening = in_.substr(at_, end + 1 - at_);
      at_ = end + 1;
      return open(opening);
    }
    ++at_;
    return open("(");
  }

  Status open(std::string_view opening) {
    groups_.push_back({options_, out_.size(), options_opened_});
    options_opened_ = 0;
    out_ += opening;
    no_item();
    return {};
  }

  // "(?i-m)" holds to the end of the group around it, "(?i-m:" for itself.
  Status option_group() {
    Options options = options_;
    at_ += 2;
    for (bool on = true; at_ < in_.size(); ++at_) {
      const char c = in_[at_];
      if (c == '-') on = false;
      if (c == 'i') options.ignore_case = on;
      if (c == 'm') options.dot_all = on;
      if (c == 'x') options.extended = on;
      if (c == ':' || c == ')') {
        ++at_;
        if (c == ':') {
          HR_RETURN_IF_ERROR(open("(?:"));
        } else {
          out_ += "(?:";
          no_item();
          // A pattern of nothing but such options would nest without an end.
          if (++options_opened_ > kMaxDepth) return malformed("too many options");
        }
        options_ = options;
        return {};
      }
      if (c != '-' && c != 'i' && c != 'm' && c != 'x') break;
    }
    return unsupported("this kind of group");
  }

  void close_options() {
    out_.append(options_opened_, ')');
    options_opened_ = 0;
  }

  Status end_group() {
    if (groups_.empty()) return malformed("a group ends that did not begin");
    ++at_;
    close_options();
    out_ += ')';
    const Group group = groups_.back();
    groups_.pop_back();
    options_ = group.options;
    options_opened_ = group.options_opened;
    item_ = group.begin;
    quantified_ = false;
    return {};
  }

  // --- quantifiers ---

  // {n} {n,} {,m} {n,m}; anything else in braces is text.
  bool interval_ahead() const {
    size_t at = at_ + 1, digits = 0, commas = 0;
    for (; at < in_.size() && in_[at] != '}'; ++at) {
      const bool digit = in_[at] >= '0' && in_[at] <= '9';
      if (!digit && (in_[at] != ',' || ++commas > 1)) return false;
      digits += digit;
    }
    return at < in_.size() && digits > 0;
  }

  Status quantifier() {
    if (!item_) return malformed("there is nothing to repeat");
    if (quantified_) {
      out_.insert(*item_, "(?:");
      out_ += ')';
    }
    quantified_ = true;
    if (in_[at_] != '{') {
      out_ += in_[at_++];
      // Lazy, or without giving back.
      if (next_is("?") || next_is("+")) out_ += in_[at_++];
      return {};
    }
    const size_t end = in_.find('}', at_);
    const std::string_view inside = in_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = inside.find(',');
    uint32_t limit = 0;
    for (const char digit : inside) {
      limit = digit == ',' ? 0 : limit * 10 + static_cast<uint32_t>(digit - '0');
      if (limit > kMaxRepeat) return malformed("too many repetitions");
    }
    out_ += '{';
    if (comma == 0) out_ += '0';
    out_ += inside;
    out_ += '}';
    at_ = end + 1;
    // "{n}?" is an optional "{n}", "{n,m}+" one or more of it: both quantifiers of their own.
    if (comma != inside.npos && next_is("?")) out_ += in_[at_++];
    return {};
  }

  // --- characters ---

  void literal(char32_t code) {
    if (options_.ignore_case) {
      if (const std::u32string_view variants = case_variants(code); !variants.empty()) {
        std::vector<CodeSet::Range> ranges{{code, code}};
        for (const char32_t variant : variants) ranges.emplace_back(variant, variant);
        out_ += RegexClass(CodeSet(std::move(ranges))).pattern();
        return;
      }
    }
    const bool plain = code >= 0x80 || (code >= '0' && code <= '9') || ((code | 0x20) >= 'a' && (code | 0x20) <= 'z');
    if (plain) {
      append_utf8(out_, code);
    } else {
      fmt::format_to(std::back_inserter(out_), "\\x{{{:x}}}", static_cast<uint32_t>(code));
    }
  }

  std::optional<uint32_t> number(size_t min_digits, size_t max_digits, uint32_t base) {
    uint32_t value = 0;
    size_t digits = 0;
    for (; digits < max_digits && at_ < in_.size(); ++digits, ++at_) {
      const char c = in_[at_];
      const uint32_t digit = c >= '0' && c <= '9'                     ? static_cast<uint32_t>(c - '0')
                             : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? static_cast<uint32_t>((c | 0x20) - 'a' + 10)
                                                                      : 99;
      if (digit >= base) break;
      value = value * base + digit;
    }
    if (digits < min_digits) return std::nullopt;
    return value;
  }

  // A character that an escape stands for, the escape's letter taken already.
  Result<char32_t> escaped_char(char32_t letter) {
    constexpr std::string_view letters = "ntrfvae", values = "\n\t\r\f\v\a\x1b";
    if (letter < 0x80) {
      if (const size_t i = letters.find(static_cast<char>(letter)); i != letters.npos) return values[i];
    }
    std::optional<uint32_t> code;
    if (letter == 'x' && take("{")) {
      code = number(1, 8, 16);
      if (!take("}")) code.reset();
    } else if (letter == 'x') {
      code = number(1, 2, 16);
      if (code > 0x7Fu) return tl::unexpected(unsupported("a byte above 0x7f"));
    } else if (letter == 'u') {
      code = number(4, 4, 16);
    } else if (letter == '0') {
      code = number(0, 2, 8);
    } else if (letter < 0x80 && ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z') &&
               std::string_view("cCMGyYXKkg").find(static_cast<char>(letter)) != std::string_view::npos) {
      return tl::unexpected(unsupported(fmt::format("\\{}", static_cast<char>(letter))));
    } else {
      return letter;
    }
    if (!code || *code > CodeSet::kLast || (*code >= 0xD800 && *code < 0xE000)) {
      return tl::unexpected(malformed("not the number of a character"));
    }
    return *code;
  }

  // \s \d \w \h, their capitals and \p{..}; false for another letter.
  Result<bool> escaped_class(char32_t letter, RegexClass& set) {
    if (letter == 'p' || letter == 'P') {
      const size_t end = take("{") ? in_.find('}', at_) : in_.npos;
      if (end == in_.npos) return tl::unexpected(malformed("want \\p{NAME}"));
      HR_RETURN_IF_ERROR(set.add_property(in_.substr(at_, end - at_), letter == 'P'));
      at_ = end + 1;
      return true;
    }
    constexpr std::pair<char32_t, std::string_view> rows[] = {{'s', "space"}, {'d', "Nd"}, {'w', "word"}, {'h', "xdigit"}};
    for (const auto& [small, name] : rows) {
      if (letter != small && letter != small - 32) continue;
      HR_RETURN_IF_ERROR(set.add_property(name, letter != small));
      return true;
    }
    return false;
  }

  Status escape() {
    const size_t begin = at_++;
    if (at_ == in_.size()) return malformed("a backslash ends it");
    const char32_t letter = take_char();
    begin_item();
    RegexClass set;
    HR_ASSIGN_OR_RETURN(const bool is_class, escaped_class(letter, set));
    if (is_class) {  // as it stands, also where case is ignored
      out_ += set.pattern();
      return {};
    }
    switch (letter) {
      case 'b':
      case 'B': {
        RegexClass word;
        HR_RETURN_IF_ERROR(word.add_property("word", false));
        const std::string w = word.pattern();
        const char* const form = letter == 'b' ? "(?:(?<={0})(?!{0})|(?<!{0})(?={0}))" : "(?:(?<={0})(?={0})|(?<!{0})(?!{0}))";
        out_ += fmt::format(fmt::runtime(form), w);
        return {};
      }
      case 'A':
      case 'z':
      case 'Z':
      case 'G':
      case 'K':
        out_ += in_.substr(begin, 2);
        return {};
      case 'R':
        out_ += kLineBreak;
        return {};
      case 'N':
        out_ += R"([^\n])";
        return {};
      case 'O':
        out_ += R"([\x{0}-\x{10ffff}])";
        return {};
      case 'k':
        return reference();
      default:
        break;
    }
    if (letter >= '1' && letter <= '9') {
      if (at_ < in_.size() && in_[at_] >= '0' && in_[at_] <= '9') return unsupported("a reference above \\9");
      if (options_.ignore_case) return unsupported("a reference where case is ignored");
      fmt::format_to(std::back_inserter(out_), "\\g{{{}}}", static_cast<char>(letter));
      return {};
    }
    HR_ASSIGN_OR_RETURN(const char32_t code, escaped_char(letter));
    literal(code);
    return {};
  }

  // \k<name>, the \k taken already.
  Status reference() {
    const size_t end = next_is("<") ? in_.find('>', at_) : in_.npos;
    if (end == in_.npos) return malformed("want \\k<NAME>");
    if (options_.ignore_case) return unsupported("a reference where case is ignored");
    out_ += "\\k";
    out_ += in_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    return {};
  }

  // --- classes ---

  // At '['. Without the case of letters.
  Status char_class(size_t depth, RegexClass& out) {
    if (depth > kMaxClassDepth) return malformed("classes are nested too deeply");
    ++at_;
    const bool negated = take("^");
    RegexClass set;
    std::optional<RegexClass> before;  // what stands before the last "&&"
    for (bool first = true;; first = false) {
      if (at_ == in_.size()) return malformed("a class has no end");
      if (next_is("]") && (!first || in_.find(']', at_ + 1) == in_.npos)) break;
      if (take("&&")) {
        if (before) set.intersect(*before);
        before = std::exchange(set, RegexClass());
      } else if (next_is("[:") && posix_end()) {
        HR_RETURN_IF_ERROR(posix_class(set));
      } else if (next_is("[")) {
        RegexClass inner;
        HR_RETURN_IF_ERROR(char_class(depth + 1, inner));
        set.add(inner);
      } else {
        HR_RETURN_IF_ERROR(class_item(set));
      }
    }
    ++at_;
    if (before) set.intersect(*before);
    if (negated) set.negate();
    out = std::move(set);
    return {};
  }

  size_t posix_end() const {
    const size_t end = in_.find(":]", at_ + 2);
    return end != in_.npos && end - at_ < 24 ? end : 0;
  }

  // [:alpha:] inside a class.
  Status posix_class(RegexClass& set) {
    const size_t end = posix_end();
    std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    for (const char c : name) {
      if (c < 'a' || c > 'z') return malformed("the name of a class is not known");
    }
    at_ = end + 2;
    const bool own = name == "word" || name == "punct";  // more than \w and \p{Punct}
    return set.add_property(own ? fmt::format("posix{}", name) : std::string(name), negated);
  }

  // A character, a range or an escape.
  Status class_item(RegexClass& set) {
    HR_ASSIGN_OR_RETURN(const std::optional<char32_t> first, class_char(set));
    if (!first) return {};
    char32_t last = *first;
    if (next_is("-") && !next_is("-]") && at_ + 1 < in_.size() && !next_is("-[") && !next_is("-&&")) {
      ++at_;
      HR_ASSIGN_OR_RETURN(const std::optional<char32_t> end, class_char(set));
      if (!end || *end < last) return malformed("a range of a class does not end with a later character");
      last = *end;
    }
    set.add(CodeSet({{*first, last}}));
    return {};
  }

  // Nothing when it was an escape that stands for a set.
  Result<std::optional<char32_t>> class_char(RegexClass& set) {
    const char32_t c = take_char();
    if (c != '\\') return std::optional(c);
    if (at_ == in_.size()) return tl::unexpected(malformed("a backslash ends it"));
    const char32_t letter = take_char();
    HR_ASSIGN_OR_RETURN(const bool is_class, escaped_class(letter, set));
    if (is_class) return std::optional<char32_t>();
    if (letter == 'b') return std::optional<char32_t>(U'\b');
    if (letter == 'R' || letter == 'N' || letter == 'O') return tl::unexpected(unsupported("this escape in a class"));
    HR_ASSIGN_OR_RETURN(const char32_t code, escaped_char(letter));
    return std::optional(code);
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  Options options_;
  std::vector<Group> groups_;
  size_t options_opened_ = 0;   // groups that "(?i)" opened in the innermost group
  std::optional<size_t> item_;  // where the last item begins in out_; none at the beginning of an alternative
  bool quantified_ = false;     // the last item has a quantifier
};

}  // namespace

Result<std::string> translate_regex(std::string_view pattern) {
  if (pattern.size() > kMaxRegex) {
    return error(Code::unsupported, "regular expression of {} bytes: want at most {}", pattern.size(), kMaxRegex);
  }
  if (!is_valid_utf8(pattern)) return error(Code::malformed, "regular expression: not UTF-8");
  return Translator(pattern).run();
}

}  // namespace headrace::text
