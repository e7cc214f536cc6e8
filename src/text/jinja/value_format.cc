// How values are written: Python's str() and repr(), and JSON as json.dumps writes it; and JSON read into
// values.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja/value.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text::jinja {

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  constexpr uint32_t hidden = category_set(Category::Cc, Category::Cf, Category::Co, Category::Cn,
                                           Category::Zl, Category::Zp, Category::Zs);
  return !(category_bit(c) & hidden);
}

namespace {

void append_string_repr(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out += quote;
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    if (c.code == static_cast<char32_t>(quote) || c.code == '\\') {
      out += '\\';
      out += static_cast<char>(c.code);
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (is_printable(c.code)) {
      out += text.substr(0, c.length);
    } else if (c.code < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c.code));
    } else if (c.code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c.code));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c.code));
    }
    text.remove_prefix(c.length);
  }
  out += quote;
}

void append_json_string(std::string_view text, bool ensure_ascii, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    switch (c.code) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (c.code < 0x20 || (ensure_ascii && c.code >= 0x7F && c.code < 0x10000)) {
          out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c.code));
        } else if (ensure_ascii && c.code >= 0x10000) {
          const auto high = static_cast<uint32_t>(0xD800 + ((c.code - 0x10000) >> 10));
          const auto low = static_cast<uint32_t>(0xDC00 + ((c.code - 0x10000) & 0x3FF));
          out += fmt::format("\\u{:04x}\\u{:04x}", high, low);
        } else {
          out += text.substr(0, c.length);
        }
    }
    text.remove_prefix(c.length);
  }
  out += '"';
}

void append_json_key(Budget& in, const Value& key, bool ensure_ascii, std::string& out) {
  if (key.text()) return append_json_string(key.text()->bytes, ensure_ascii, out);
  if (!key.is_none() && !key.is_number()) {
    fail("keys must be str, int, float, bool or None, not {}", type_name(key));
  }
  out += '"';
  append_json(in, key, {}, out);
  out += '"';
}

// `write(i)` writes the i-th of `count` parts between the brackets.
template <class Write>
void append_json_parts(Budget& in, char open, char close, size_t count, const JsonStyle& style,
                       std::string& out, int depth, Write write) {
  out += open;
  const auto new_line = [&](int level) {
    if (!style.pretty) return;
    out += '\n';
    for (int i = 0; i < level; ++i) out += style.indent;
  };
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out += style.item_separator;
    in.step_bytes(style.item_separator.size() + style.key_separator.size() +
                  style.indent.size() * (depth + 1));
    new_line(depth + 1);
    write(i);
  }
  if (count > 0) new_line(depth);
  out += close;
}

}  // namespace

// Python writes the shortest digits that read back as the same number, with an exponent below 1e-4 and from
// 1e16.
std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::fabs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char buffer[400];
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string out(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr);
  if (plain && out.find('.') == out.npos) out += ".0";
  return out;
}

namespace {

void append_parts(Budget& in, const Values& items, std::string& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(in, items[i], out);
  }
}

void append_sequence(Budget& in, const Sequence& s, std::string& out) {
  switch (s.kind) {
    case SequenceKind::list:
      out += '[';
      append_parts(in, s.items, out);
      out += ']';
      return;
    case SequenceKind::tuple:
    case SequenceKind::group:
      out += '(';
      append_parts(in, s.items, out);
      out += s.items.size() == 1 ? ",)" : ")";
      return;
    case SequenceKind::keys:
    case SequenceKind::values:
    case SequenceKind::items:
      out += s.kind == SequenceKind::keys     ? "dict_keys(["
             : s.kind == SequenceKind::values ? "dict_values(["
                                              : "dict_items([";
      append_parts(in, s.items, out);
      out += "])";
      return;
    case SequenceKind::range: {
      const int64_t n = static_cast<int64_t>(s.items.size());
      const int64_t first = n > 0 ? *s.items[0].integer() : 0;
      const int64_t step = n > 1 ? *s.items[1].integer() - first : 1;
      out += fmt::format("range({}, {}", first, n > 0 ? *s.items.back().integer() + step : 0);
      out += step == 1 ? ")" : fmt::format(", {})", step);
      return;
    }
    case SequenceKind::generator:
      out += "<generator object>";
      return;
  }
}

}  // namespace

