#include "text/json_lists.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "text/utf8.h"

namespace headrace::text {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  // A string: a view into the text, or into `decoded` when it has escapes.
  std::optional<std::string_view> string(std::string& decoded) {
    if (!take('"')) return std::nullopt;
    const size_t begin = at_;
    bool escapes = false;
    for (at_ = next_mark(at_); at_ < text_.size() && text_[at_] != '"'; at_ = next_mark(at_ + 2)) {
      if (text_[at_] != '\\') return std::nullopt;  // a control character
      escapes = true;
    }
    if (at_ >= text_.size()) return std::nullopt;
    const std::string_view raw = text_.substr(begin, at_++ - begin);
    if (!escapes) return raw;
    if (!decode(raw, decoded)) return std::nullopt;
    return decoded;
  }

  template <class Number>
  std::optional<Number> number() {
    Number value{};
    const char first = peek();
    if (first != '-' && (first < '0' || first > '9')) return std::nullopt;
    const auto [end, failed] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (failed != std::errc()) return std::nullopt;
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  // Passes one value without looking at more than its strings and brackets. False at the end of the text.
  bool skip_value() {
    size_t depth = 0;
    skip_space();
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        for (at_ = next_mark(at_ + 1); at_ < text_.size() && text_[at_] != '"';) {
          at_ = next_mark(at_ + (text_[at_] == '\\' ? 2 : 1));
        }
        if (depth == 0) return ++at_ <= text_.size();
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if (c == ']' || c == '}') {
        if (depth == 0) return true;  // the container's own end, after a number or a word
        if (--depth == 0) return ++at_ <= text_.size();
      } else if (c == ',' && depth == 0) {
        return true;
      } else if (c == '\n') {
        ++at_;
        skip_space();
        --at_;
      }
    }
    return false;
  }

 private:
  // Eight bytes at once, for as long as there are eight. Files of large vocabularies are white space for the most part.
  uint64_t eight(size_t at) const {
    uint64_t word;
    std::memcpy(&word, text_.data() + at, 8);
    return word;
  }

  // The first quote, backslash or control character from `at` on; the text's size when there is none.
  size_t next_mark(size_t at) const {
    static_assert(std::endian::native == std::endian::little);
    constexpr uint64_t ones = 0x0101010101010101, tops = ones * 0x80;
    const auto zeros = [](uint64_t word) { return (word - ones) & ~word & tops; };
    for (; at + 8 <= text_.size(); at += 8) {
      const uint64_t word = eight(at);
      const uint64_t marks = zeros(word ^ ones * '"') | zeros(word ^ ones * '\\') | ((word - ones * 0x20) & ~word & tops);
      if (marks != 0) return at + static_cast<size_t>(std::countr_zero(marks)) / 8;
    }
    for (; at < text_.size(); ++at) {
      if (text_[at] == '"' || text_[at] == '\\' || static_cast<uint8_t>(text_[at]) < 0x20) return at;
    }
    return text_.size();
  }

  void skip_space() {
    if (at_ < text_.size() && static_cast<uint8_t>(text_[at_]) > ' ') return;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    while (at_ + 8 <= text_.size()) {
      const uint64_t others = eight(at_) ^ 0x2020202020202020;
      at_ += others == 0 ? 8 : static_cast<size_t>(std::countr_zero(others)) / 8;
      if (others != 0) break;
    }
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  static std::optional<char32_t> hex4(std::string_view text) {
    uint32_t code = 0;
    if (text.size() < 4) return std::nullopt;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + 4, code, 16);
    if (failed != std::errc() || end != text.data() + 4) return std::nullopt;
    return code;
  }

  static bool decode(std::string_view raw, std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
    out.clear();
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out += raw[i];
        continue;
      }
      if (++i == raw.size()) return false;
      if (const size_t letter = letters.find(raw[i]); letter != letters.npos) {
        out += values[letter];
        continue;
      }
      if (raw[i] != 'u') return false;
      auto code = hex4(raw.substr(i + 1));
      if (!code) return false;
      i += 4;
      if (*code >= 0xD800 && *code < 0xE000) {
        const auto low = raw.substr(i + 1, 2) == "\\u" ? hex4(raw.substr(i + 3)) : std::nullopt;
        if (*code >= 0xDC00 || !low || *low < 0xDC00 || *low >= 0xE000) return false;
        code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
        i += 6;
      }
      append_utf8(out, *code);
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Status wrong(const char* list, const char* wanted, const Reader& reader) {
  return make_status(Code::malformed, "tokenizer.json: {}, byte {} of it: want {}", list, reader.at(),
                     wanted);
}

// Calls `element` between the brackets, once an element.
template <class Element>
Status read_list(Reader& reader, const char* name, char open, char close, Element element) {
  if (!reader.take(open)) return wrong(name, open == '{' ? "an object" : "a list", reader);
  if (!reader.take(close)) {
    do {
      HR_RETURN_IF_ERROR(element());
    } while (reader.take(','));
    if (!reader.take(close)) return wrong(name, "a comma or the end of the list", reader);
  }
  return reader.at_end() ? Status() : wrong(name, "nothing after the list", reader);
}

}  // namespace

