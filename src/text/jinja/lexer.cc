#include "text/jinja/lexer.h"

#include <algorithm>

#include "text/jinja/value.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text::jinja {
namespace {

// As Jinja reads a source: every kind of line break is \n, and one at the very end is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string out = to_valid_utf8(source);
  size_t to = 0;
  for (size_t from = 0; from < out.size(); ++from) {
    if (out[from] == '\r') {
      if (from + 1 < out.size() && out[from + 1] == '\n') ++from;
      out[to++] = '\n';
    } else {
      out[to++] = out[from];
    }
  }
  out.resize(to);
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_name_start(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_char(char c) {
  return is_name_start(c) || is_digit(c);
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Lexeme> run() {
    while (at_ < source_.size()) {
      const size_t tag = find_tag();
      if (tag == source_.size()) {
        add_data(source_.substr(at_));
        advance(tag);
        break;
      }
      const char kind = source_[tag + 1];
      const size_t raw_body = kind == '%' ? match_raw(tag) : 0;
      const char sign = sign_at(tag + 2);
      add_data(text_before_tag(tag, sign, kind != '{'));
      advance(tag);
      if (raw_body) {
        advance(raw_body);
        lex_raw();
      } else if (kind == '#') {
        advance(tag + 2 + (sign != 0));
        lex_comment();
      } else {
        add(kind == '%' ? TokenType::block_begin : TokenType::variable_begin, "");
        advance(tag + 2 + (sign != 0));
        lex_tag(kind);
      }
    }
    add(TokenType::end, "");
    return std::move(out_);
  }

 private:
  [[noreturn]] void error_at(std::string message) {
    throw TemplateError{Code::malformed, std::move(message), line_};
  }

  void add(TokenType type, std::string text) { out_.push_back({type, std::move(text), line_}); }
  void add_data(std::string text) {
    if (!text.empty()) add(TokenType::data, std::move(text));
  }

  // Consumes up to `to`. Whether that ended a line decides if lstrip_blocks applies to what follows.
  void advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + to, '\n'));
    if (to > at_) line_starting_ = source_[to - 1] == '\n';
    at_ = to;
  }

  char peek(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
  char sign_at(size_t at) const { return peek(at) == '-' || peek(at) == '+' ? peek(at) : '\0'; }

  size_t skip_space(size_t at) const {
    while (at < source_.size()) {
      const Utf8Char c = decode_utf8(std::string_view(source_).substr(at));
      if (!is_python_space(c.code)) break;
      at += c.length;
    }
    return at;
  }

  size_t find_tag() const {
    size_t tag = source_.find('{', at_);
    while (tag != source_.npos && peek(tag + 1) != '%' && peek(tag + 1) != '{' && peek(tag + 1) != '#') {
      tag = source_.find('{', tag + 1);
    }
    return tag == source_.npos ? source_.size() : tag;
  }

  // The text from at_ to `tag`, cut by the tag's sign, or by lstrip_blocks before blocks and comments.
  std::string text_before_tag(size_t tag, char sign, bool lstrip) const {
    std::string text = source_.substr(at_, tag - at_);
    if (sign == '-') {
      size_t end = text.size();
      while (end > 0) {
        size_t begin = end - 1;
        while ((static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
        if (!is_python_space(decode_utf8(std::string_view(text).substr(begin)).code)) break;
        end = begin;
      }
      text.resize(end);
    } else if (sign != '+' && lstrip) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == text.npos ? 0 : newline + 1;
      if ((line > 0 || line_starting_) && skip_space(at_ + line) >= tag) text.resize(line);
    }
    return text;
  }

  // `{% raw %}` at `tag`: where its body begins, or 0.
  size_t match_raw(size_t tag) const {
    size_t at = skip_space(tag + 2 + (sign_at(tag + 2) != 0));
    if (source_.compare(at, 3, "raw") != 0) return 0;
    at = skip_space(at + 3);
    if (source_.compare(at, 3, "-%}") == 0) return skip_space(at + 3);
    return source_.compare(at, 2, "%}") == 0 ? at + 2 : 0;
  }

  void lex_raw() {
    if (at_ >= source_.size()) return;  // as Jinja has it
    for (size_t tag = source_.find("{%", at_); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      size_t at = skip_space(tag + 2 + (sign != 0));
      if (source_.compare(at, 6, "endraw") != 0) continue;
      at = skip_space(at + 6);
      const size_t end = block_end(at);
      if (!end) continue;
      add_data(text_before_tag(tag, sign, true));
      advance(end);
      return;
    }
    error_at("missing end of raw directive");
  }

  // `%}` with its sign at `at`: the position after it and the white space that it takes, or 0.
  size_t block_end(size_t at) const {
    if (source_.compare(at, 3, "-%}") == 0) return skip_space(at + 3);
    if (source_.compare(at, 3, "+%}") == 0) return at + 3;
    if (source_.compare(at, 2, "%}") != 0) return 0;
    return at + 2 + (peek(at + 2) == '\n');
  }

  size_t variable_end(size_t at) const {
    if (source_.compare(at, 3, "-}}") == 0) return skip_space(at + 3);
    return source_.compare(at, 2, "}}") == 0 ? at + 2 : 0;
  }

  void lex_comment() {
    const size_t close = source_.find("#}", at_);
    if (close == source_.npos) error_at("missing end of comment tag");
    const char sign = close > at_ ? sign_at(close - 1) : '\0';
    size_t end = close + 2;
    if (sign == '-') {
      end = skip_space(end);
    } else if (sign != '+' && peek(end) == '\n') {
      ++end;
    }
    advance(end);
  }

  // The inside of a block or variable tag, and its end.
  void lex_tag(char kind) {
    std::string open;  // brackets that are still open
    while (true) {
      const size_t end = !open.empty() ? 0 : kind == '%' ? block_end(at_) : variable_end(at_);
      if (end) {
        add(kind == '%' ? TokenType::block_end : TokenType::variable_end, "");
        advance(end);
        return;
      }
      if (at_ >= source_.size()) error_at("unexpected end of template inside a tag");
      if (const size_t after = skip_space(at_); after > at_) {
        advance(after);
      } else if (peek(at_) == '\'' || peek(at_) == '"') {
        lex_string();
      } else if (is_digit(peek(at_))) {
        lex_number();
      } else if (is_name_start(peek(at_))) {
        size_t end_of_name = at_;
        while (is_name_char(peek(end_of_name))) ++end_of_name;
        add(TokenType::name, source_.substr(at_, end_of_name - at_));
        advance(end_of_name);
      } else {
        lex_operator(open);
      }
    }
  }

  void lex_operator(std::string& open) {
    static constexpr std::string_view operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                                     "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                     ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const std::string_view op : operators) {
      if (source_.compare(at_, op.size(), op) != 0) continue;
      if (op == "(" || op == "[" || op == "{") {
        open.push_back(op == "(" ? ')' : op == "[" ? ']' : '}');
      } else if (op == ")" || op == "]" || op == "}") {
        if (open.empty()) error_at(fmt::format("unexpected '{}'", op));
        if (open.back() != op[0]) error_at(fmt::format("unexpected '{}', expected '{}'", op, open.back()));
        open.pop_back();
      }
      add(TokenType::op, std::string(op));
      advance(at_ + op.size());
      return;
    }
    error_at(fmt::format("unexpected char '{}' at {}", peek(at_), at_));
  }

  size_t digits(size_t at) const {
    while (is_digit(peek(at)) || (peek(at) == '_' && is_digit(peek(at + 1)))) ++at;
    return at;
  }

  void lex_number() {
    size_t end = digits(at_);
    bool real = false;
    const char base = static_cast<char>(peek(at_ + 1) | 0x20);
    if (peek(at_) == '0' && (base == 'x' || base == 'o' || base == 'b')) {
      end = at_ + 2;
      while (is_name_char(peek(end)) && !(peek(end) & 0x80)) ++end;
    } else {
      if (peek(end) == '.' && is_digit(peek(end + 1))) {
        real = true;
        end = digits(end + 1);
      }
      const size_t exponent = end + 1 + (peek(end + 1) == '+' || peek(end + 1) == '-');
      if ((peek(end) | 0x20) == 'e' && is_digit(peek(exponent))) {
        real = true;
        end = digits(exponent);
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    add(real ? TokenType::real : TokenType::integer, std::move(text));
    advance(end);
  }

  void lex_string() {
    const char quote = peek(at_);
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) error_at("unterminated string");
    add(TokenType::string, unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    advance(end + 1);
  }

  // Python's unicode-escape.
  std::string unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      static constexpr std::string_view names = "abfnrtv\\'\"", values = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t known = names.find(c); known != names.npos) {
        out += values[known];
      } else if (c == '\n') {
        continue;
      } else if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        size_t n = 0;
        for (; n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7'; ++n) {
          code = code * 8 + (text[i + n] - '0');
        }
        i += n - 1;
        append_utf8(out, code);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits_wanted = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        char32_t code = hex(text.substr(i + 1, digits_wanted), digits_wanted);
        i += digits_wanted;
        // A surrogate pair written as two escapes is one character; a lone one cannot be encoded.
        if (code >= 0xD800 && code < 0xDC00 && text.substr(i + 1, 2) == "\\u") {
          const char32_t low = hex(text.substr(i + 3, 4), 4);
          if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            i += 6;
          }
        }
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = kReplacement;
        append_utf8(out, code);
      } else if (c == 'N') {
        error_at("string: \\N names a character; write \\u or \\U");
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  char32_t hex(std::string_view digits, size_t wanted) {
    char32_t code = 0;
    for (const char d : digits) {
      const int value = is_digit(d)                              ? d - '0'
                        : (d | 0x20) >= 'a' && (d | 0x20) <= 'f' ? (d | 0x20) - 'a' + 10
                                                                 : -1;
      if (value < 0) error_at("string: a \\x, \\u or \\U escape with characters that are not hexadecimal");
      code = code << 4 | static_cast<char32_t>(value);
    }
    if (digits.size() != wanted) error_at("string: a \\x, \\u or \\U escape that is cut off");
    return code;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Lexeme> out_;
};

}  // namespace

bool is_python_space(char32_t c) {
  return is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

std::vector<Lexeme> lex(std::string_view source) {
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace headrace::text::jinja
