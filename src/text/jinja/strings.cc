#include "text/jinja/strings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "text/jinja/lexer.h"
#include "text/utf8.h"

namespace headrace::text::jinja {

size_t count_chars(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

size_t byte_of_char(std::string_view text, size_t n) {
  size_t at = 0;
  for (; n > 0 && at < text.size(); --n) at += decode_utf8(text.substr(at)).length;
  return at;
}

size_t find_text(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return text.npos;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : text.npos;
}

// Knuth, Morris and Pratt, from the end.
size_t find_last_text(std::string_view text, std::string_view wanted) {
  const size_t n = wanted.size();
  if (n == 0) return text.size();
  const auto back = [&](size_t i) { return wanted[n - 1 - i]; };
  std::vector<size_t> border(n);
  for (size_t i = 1, k = 0; i < n; ++i) {
    while (k > 0 && back(i) != back(k)) k = border[k - 1];
    if (back(i) == back(k)) ++k;
    border[i] = k;
  }
  size_t matched = 0;
  for (size_t at = text.size(); at-- > 0;) {
    while (matched > 0 && text[at] != back(matched)) matched = border[matched - 1];
    if (text[at] == back(matched)) ++matched;
    if (matched == n) return at;
  }
  return text.npos;
}

namespace {

// The character that ends at `end` > 0.
Utf8Char char_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while ((static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return decode_utf8(text.substr(begin));
}

}  // namespace

Text strip(const Text& text, const Text* chars, bool left, bool right) {
  std::u32string set;
  if (chars) {
    for (size_t at = 0; at < chars->bytes.size();) {
      const Utf8Char c = decode_utf8(std::string_view(chars->bytes).substr(at));
      set.push_back(c.code);
      at += c.length;
    }
    std::sort(set.begin(), set.end());
  }
  const auto strips = [&](char32_t c) {
    return chars ? std::binary_search(set.begin(), set.end(), c) : is_python_space(c);
  };
  size_t begin = 0, end = text.bytes.size();
  while (left && begin < end) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(begin));
    if (!strips(c.code)) break;
    begin += c.length;
  }
  while (right && end > begin) {
    const Utf8Char c = char_before(text.bytes, end);
    if (!strips(c.code)) break;
    end -= c.length;
  }
  return text.sub(begin, end);
}

std::vector<Text> split(Budget& in, const Text& text, std::string_view separator, int64_t most) {
  std::vector<Text> out;
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(out.size()) < most) {
    const size_t found = find_text(text.bytes, separator, begin);
    if (found == std::string::npos) break;
    in.step_texts(1);
    out.push_back(text.sub(begin, found));
    begin = found + separator.size();
  }
  out.push_back(text.sub(begin, text.bytes.size()));
  return out;
}