JsonLists take_lists(std::string_view file, const std::function<void(std::string_view)>& found_vocab) {
  JsonLists lists;
  struct Cut {
    size_t begin, end;
  };
  std::vector<Cut> cuts;
  std::string decoded;
  // One level of an object: `visit(key)` passes the value.
  const auto walk = [&](Reader& reader, const auto& visit) {
    if (!reader.take('{')) return false;
    if (reader.take('}')) return true;
    do {
      const auto key = reader.string(decoded);
      if (!key || !reader.take(':') || !visit(*key)) return false;
    } while (reader.take(','));
    return reader.take('}');
  };
  Reader reader(file);
  const bool found = walk(reader, [&](std::string_view key) {
    if (key != "model" || reader.peek() != '{') return reader.skip_value();
    return walk(reader, [&](std::string_view part) {
      std::string_view* const list = part == "vocab"    ? &lists.vocab
                                     : part == "merges" ? &lists.merges
                                                        : nullptr;
      reader.peek();
      const size_t begin = reader.at();
      if (!reader.skip_value()) return false;
      if (list != nullptr) {
        *list = file.substr(begin, reader.at() - begin);
        cuts.push_back({begin, reader.at()});
        if (list == &lists.vocab && found_vocab) found_vocab(*list);
      }
      return true;
    });
  });
  if (!found) return {std::string(file), {}, {}};
  size_t at = 0;
  for (const Cut& cut : cuts) {
    lists.rest += file.substr(at, cut.begin - at);
    lists.rest += "null";
    at = cut.end;
  }
  lists.rest += file.substr(at);
  return lists;
}

namespace {

// The list's next string, as a view that stays.
std::optional<std::string_view> kept_string(Reader& reader, std::string& buffer, std::deque<std::string>& decoded) {
  const auto text = reader.string(buffer);
  if (!text || text->data() != buffer.data()) return text;
  return decoded.emplace_back(buffer);
}

// Room for the elements of a list as files of large vocabularies are written: at least so many bytes each.
constexpr size_t kBytesOfElement = 24;

}  // namespace

Result<ListedIds> read_ids(std::string_view list, std::deque<std::string>& decoded) {
  constexpr const char* name = "model.vocab";
  ListedIds ids;
  ids.reserve(list.size() / kBytesOfElement);
  Reader reader(list);
  std::string buffer;
  HR_RETURN_IF_ERROR(read_list(reader, name, '{', '}', [&]() -> Status {
    const auto token = kept_string(reader, buffer, decoded);
    if (!token || !is_valid_utf8(*token)) return wrong(name, "a string", reader);
    if (!reader.take(':')) return wrong(name, "a colon", reader);
    const auto id = reader.number<int64_t>();
    if (!id) return wrong(name, "an integer", reader);
    ids.emplace_back(*token, *id);
    return {};
  }));
  return ids;
}

Result<ListedScores> read_scores(std::string_view list, std::deque<std::string>& decoded) {
  constexpr const char* name = "model.vocab";
  ListedScores scores;
  scores.reserve(list.size() / kBytesOfElement);
  Reader reader(list);
  std::string buffer;
  HR_RETURN_IF_ERROR(read_list(reader, name, '[', ']', [&]() -> Status {
    const auto token = reader.take('[') ? kept_string(reader, buffer, decoded) : std::nullopt;
    if (!token || !is_valid_utf8(*token)) return wrong(name, "a pair of a string and a number", reader);
    const auto score = reader.take(',') ? reader.number<double>() : std::nullopt;
    if (!score || !std::isfinite(*score) || !reader.take(']'))
      return wrong(name, "a number that ends the pair", reader);
    scores.emplace_back(*token, *score);
    return {};
  }));
  return scores;
}

Result<Merges> read_merges(std::string_view list, std::deque<std::string>& decoded) {
  constexpr const char* name = "model.merges";
  Merges merges;
  merges.reserve(list.size() / kBytesOfElement);
  Reader reader(list);
  std::string buffer;
  const auto string = [&] { return kept_string(reader, buffer, decoded); };
  const Status status = read_list(reader, name, '[', ']', [&]() -> Status {
    if (reader.take('[')) {
      const auto left = string();
      const auto right = left && reader.take(',') ? string() : std::nullopt;
      if (!right || !reader.take(']')) return wrong(name, "a pair of strings", reader);
      merges.emplace_back(*left, *right);
      return {};
    }
    const auto text = string();
    if (!text) return wrong(name, "a string or a pair of strings", reader);
    const size_t space = text->find(' ');
    if (space == text->npos || text->find(' ', space + 1) != text->npos) {
      return make_status(Code::malformed, "tokenizer.json: merge {}: want \"left right\", got \"{}\"",
                         merges.size(), *text);
    }
    merges.emplace_back(text->substr(0, space), text->substr(space + 1));
    return {};
  });
  if (!status.ok()) return tl::unexpected(status);
  return merges;
}

}  // namespace headrace::text
