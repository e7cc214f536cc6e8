#include "text/jinja/strings.h"

#include <algorithm>
#include <charconv>

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

std::vector<Text> split(const Text& text, std::string_view separator, int64_t most) {
  std::vector<Text> out;
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(out.size()) < most) {
    const size_t found = text.bytes.find(separator, begin);
    if (found == std::string::npos) break;
    out.push_back(text.sub(begin, found));
    begin = found + separator.size();
  }
  out.push_back(text.sub(begin, text.bytes.size()));
  return out;
}

std::vector<Text> split_from_right(const Text& text, std::string_view separator, int64_t most) {
  std::vector<Text> out;
  size_t end = text.bytes.size();
  while ((most < 0 || static_cast<int64_t>(out.size()) < most) && end >= separator.size()) {
    const size_t found = text.bytes.rfind(separator, end - separator.size());
    if (found == std::string::npos) break;
    out.push_back(text.sub(found + separator.size(), end));
    end = found;
  }
  out.push_back(text.sub(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Text> split_words(const Text& text, int64_t most, bool from_right) {
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

std::vector<Text> split_lines(const Text& text, bool final_line, bool keep_ends) {
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
    if (c.code == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    out.push_back(text.sub(begin, keep_ends ? at : end));
    begin = at;
  }
  if (begin < bytes.size() || final_line) out.push_back(text.sub(begin, bytes.size()));
  return out;
}

Text replace_all(Interpreter& in, const Text& text, std::string_view from, const Text& to, int64_t most) {
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
      const size_t found = text.bytes.find(from, begin);
      if (found == std::string::npos) break;
      out.append(text, begin, found);
      put();
      begin = found + from.size();
    }
  }
  out.append(text, begin, text.bytes.size());
  return out.take();
}

Text pad(Interpreter& in, const Text& text, int64_t width, char fill, Align align) {
  const auto length = static_cast<int64_t>(count_chars(text.bytes));
  if (width <= length) return text;
  const auto missing = static_cast<size_t>(width - length);
  in.step_bytes(missing);
  // str.center gives the odd character to the left when the width is odd.
  const size_t left = align == Align::left    ? 0
                      : align == Align::right ? missing
                                              : missing / 2 + (missing & width & 1);
  TextBuilder out;
  out.append_data(std::string(left, fill));
  out.append(text);
  out.append_data(std::string(missing - left, fill));
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
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data() + plus, text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() ||
      (plus && text.substr(1).starts_with('-'))) {
    return std::nullopt;
  }
  return value;
}

namespace {

std::string format_number(std::string_view flags, int64_t width, int precision, char kind,
                          const Value& value) {
  if (!value.defined().is_number())
    fail("%{} format: a real number is required, not {}", kind, type_name(value));
  std::string digits;
  const double real = value.as_real();
  switch (kind) {
    case 'd':
    case 'i':
    case 'u':
      digits = std::to_string(value.real() ? static_cast<int64_t>(real) : value.as_integer());
      break;
    case 'x':
      digits = fmt::format("{:x}", value.as_integer());
      break;
    case 'X':
      digits = fmt::format("{:X}", value.as_integer());
      break;
    case 'o':
      digits = fmt::format("{:o}", value.as_integer());
      break;
    case 'e':
      digits = fmt::format("{:.{}e}", real, precision < 0 ? 6 : precision);
      break;
    case 'g':
      digits = fmt::format("{:.{}g}", real, precision < 0 ? 6 : precision);
      break;
    default:
      digits = fmt::format("{:.{}f}", real, precision < 0 ? 6 : precision);
      break;
  }
  if (!digits.starts_with('-') && flags.find('+') != flags.npos) digits.insert(digits.begin(), '+');
  if (flags.find('0') != flags.npos && static_cast<int64_t>(digits.size()) < width) {
    const size_t sign = digits[0] == '-' || digits[0] == '+';
    digits.insert(sign, width - digits.size(), '0');
  }
  return digits;
}

}  // namespace

Value format_percent(Interpreter& in, const Value& format, Args& args) {
  const Text source = to_text(format);
  const std::string& f = source.bytes;
  TextBuilder out;
  size_t next = 0;
  for (size_t at = 0; at < f.size();) {
    const size_t percent = std::min(f.find('%', at), f.size());
    out.append(source, at, percent);
    if (percent == f.size()) break;
    at = percent + 1;
    std::string_view name;
    if (at < f.size() && f[at] == '(') {
      const size_t close = f.find(')', at);
      if (close == f.npos) fail("incomplete format key");
      name = std::string_view(f).substr(at + 1, close - at - 1);
      at = close + 1;
    }
    const size_t flags_begin = at;
    while (at < f.size() && std::string_view("-+ #0").find(f[at]) != std::string_view::npos) ++at;
    const std::string_view flags = std::string_view(f).substr(flags_begin, at - flags_begin);
    const auto number = [&] {
      int64_t n = 0;
      while (at < f.size() && f[at] >= '0' && f[at] <= '9' && n < 10'000) n = n * 10 + (f[at++] - '0');
      return n;
    };
    const int64_t width = number();
    int precision = -1;
    if (at < f.size() && f[at] == '.') {
      ++at;
      precision = static_cast<int>(number());
    }
    if (width > 1000 || precision > 300) fail("format: want a width up to 1000 and a precision up to 300");
    if (at >= f.size()) fail("incomplete format");
    const char kind = f[at++];
    if (kind == '%') {
      out.append_trusted("%");
      continue;
    }
    const Value* value = nullptr;
    if (!name.empty()) {
      for (const auto& [key, v] : args.named) {
        if (key == name) value = &v;
      }
      if (!value && !args.positional.empty() && args.positional[0].dict())
        value = args.positional[0].dict()->find(name);
      if (!value) fail("format: there is no value named '{}'", name);
    } else {
      if (next >= args.positional.size()) fail("not enough arguments for format string");
      value = &args.positional[next++];
    }
    Text text;
    if (kind == 's') {
      text = to_text(*value);
    } else if (kind == 'r' || kind == 'a') {
      append_repr(*value, text.bytes);
    } else if (std::string_view("diuxXoeEfFgG").find(kind) != std::string_view::npos) {
      text.bytes = format_number(flags, width, precision, kind, *value);
    } else {
      fail("unsupported format character '{}'", kind);
    }
    if (precision >= 0 && (kind == 's' || kind == 'r'))
      text = text.sub(0, byte_of_char(text.bytes, precision));
    const bool left = flags.find('-') != flags.npos;
    text = pad(in, text, width, ' ', left ? Align::left : Align::right);
    in.step_bytes(text.bytes.size());
    out.append(text);
  }
  return out.take();
}

}  // namespace headrace::text::jinja