void append_repr(Budget& in, const Value& value, std::string& out) {
  in.step();
  if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.boolean()) {
    out += *value.boolean() ? "True" : "False";
  } else if (value.integer()) {
    out += std::to_string(*value.integer());
  } else if (value.real()) {
    out += real_repr(*value.real());
  } else if (value.text()) {
    in.step_bytes(value.text()->bytes.size());
    append_string_repr(value.text()->bytes, out);
  } else if (const Dict* dict = value.dict()) {
    out += '{';
    for (size_t i = 0; i < dict->size(); ++i) {
      if (i > 0) out += ", ";
      append_repr(in, dict->items()[i].first, out);
      out += ": ";
      append_repr(in, dict->items()[i].second, out);
    }
    out += '}';
  } else if (value.sequence()) {
    append_sequence(in, *value.sequence(), out);
  } else {
    out += fmt::format("<{}>", value.object()->type_name());
  }
}

Text to_text(Budget& in, const Value& value) {
  if (value.text()) return *value.text();
  if (value.is_undefined()) return {};
  std::string out;
  append_repr(in, value, out);
  return Text::from_data(std::move(out));
}

void append_json(Budget& in, const Value& value, const JsonStyle& style, std::string& out, int depth) {
  in.step();
  if (value.is_none()) {
    out += "null";
  } else if (value.boolean()) {
    out += *value.boolean() ? "true" : "false";
  } else if (value.integer()) {
    out += std::to_string(*value.integer());
  } else if (value.real()) {
    const double d = *value.real();
    out += std::isnan(d) ? "NaN" : std::isinf(d) ? (d > 0 ? "Infinity" : "-Infinity") : real_repr(d);
  } else if (value.text()) {
    in.step_bytes(value.text()->bytes.size());
    append_json_string(value.text()->bytes, style.ensure_ascii, out);
  } else if (const Dict* dict = value.dict()) {
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict->items()) items.push_back(&item);
    if (style.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [&](auto* a, auto* b) { return compare(in, a->first, b->first) < 0; });
    }
    append_json_parts(in, '{', '}', items.size(), style, out, depth, [&](size_t i) {
      append_json_key(in, items[i]->first, style.ensure_ascii, out);
      out += style.key_separator;
      append_json(in, items[i]->second, style, out, depth + 1);
    });
  } else if (value.is_list() || value.is_tuple()) {
    const Sequence* s = value.sequence();
    append_json_parts(in, '[', ']', s->items.size(), style, out, depth,
                      [&](size_t i) { append_json(in, s->items[i], style, out, depth + 1); });
  } else {
    fail("Object of type {} is not JSON serializable", type_name(value));
  }
}

namespace {

// Builds values while the parser reads, so that the order of keys survives.
class ValueReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put(None{}); }
  bool boolean(bool b) override { return put(b); }
  bool number_integer(number_integer_t n) override { return put(int64_t{n}); }
  bool number_unsigned(number_unsigned_t n) override {
    return n <= INT64_MAX ? put(static_cast<int64_t>(n)) : put(static_cast<double>(n));
  }
  bool number_float(number_float_t d, const string_t&) override { return put(d); }
  bool string(string_t& s) override { return put(Value::data(std::move(s))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(string_t& name) override {
    open_.back().key = Value::data(std::move(name));
    return true;
  }
  bool end_object() override {
    Value value(std::move(open_.back().dict));
    open_.pop_back();
    return put(std::move(value));
  }
  bool end_array() override {
    Value value(std::move(open_.back().items));
    open_.pop_back();
    return put(std::move(value));
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    error_ = e.what();
    return false;
  }

  Value result;
  std::string error_;

 private:
  struct Open {
    bool is_dict;
    Dict dict;
    Values items;
    Value key;
  };
  bool open(bool is_dict) {
    if (open_.size() >= kMaxNesting) {
      error_ = fmt::format("nested deeper than {}", kMaxNesting);
      return false;
    }
    open_.push_back({is_dict, {}, {}, {}});
    return true;
  }
  bool put(Value value) {
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back().is_dict) {
      open_.back().dict.set(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }
  std::vector<Open> open_;
};

}  // namespace

Result<Value> parse_json(std::string_view json) {
  ValueReader reader;
  if (!nlohmann::json::sax_parse(json, &reader)) {
    return error(Code::malformed, "template variables: {}", reader.error_);
  }
  return std::move(reader.result);
}

}  // namespace headrace::text::jinja