std::vector<Text> split_from_right(Budget& in, const Text& text, std::string_view separator, int64_t most) {
  std::vector<Text> out;
  size_t end = text.bytes.size();
  while ((most < 0 || static_cast<int64_t>(out.size()) < most) && end >= separator.size()) {
    const size_t found = find_last_text(std::string_view(text.bytes).substr(0, end), separator);
    if (found == std::string::npos) break;
    in.step_texts(1);
    out.push_back(text.sub(found + separator.size(), end));
    end = found;
  }
  out.push_back(text.sub(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Text> split_words(Budget& in, const Text& text, int64_t most, bool from_right) {
  std::vector<ByteRange> words;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    const auto begin = static_cast<uint32_t>(at);
    at += c.length;
    if (is_python_space(c.code)) continue;
    const auto end = static_cast<uint32_t>(at);
    if (!words.empty() && words.back().end == begin) {
      words.back().end = end;
    } else {
      in.step_texts(1);
      words.push_back({begin, end});
    }
  }
  // After `most` cuts the rest stays one piece, white space at its far end and all.
  if (most >= 0 && words.size() > static_cast<size_t>(most) + 1) {
    if (from_right) {
      words.erase(words.begin(), words.end() - most - 1);
      words.front().begin = 0;
    } else {
      words.resize(most + 1);
      words.back().end = static_cast<uint32_t>(text.bytes.size());
    }
  }
  std::vector<Text> out;
  for (const ByteRange& word : words) out.push_back(text.sub(word.begin, word.end));
  return out;
}

std::vector<Text> split_lines(Budget& in, const Text& text, bool final_line, bool keep_ends) {
  std::vector<Text> out;
  const std::string& bytes = text.bytes;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(bytes).substr(at));
    const size_t end = at;
    at += c.length;
    const bool breaks = (c.code >= 0x0A && c.code <= 0x0D) || (c.code >= 0x1C && c.code <= 0x1E) ||
                        c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
    if (!breaks) continue;
    in.step_texts(1);
    if (c.code == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    out.push_back(text.sub(begin, keep_ends ? at : end));
    begin = at;
  }
  if (begin < bytes.size() || final_line) out.push_back(text.sub(begin, bytes.size()));
  return out;
}

Text replace_all(Budget& in, const Text& text, std::string_view from, const Text& to, int64_t most) {
  TextBuilder out;
  size_t begin = 0;
  int64_t done = 0;
  const auto put = [&] {
    out.append(to);
    in.step_bytes(to.bytes.size());
    ++done;
  };
  if (from.empty()) {
    // Between all characters, and at both ends.
    while (most < 0 || done < most) {
      put();
      if (begin >= text.bytes.size()) break;
      const size_t end = begin + decode_utf8(std::string_view(text.bytes).substr(begin)).length;
      out.append(text, begin, end);
      begin = end;
    }
  } else {
    while (most < 0 || done < most) {
      const size_t found = find_text(text.bytes, from, begin);
      if (found == std::string::npos) break;
      out.append(text, begin, found);
      put();
      begin = found + from.size();
    }
  }
  out.append(text, begin, text.bytes.size());
  return out.take();
}

Text pad(Budget& in, const Text& text, int64_t width, std::string_view fill, Align align) {
  const auto length = static_cast<int64_t>(count_chars(text.bytes));
  if (width <= length) return text;
  const auto missing = static_cast<size_t>(width - length);
  in.step(missing);
  // str.center gives the odd character to the left when the width is odd.
  const size_t left = align == Align::left    ? 0
                      : align == Align::right ? missing
                                              : missing / 2 + (missing & width & 1);
  TextBuilder out;
  for (size_t i = 0; i < left; ++i) out.append_data(fill);
  out.append(text);
  for (size_t i = left; i < missing; ++i) out.append_data(fill);
  return out.take();
}

std::optional<int64_t> parse_python_integer(std::string_view text, int base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.size() > 2 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    const int prefix_base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (prefix_base && (base == prefix_base || base == 0)) {
      base = prefix_base;
      text.remove_prefix(2);
    }
  }
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, base ? base : 10);
  if (failed != std::errc() || end != text.data() + text.size() || text.starts_with('-')) return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> parse_python_real(std::string_view text) {
  const bool plus = text.starts_with('+');
  std::string digits(text.substr(plus));
  // A `_` stands between digits.
  for (size_t at = 0; (at = digits.find('_', at)) != std::string::npos; digits.erase(at, 1)) {
    const auto is_digit = [&](size_t i) { return i < digits.size() && digits[i] >= '0' && digits[i] <= '9'; };
    if (at == 0 || !is_digit(at - 1) || !is_digit(at + 1)) return std::nullopt;
  }
  if (plus && digits.starts_with('-')) return std::nullopt;
  double value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  // Too large or too small: as strtod() rounds it.
  if (failed == std::errc::result_out_of_range) return std::strtod(digits.c_str(), nullptr);
  if (failed != std::errc() || digits.find('(') != std::string::npos) return std::nullopt;
  return value;
}

}  // namespace headrace::text::jinja
