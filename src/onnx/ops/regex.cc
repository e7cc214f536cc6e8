#include "onnx/ops/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "onnx/ops/utf8.h"

namespace headrace::onnx {
namespace {

constexpr int kMaxDepth = 200, kMaxRepeat = 1000;  // groups in groups; RE2's limit of {n}
constexpr size_t kMaxStates = 1 << 15, kMaxSteps = 1 << 18;

struct Node {
  enum class Kind : uint8_t { set, place, sequence, choice, repeat } kind = Kind::sequence;
  CharSet set;
  Regex::Place place = Regex::Place::text_begin;
  std::vector<Node> parts;
  int least = 0, most = -1;  // repeat; -1: without end
};

struct Flags {
  bool any_case = false, dot_all = false, lines = false;
};

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_word(char32_t c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

void add_complement(Ranges& to, Ranges ranges) {
  std::ranges::sort(ranges);
  char32_t next = 0;
  for (const auto& [low, high] : ranges) {
    if (low > next) to.emplace_back(next, low - 1);
    next = std::max<char32_t>(next, high + 1);
  }
  if (next < kByte) to.emplace_back(next, kByte - 1);
}

// \d, \w, \s by their letters.
std::optional<Ranges> perl_class(char32_t letter) {
  if (letter == 'd') return Ranges{{'0', '9'}};
  if (letter == 'w') return Ranges{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  if (letter == 's') return Ranges{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
  return std::nullopt;
}

std::optional<Ranges> posix_class(std::string_view name) {
  static const std::pair<std::string_view, Ranges> classes[] = {{"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
                                                                {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
                                                                {"ascii", {{0, 0x7F}}},
                                                                {"blank", {{'\t', '\t'}, {' ', ' '}}},
                                                                {"cntrl", {{0, 0x1F}, {0x7F, 0x7F}}},
                                                                {"digit", {{'0', '9'}}},
                                                                {"graph", {{'!', '~'}}},
                                                                {"lower", {{'a', 'z'}}},
                                                                {"print", {{' ', '~'}}},
                                                                {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
                                                                {"space", {{'\t', '\r'}, {' ', ' '}}},
                                                                {"upper", {{'A', 'Z'}}},
                                                                {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
                                                                {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
  for (const auto& [own, ranges] : classes) {
    if (own == name) return ranges;
  }
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(code_points(pattern)) {}

  Result<Node> parse() {
    if (std::ranges::any_of(pattern_, [](char32_t c) { return c >= kByte; })) return wrong("is not UTF-8");
    HR_ASSIGN_OR_RETURN(Node node, choice(0));
    if (at_ < pattern_.size()) return wrong("a ) that closes nothing");
    return node;
  }

 private:
  tl::unexpected<Status> wrong(std::string_view why, Code code = Code::malformed) const {
    return error(code, "pattern, at code point {}: {}", at_, why);
  }
  bool done() const { return at_ >= pattern_.size(); }
  char32_t peek() const { return done() ? kByte : pattern_[at_]; }
  bool take(std::u32string_view text) {
    if (pattern_.size() - at_ < text.size() ||
        !std::equal(text.begin(), text.end(), pattern_.begin() + static_cast<std::ptrdiff_t>(at_)))
      return false;
    at_ += text.size();
    return true;
  }

  Result<Node> choice(int depth) {
    if (depth > kMaxDepth) return wrong("too many groups within each other", Code::resource_exhausted);
    const Flags outer = flags_;
    Node node{.kind = Node::Kind::choice, .set = {}, .parts = {}};
    do {
      HR_ASSIGN_OR_RETURN(Node part, sequence(depth));
      node.parts.push_back(std::move(part));
    } while (take(U"|"));
    flags_ = outer;
    return node;
  }

  Result<Node> sequence(int depth) {
    Node node{.kind = Node::Kind::sequence, .set = {}, .parts = {}};
    while (!done() && peek() != '|' && peek() != ')') {
      if (take(U"\\Q")) {
        while (!done() && !take(U"\\E")) node.parts.push_back(literal(pattern_[at_++]));
        continue;
      }
      HR_ASSIGN_OR_RETURN(std::optional<Node> part, atom(depth));
      if (!part) continue;  // flags alone
      HR_ASSIGN_OR_RETURN(Node repeated, quantified(std::move(*part)));
      node.parts.push_back(std::move(repeated));
    }
    return node;
  }

  Result<std::optional<std::pair<int, int>>> quantifier() {
    if (take(U"*")) return std::pair(0, -1);
    if (take(U"+")) return std::pair(1, -1);
    if (take(U"?")) return std::pair(0, 1);
    const size_t start = at_;
    if (!take(U"{")) return std::nullopt;
    const auto number = [&]() -> std::optional<int> {
      if (!is_digit(peek())) return std::nullopt;
      int value = 0;
      while (is_digit(peek())) value = std::min(value * 10 + static_cast<int>(pattern_[at_++] - '0'), kMaxRepeat + 1);
      return value;
    };
    const std::optional<int> least = number();
    std::optional<int> most = least;
    if (least && take(U",")) {
      most = number();
      if (!most) most = -1;
    }
    if (!least || !take(U"}")) {  // no count: a brace as it stands
      at_ = start;
      return std::nullopt;
    }
    if (*least > kMaxRepeat || *most > kMaxRepeat || (*most >= 0 && *most < *least))
      return wrong("a count beyond 1000, or the smaller one last");
    return std::pair(*least, *most);
  }

  Result<Node> quantified(Node node) {
    HR_ASSIGN_OR_RETURN(const auto counts, quantifier());
    if (!counts) return node;
    take(U"?");  // lazy
    const size_t before = at_;
    HR_ASSIGN_OR_RETURN(const auto again, quantifier());
    if (again) {
      at_ = before;
      return wrong("a repetition of a repetition");
    }
    Node repeat{.kind = Node::Kind::repeat, .set = {}, .parts = {}, .least = counts->first, .most = counts->second};
    repeat.parts.push_back(std::move(node));
    return repeat;
  }

  Node literal(char32_t c) const { return set_of({{{c, c}}, false, flags_.any_case}); }
  static Node set_of(CharSet set) { return {.kind = Node::Kind::set, .set = std::move(set), .parts = {}}; }
  static Node place_of(Regex::Place place) { return {.kind = Node::Kind::place, .set = {}, .place = place, .parts = {}}; }

  Result<std::optional<Node>> atom(int depth) {
    using Place = Regex::Place;
    if (take(U"(")) return group(depth);
    if (take(U"[")) return bracket();
    if (take(U"^")) return place_of(flags_.lines ? Place::line_begin : Place::text_begin);
    if (take(U"$")) return place_of(flags_.lines ? Place::line_end : Place::text_end);
    if (take(U".")) return set_of({flags_.dot_all ? Ranges{} : Ranges{{'\n', '\n'}}, true, false});
    if (peek() == '*' || peek() == '+' || peek() == '?') return wrong("a repetition of nothing");
    if (take(U"\\A")) return place_of(Place::text_begin);
    if (take(U"\\z")) return place_of(Place::text_end);
    if (take(U"\\b")) return place_of(Place::word_edge);
    if (take(U"\\B")) return place_of(Place::no_word_edge);
    if (peek() != '\\') return literal(pattern_[at_++]);
    CharSet set{{}, false, flags_.any_case};
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const auto single, escape(set.ranges));
    return set_of(std::move(set));
  }

  Result<std::optional<Node>> group(int depth) {
    const Flags outer = flags_;
    if (take(U"?")) {
      if (take(U"P<") || take(U"<")) {
        const size_t start = at_;
        while (!done() && is_word(peek())) ++at_;
        if (at_ == start || !take(U">")) return wrong("want a name and >");
      } else {
        bool on = true, any = false;
        for (; !done() && peek() != ')' && peek() != ':'; ++at_) {
          const char32_t c = peek();
          if (c == '-' && on) {
            on = false;
            any = false;
            continue;
          }
          if (c == 'i') flags_.any_case = on;
          else if (c == 's') flags_.dot_all = on;
          else if (c == 'm') flags_.lines = on;
          else if (c != 'U') return wrong("want (?flags) of i, m, s and U, (?:...) or (?P<name>...)");
          any = true;
        }
        if (done() || (!on && !any)) return wrong("flags without an end");
        if (take(U")")) return std::nullopt;  // they hold until the surrounding group ends
        take(U":");
      }
    }
    HR_ASSIGN_OR_RETURN(Node node, choice(depth + 1));
    flags_ = outer;
    if (!take(U")")) return wrong("want )");
    return node;
  }

  // What stands behind a backslash, into ranges; the code point when it is a single one.
  Result<std::optional<char32_t>> escape(Ranges& ranges) {
    ++at_;
    if (done()) return wrong("a backslash at the end");
    const char32_t c = pattern_[at_++];
    const char32_t lower = c >= 'A' && c <= 'Z' ? c + 32 : c;
    if (const auto known = perl_class(lower)) {
      if (lower == c) ranges.insert(ranges.end(), known->begin(), known->end());
      else add_complement(ranges, *known);
      return std::nullopt;
    }
    if (lower == 'p' || c == 'C') return wrong("Unicode classes and single bytes are not there", Code::unsupported);
    char32_t point = c;
    constexpr std::u32string_view letters = U"aftnrv", meanings = U"\a\f\t\n\r\v";
    if (const size_t at = letters.find(c); at != letters.npos) point = meanings[at];
    else if (c >= '0' && c <= '7') {
      // Octal: \0 to \077 and \123; a single digit from 1 on would be a reference to a group.
      const bool longer = peek() >= '0' && peek() <= '7';
      if (c != '0' && !longer) return wrong("references to groups do not exist");
      point = c - '0';
      for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) point = point * 8 + (pattern_[at_++] - '0');
    } else if (c == 'x') {
      HR_ASSIGN_OR_RETURN(point, hexadecimal());
    } else if (is_word(c) || c >= 0x80) {
      return wrong("an escape that means nothing");
    }
    ranges.emplace_back(point, point);
    return point;
  }

  Result<char32_t> hexadecimal() {
    const bool braces = take(U"{");
    char32_t point = 0;
    size_t digits = 0;
    for (; digits < (braces ? 8u : 2u) && !done(); ++digits, ++at_) {
      const char32_t c = peek();
      if (is_digit(c)) point = point * 16 + (c - '0');
      else if ((c | 32) >= 'a' && (c | 32) <= 'f') point = point * 16 + ((c | 32) - 'a' + 10);
      else break;
      if (point >= kByte) return wrong("a code point beyond 10FFFF");
    }
    if (digits == 0 || (braces ? !take(U"}") : digits != 2)) return wrong("want \\xHH or \\x{H...}");
    return point;
  }

  Result<std::optional<Node>> bracket() {
    CharSet set{{}, take(U"^"), flags_.any_case};
    bool first = true;
    while (first || peek() != ']') {
      first = false;
      if (done()) return wrong("want ]");
      if (take(U"[:")) {
        const bool negated = take(U"^");
        std::string name;
        while (!done() && peek() >= 'a' && peek() <= 'z') name += static_cast<char>(pattern_[at_++]);
        const auto known = posix_class(name);
        if (!known || !take(U":]")) return wrong("want a class like [:alpha:]");
        if (negated) add_complement(set.ranges, *known);
        else set.ranges.insert(set.ranges.end(), known->begin(), known->end());
        continue;
      }
      HR_ASSIGN_OR_RETURN(const std::optional<char32_t> low, member(set.ranges));
      const bool is_range = low && peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!is_range) continue;
      ++at_;
      Ranges ignored;
      HR_ASSIGN_OR_RETURN(const std::optional<char32_t> high, member(ignored));
      if (!high || *high < *low) return wrong("a range whose end is no code point, or before its begin");
      set.ranges.back() = {*low, *high};
    }
    ++at_;
    return set_of(std::move(set));
  }

  Result<std::optional<char32_t>> member(Ranges& ranges) {
    if (peek() == '\\') return escape(ranges);
    const char32_t c = pattern_[at_++];
    ranges.emplace_back(c, c);
    return c;
  }

  const std::vector<char32_t> pattern_;
  size_t at_ = 0;
  Flags flags_;
};

// States in the order in which they run: a state's successor is the next one unless it says otherwise.
class Builder {
 public:
  Builder(std::vector<Regex::State>& states, std::vector<CharSet>& sets) : states_(states), sets_(sets) {}

  Status emit(const Node& node) {
    if (++steps_ > kMaxSteps || states_.size() > kMaxStates)
      return make_status(Code::resource_exhausted, "pattern: more than {} states", kMaxStates);
    using Kind = Regex::State::Kind;
    switch (node.kind) {
      case Node::Kind::set:
        sets_.push_back(node.set);
        add({.kind = Kind::set, .set = sets_.size() - 1});
        return {};
      case Node::Kind::place: add({.kind = Kind::place, .place = node.place}); return {};
      case Node::Kind::sequence:
        for (const Node& part : node.parts) HR_RETURN_IF_ERROR(emit(part));
        return {};
      case Node::Kind::choice: {
        std::vector<size_t> ends;
        for (size_t i = 0; i < node.parts.size(); ++i) {
          const bool last = i + 1 == node.parts.size();
          const size_t split = last ? 0 : add({.kind = Kind::split});
          HR_RETURN_IF_ERROR(emit(node.parts[i]));
          if (last) continue;
          ends.push_back(add({.kind = Kind::split}));
          states_[split].or_next = states_.size();
        }
        for (const size_t end : ends) states_[end].next = states_[end].or_next = states_.size();
        return {};
      }
      case Node::Kind::repeat: return emit_repeat(node);
    }
    return {};
  }

  size_t add(Regex::State state) {
    state.next = state.or_next = states_.size() + 1;
    states_.push_back(state);
    return states_.size() - 1;
  }

 private:
  Status emit_repeat(const Node& node) {
    using Kind = Regex::State::Kind;
    for (int i = 0; i < node.least; ++i) HR_RETURN_IF_ERROR(emit(node.parts[0]));
    if (node.most < 0) {
      const size_t split = add({.kind = Kind::split});
      HR_RETURN_IF_ERROR(emit(node.parts[0]));
      const size_t back = add({.kind = Kind::split});
      states_[back].next = states_[back].or_next = split;
      states_[split].or_next = states_.size();
      return {};
    }
    std::vector<size_t> splits;
    for (int i = node.least; i < node.most; ++i) {
      splits.push_back(add({.kind = Kind::split}));
      HR_RETURN_IF_ERROR(emit(node.parts[0]));
    }
    for (const size_t split : splits) states_[split].or_next = states_.size();
    return {};
  }

  std::vector<Regex::State>& states_;
  std::vector<CharSet>& sets_;
  size_t steps_ = 0;
};

bool holds(Regex::Place place, std::span<const char32_t> text, size_t at) {
  const bool word_before = at > 0 && is_word(text[at - 1]), word_after = at < text.size() && is_word(text[at]);
  switch (place) {
    case Regex::Place::text_begin: return at == 0;
    case Regex::Place::text_end: return at == text.size();
    case Regex::Place::line_begin: return at == 0 || text[at - 1] == '\n';
    case Regex::Place::line_end: return at == text.size() || text[at] == '\n';
    case Regex::Place::word_edge: return word_before != word_after;
    case Regex::Place::no_word_edge: return word_before == word_after;
  }
  return false;
}

}  // namespace

bool CharSet::contains(char32_t point) const {
  if (point >= kByte) return false;
  const auto inside = [&](char32_t c) {
    return std::ranges::any_of(ranges, [&](const auto& range) { return c >= range.first && c <= range.second; });
  };
  return (inside(point) || (any_case && (inside(to_lower(point)) || inside(to_upper(point))))) != negated;
}

Result<Regex> Regex::compile(std::string_view pattern) {
  HR_ASSIGN_OR_RETURN(const Node node, Parser(pattern).parse());
  Regex regex;
  Builder builder(regex.states_, regex.sets_);
  HR_RETURN_IF_ERROR(builder.emit(node));
  builder.add({.kind = State::Kind::match});
  return regex;
}

bool Regex::matches_all_of(std::string_view text) const {
  const std::vector<char32_t> points = code_points(text);
  std::vector<size_t> now, next, pending;
  std::vector<size_t> seen(states_.size(), points.size() + 1);  // at which place a state was reached last
  // A state and all that follow from it without taking a code point.
  const auto reach = [&](size_t state, size_t at, std::vector<size_t>& list) {
    pending.push_back(state);
    while (!pending.empty()) {
      const size_t own = pending.back();
      pending.pop_back();
      if (seen[own] == at) continue;
      seen[own] = at;
      if (states_[own].kind == State::Kind::split) {
        pending.push_back(states_[own].or_next);
        pending.push_back(states_[own].next);
      } else if (states_[own].kind == State::Kind::place) {
        if (holds(states_[own].place, points, at)) pending.push_back(states_[own].next);
      } else {
        list.push_back(own);
      }
    }
  };
  reach(0, 0, now);
  for (size_t at = 0; at < points.size() && !now.empty(); ++at) {
    next.clear();
    for (const size_t own : now) {
      if (states_[own].kind == State::Kind::set && sets_[states_[own].set].contains(points[at]))
        reach(states_[own].next, at + 1, next);
    }
    std::swap(now, next);
  }
  return std::ranges::any_of(now, [&](size_t own) { return states_[own].kind == State::Kind::match; });
}

}  // namespace headrace::onnx
