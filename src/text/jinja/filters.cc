// Jinja's filters, with transformers' tojson.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "text/jinja/case_mapping.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/lexer.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text::jinja {
namespace {

Value generator(Values items) {
  return Sequence{std::move(items), SequenceKind::generator};
}

Values items_of(Interpreter& in, const Value& value) {
  return iterate(in, value);
}

// `a.b.0`: the attribute of an attribute; digits are indices. What sort, map, join and others call an
// attribute.
// `otherwise`, when given, stands for what is missing at every step.
Value attribute_path(const Value& value, const Value& path, const Value* otherwise = nullptr) {
  const auto step = [&](const Value& from, const Value& key) {
    Value found = get_item(from, key);
    return found.is_undefined() && otherwise ? *otherwise : found;
  };
  if (path.is_integral()) return step(value, path);
  if (!path.defined().text()) fail("attribute: want a string or an integer, got {}", type_name(path));
  std::string_view rest = path.text()->bytes;
  Value found = value;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view name = rest.substr(0, dot);
    int64_t index = 0;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = failed == std::errc() && end == name.data() + name.size();
    found = step(found, is_index ? Value(index) : Value::data(std::string(name)));
    if (dot == rest.npos) return found;
    rest.remove_prefix(dot + 1);
  }
}

Value fold_case(Interpreter& in, const Value& value) {
  return value.text() ? Value(convert_case(in, *value.text(), Case::lower)) : value;
}

Value length(Interpreter&, const Value& v, Args& args) {
  const Bound bound("length", args, {});
  if (v.is_undefined()) return 0;
  if (v.text()) return count_chars(v.text()->bytes);
  if (v.dict()) return v.dict()->size();
  if (v.sequence() && !v.is_generator()) return v.sequence()->items.size();
  fail("object of type '{}' has no len()", type_name(v));
}

Value default_value(Interpreter&, const Value& v, Args& args) {
  const Bound bound("default", args, {"default_value", "boolean"});
  if (v.is_undefined() || (bound.flag(1, false) && !v.truthy())) return bound.get(0, Value::data(""));
  return v;
}

Value first(Interpreter& in, const Value& v, Args&) {
  // A generator gives one item and keeps the rest.
  if (v.is_generator() && v.sequence()->taken < v.sequence()->items.size()) {
    return v.sequence()->items[v.sequence()->taken++];
  }
  Values items = items_of(in, v);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Interpreter& in, const Value& v, Args&) {
  if (v.is_generator()) fail("'generator' object is not reversible");
  Values items = items_of(in, v);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value join(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("join", args, {"d", "attribute"});
  const Text separator = bound.has(0) ? to_text(in, bound[0]) : Text();
  TextBuilder out;
  bool is_first = true;
  for (const Value& item : items_of(in, v)) {
    if (!is_first) out.append(separator);
    is_first = false;
    const Text text =
        to_text(in, bound.has(1) && !bound[1].is_none() ? attribute_path(item, bound[1]) : item);
    in.step_bytes(text.bytes.size() + separator.bytes.size());
    out.append(text);
  }
  return out.take();
}

Value replace(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  const Text text = to_text(in, v);
  return replace_all(in, text, to_text(in, bound[0]).bytes, to_text(in, bound[1]), bound.integer(2, -1));
}

Value trim(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("trim", args, {"chars"});
  const Text text = to_text(in, v);
  return strip(text, bound.has(0) && !bound[0].is_none() ? &bound.text(0) : nullptr, true, true);
}

Value title(Interpreter& in, const Value& v, Args&) {
  const Text text = to_text(in, v);
  TextBuilder out;
  // Words begin after white space and after one of -([{<.
  const auto begins_word = [](char32_t c) {
    return is_python_space(c) || c == '-' || c == '(' || c == '[' || c == '{' || c == '<';
  };
  size_t word = 0;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    at += c.length;
    const bool border = begins_word(c.code);
    const bool next_is_border =
        at < text.bytes.size() && begins_word(decode_utf8(std::string_view(text.bytes).substr(at)).code);
    if (border != next_is_border || at == text.bytes.size()) {
      out.append(border ? text.sub(word, at)
                        : convert_case(in, text.sub(word, at), Case::upper, Case::lower));
      word = at;
    }
  }
  return out.take();
}

Value indent(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("indent", args, {"width", "first", "blank"});
  const Text text = to_text(in, v);
  const int64_t width = bound.has(0) && bound[0].text() ? 0 : bound.integer(0, 4);
  if (width > 1000) fail("indent: want a width of at most 1000, got {}", width);
  const Text indention = bound.has(0) && bound[0].text()
                             ? *bound[0].text()
                             : Text::from_author(std::string(std::max<int64_t>(width, 0), ' '));
  TextBuilder out;
  bool is_first = true;
  for (const Text& line : split_lines(in, text, true)) {
    if (!is_first) out.append_trusted("\n");
    const bool indented = is_first ? bound.flag(1, false) : bound.flag(2, false) || !line.bytes.empty();
    if (indented) out.append(indention);
    out.append(line);
    is_first = false;
    in.step_bytes(line.bytes.size() + indention.bytes.size());
  }
  return out.take();
}

Value tojson(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.has(1) && !bound[1].is_none()) {
    style.pretty = true;
    style.item_separator.assign(1, ',');
    const int64_t width = bound[1].text() ? 0 : bound.integer(1, 0);
    if (width > 100) fail("tojson: want an indent of at most 100, got {}", width);
    style.indent = bound[1].text() ? bound[1].text()->bytes : std::string(std::max<int64_t>(width, 0), ' ');
  }
  if (bound.has(2) && !bound[2].is_none()) {
    const Values separators = iterate(in, bound[2]);
    if (separators.size() != 2 || !separators[0].text() || !separators[1].text()) {
      fail("tojson: want separators of two strings");
    }
    style.item_separator = separators[0].text()->bytes;
    style.key_separator = separators[1].text()->bytes;
  }
  std::string out;
  append_json(in, v.defined(), style, out);
  in.step_bytes(out.size());
  return Value::data(std::move(out));
}

Value to_int(Interpreter&, const Value& v, Args& args) {
  const Bound bound("int", args, {"default", "base"});
  const auto of_real = [&](double d) -> Value {
    if (!(std::fabs(d) < 9.2e18)) return bound.get(0, 0);
    return static_cast<int64_t>(d);
  };
  if (v.defined().is_integral()) return v.as_integer();
  if (v.real()) return of_real(*v.real());
  if (!v.text()) return bound.get(0, 0);
  std::string text = strip(*v.text(), nullptr, true, true).bytes;
  std::erase(text, '_');
  if (const auto n =
          parse_python_integer(text, static_cast<int>(std::clamp<int64_t>(bound.integer(1, 10), -1, 37))))
    return *n;
  if (const auto d = parse_python_real(text)) return of_real(*d);
  return bound.get(0, 0);
}

Value to_float(Interpreter&, const Value& v, Args& args) {
  const Bound bound("float", args, {"default"});
  if (v.defined().is_number()) return v.as_real();
  if (v.text()) {
    if (const auto d = parse_python_real(strip(*v.text(), nullptr, true, true).bytes)) return *d;
  }
  return bound.get(0, 0.0);
}

Value absolute(Interpreter&, const Value& v, Args&) {
  if (!v.defined().is_number()) fail("bad operand type for abs(): '{}'", type_name(v));
  if (v.real()) return std::fabs(*v.real());
  if (v.as_integer() == INT64_MIN) fail("integer overflow");
  return std::abs(v.as_integer());
}

// To tens, hundreds and so on, halves to the even one.
Value round_integer(int64_t n, int64_t precision) {
  if (precision >= 0) return n;
  if (precision < -18) return 0;
  int64_t unit = 1;
  for (int64_t i = precision; i < 0; ++i) unit *= 10;
  int64_t units = n / unit;
  const int64_t rest = std::abs(n % unit), half = unit / 2;
  if (rest > half || (rest == half && units % 2 != 0)) units += n < 0 ? -1 : 1;
  int64_t result;
  if (__builtin_mul_overflow(units, unit, &result)) fail("integer overflow");
  return result;
}

Value round_to(Interpreter&, const Value& v, Args& args) {
  const Bound bound("round", args, {"precision", "method"});
  if (!v.defined().is_number()) fail("type {} doesn't define round()", type_name(v));
  const int64_t precision = bound.integer(0, 0);
  if (precision < -300 || precision > 300)
    fail("round: want a precision from -300 to 300, got {}", precision);
  const std::string method = bound.has(1) ? bound.text(1).bytes : "common";
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(v.as_real() * scale) / scale;
  if (method == "floor") return std::floor(v.as_real() * scale) / scale;
  if (method != "common") fail("method must be common, ceil or floor");
  if (v.is_integral()) return round_integer(v.as_integer(), precision);
  // As Python: the decimal with that many digits nearest to the number, ties judged on its exact value.
  if (precision < 0) return std::nearbyint(v.as_real() * scale) / scale;
  return std::strtod(fmt::format("{:.{}f}", v.as_real(), static_cast<int>(precision)).c_str(), nullptr);
}

Value sum(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("sum", args, {"attribute", "start"});
  Value total = bound.get(1, 0);
  for (const Value& item : items_of(in, v)) {
    total = add(in, total, bound.has(0) && !bound[0].is_none() ? attribute_path(item, bound[0]) : item);
  }
  return total;
}

// The keys that sort, min, max, unique and groupby compare by.
Value sort_key(Interpreter& in, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = attribute && !attribute->is_none() ? attribute_path(item, *attribute) : item;
  return case_sensitive ? key : fold_case(in, key);
}

std::vector<std::pair<Value, Value>> keyed(Interpreter& in, const Value& v, const Value* attribute,
                                           bool case_sensitive) {
  std::vector<std::pair<Value, Value>> out;
  for (Value& item : items_of(in, v)) {
    Value key = sort_key(in, item, attribute, case_sensitive);
    out.emplace_back(std::move(key), std::move(item));
  }
  return out;
}

void sort_by_key(Interpreter& in, std::vector<std::pair<Value, Value>>& items, bool reverse) {
  in.step(items.size() * 20);
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return reverse ? compare(in, b.first, a.first) < 0 : compare(in, a.first, b.first) < 0;
  });
}

Values values_of(std::vector<std::pair<Value, Value>> items) {
  Values out;
  for (auto& [key, item] : items) out.push_back(std::move(item));
  return out;
}

Value sort(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  // Several attributes, separated by commas, compare as a tuple.
  std::vector<Value> attributes;
  if (bound.has(2) && !bound[2].is_none()) {
    if (const Text* names = bound[2].text()) {
      for (const Text& name : split(in, *names, ",", -1)) attributes.emplace_back(name);
    } else {
      attributes.push_back(bound[2]);
    }
  }
  std::vector<std::pair<Value, Value>> items;
  for (Value& item : items_of(in, v)) {
    Values key;
    for (const Value& attribute : attributes)
      key.push_back(sort_key(in, item, &attribute, bound.flag(1, false)));
    if (attributes.empty()) key.push_back(sort_key(in, item, nullptr, bound.flag(1, false)));
    items.emplace_back(Value::tuple(std::move(key)), std::move(item));
  }
  sort_by_key(in, items, bound.flag(0, false));
  return values_of(std::move(items));
}

Value dictsort(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.has(1) ? bound.text(1).bytes : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (!v.defined().dict()) fail("'{}' object has no attribute 'items'", type_name(v));
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, value] : v.dict()->items()) {
    const Value& chosen = by == "key" ? key : value;
    items.emplace_back(bound.flag(0, false) ? chosen : fold_case(in, chosen), Value::tuple({key, value}));
  }
  in.step_items(items.size() * 4);
  sort_by_key(in, items, bound.flag(2, false));
  return values_of(std::move(items));
}

Value extreme(Interpreter& in, const Value& v, Args& args, int sign) {
  const Bound bound(sign < 0 ? "min" : "max", args, {"case_sensitive", "attribute"});
  const auto items = keyed(in, v, bound.has(1) ? &bound[1] : nullptr, bound.flag(0, false));
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    if (compare(in, items[i].first, items[best].first) == sign) best = i;
  }
  return items[best].second;
}

Value unique(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("unique", args, {"case_sensitive", "attribute"});
  Dict seen;
  Values out;
  for (auto& [key, item] : keyed(in, v, bound.has(1) ? &bound[1] : nullptr, bound.flag(0, false))) {
    in.step_items(4);
    if (seen.find(key)) continue;
    seen.set(key, None{});
    out.push_back(std::move(item));
  }
  return generator(std::move(out));
}

Value groupby(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  std::vector<std::pair<Value, Value>> items;
  for (Value& item : items_of(in, v)) {
    const Value key =
        attribute_path(item, bound[0], bound.has(1) && !bound[1].is_none() ? &bound[1] : nullptr);
    Value folded = bound.flag(2, false) ? key : fold_case(in, key);
    items.emplace_back(std::move(folded), Value::tuple({key, std::move(item)}));
  }
  sort_by_key(in, items, false);
  Values groups;
  for (size_t begin = 0; begin < items.size();) {
    Values members;
    const Value name = items[begin].second.sequence()->items[0];
    size_t end = begin;
    for (; end < items.size() && equals(in, items[end].first, items[begin].first); ++end) {
      members.push_back(items[end].second.sequence()->items[1]);
    }
    groups.push_back(Sequence{{name, Value(std::move(members))}, SequenceKind::group});
    begin = end;
  }
  return groups;
}

Value map(Interpreter& in, const Value& v, Args& args) {
  Values out;
  const auto named = [&](std::string_view name) -> const Value* {
    for (const auto& [key, value] : args.named) {
      if (key == name) return &value;
    }
    return nullptr;
  };
  if (args.positional.empty()) {
    const Value* attribute = named("attribute");
    const Value* otherwise = named("default");
    if (!attribute) fail("map requires a filter argument");
    for (const Value& item : items_of(in, v)) {
      out.push_back(
          attribute_path(item, *attribute, otherwise && !otherwise->is_none() ? otherwise : nullptr));
    }
    return generator(std::move(out));
  }
  if (!args.positional[0].text()) fail("map: want the name of a filter");
  const std::string name = args.positional[0].text()->bytes;
  for (const Value& item : items_of(in, v)) {
    const Interpreter::Frame frame(in);
    in.step_items(args.positional.size() + args.named.size() * 3);
    Args rest = args;
    rest.positional.erase(rest.positional.begin());
    out.push_back(call_filter(in, name, item, rest));
  }
  return generator(std::move(out));
}

// select, reject, selectattr, rejectattr: the items for which a test holds, or does not.
Value choose(Interpreter& in, const Value& v, Args& args, bool by_attribute, bool wanted) {
  if (by_attribute && args.positional.empty()) fail("Missing parameter for attribute name");
  const size_t test_at = by_attribute ? 1 : 0;
  Values out;
  for (Value& item : items_of(in, v)) {
    const Interpreter::Frame frame(in);
    const Value subject = by_attribute ? attribute_path(item, args.positional[0]) : item;
    bool holds = subject.truthy();
    if (args.positional.size() > test_at) {
      if (!args.positional[test_at].text()) fail("select: want the name of a test");
      in.step_items(args.positional.size() + args.named.size() * 3);
      Args rest = args;
      rest.positional.erase(rest.positional.begin(), rest.positional.begin() + test_at + 1);
      holds = call_test(in, args.positional[test_at].text()->bytes, subject, rest);
    }
    if (holds == wanted) out.push_back(std::move(item));
  }
  return generator(std::move(out));
}

Value reverse(Interpreter& in, const Value& v, Args&) {
  Values items = items_of(in, v);
  std::reverse(items.begin(), items.end());
  if (!v.text()) return generator(std::move(items));
  TextBuilder out;
  for (const Value& c : items) out.append(*c.text());
  return out.take();
}

Value to_list(Interpreter& in, const Value& v, Args&) {
  return items_of(in, v);
}

Value items(Interpreter& in, const Value& v, Args&) {
  if (v.is_undefined()) return generator({});
  if (!v.dict()) fail("Can only get item pairs from a mapping.");
  Values out;
  for (const auto& [key, value] : v.dict()->items()) out.push_back(Value::tuple({key, value}));
  in.step_items(out.size() * 4);
  return generator(std::move(out));
}

Value batch(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("batch", args, {"linecount", "fill_with"}, 1);
  const int64_t size = bound.integer(0, 0);
  Values rows, row;
  for (Value& item : items_of(in, v)) {
    if (size >= 0 && row.size() == static_cast<size_t>(size)) rows.push_back(std::exchange(row, {}));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    const int64_t missing = size - static_cast<int64_t>(row.size());
    if (bound.has(1) && !bound[1].is_none() && missing > 0) {
      in.step_items(missing);
      row.insert(row.end(), missing, bound[1]);
    }
    rows.push_back(std::move(row));
  }
  return generator(std::move(rows));
}

Value slice(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("slice", args, {"slices", "fill_with"}, 1);
  const int64_t slices = bound.integer(0, 0);
  if (slices <= 0) fail("slice: want a positive number of slices, got {}", slices);
  const Values all = items_of(in, v);
  in.step_items(slices);
  const size_t per = all.size() / slices, longer = all.size() % slices;
  Values out;
  size_t at = 0;
  for (size_t i = 0; i < static_cast<size_t>(slices); ++i) {
    const size_t size = per + (i < longer);
    Values part(all.begin() + at, all.begin() + at + size);
    at += size;
    if (bound.has(1) && !bound[1].is_none() && i >= longer && longer != 0) part.push_back(bound[1]);
    out.push_back(std::move(part));
  }
  return generator(std::move(out));
}

Value attr(Interpreter&, const Value& v, Args& args) {
  const Bound bound("attr", args, {"name"}, 1);
  // Attributes only: the keys of a dict are not looked at.
  if (v.dict() && !find_method(v, bound.text(0).bytes)) {
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", bound.text(0).bytes));
  }
  return get_attribute(v, bound.text(0).bytes);
}

Value escape(Interpreter& in, const Value& v, Args&) {
  Text text = to_text(in, v);
  for (const auto& [from, to] :
       {std::pair("&", "&amp;"), {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}}) {
    text = replace_all(in, text, from, Text::from_data(to), -1);
  }
  return text;
}

Value truncate(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("truncate", args, {"length", "killwords", "end", "leeway"});
  const Text text = to_text(in, v), end = bound.has(2) ? to_text(in, bound[2]) : Text::from_author("...");
  const int64_t most = bound.integer(0, 255), leeway = bound.integer(3, 5);
  const auto end_length = static_cast<int64_t>(count_chars(end.bytes));
  if (most < end_length) fail("expected length >= {}, got {}", end_length, most);
  if (leeway < 0) fail("expected leeway >= 0, got {}", leeway);
  if (static_cast<int64_t>(count_chars(text.bytes)) <= most + leeway) return text;
  Text cut = text.sub(0, byte_of_char(text.bytes, most - end_length));
  if (!bound.flag(1, false)) {
    const size_t space = cut.bytes.rfind(' ');
    if (space != std::string::npos) cut = cut.sub(0, space);
  }
  TextBuilder out;
  out.append(cut);
  out.append(end);
  return out.take();
}

Value wordcount(Interpreter& in, const Value& v, Args&) {
  const Text text = to_text(in, v);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    const bool word = c.code == '_' || (category_bit(c.code) & (kLetters | kNumbers));
    words += word && !inside;
    inside = word;
    at += c.length;
  }
  return words;
}

Value urlencode(Interpreter& in, const Value& v, Args&) {
  const auto quote = [&in](const Value& value, bool slash_is_safe) {
    std::string out;
    const Text text = to_text(in, value);
    in.step(text.bytes.size());
    for (const char c : text.bytes) {
      const bool safe = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
                        c == '.' || c == '-' || c == '~' || (c == '/' && slash_is_safe);
      if (c == ' ' && !slash_is_safe) {
        out += '+';  // as in a query
      } else if (safe) {
        out += c;
      } else {
        out += fmt::format("%{:02X}", static_cast<uint8_t>(c));
      }
    }
    return out;
  };
  if (v.text() || (!v.dict() && !v.sequence())) return Value::data(quote(v, true));
  std::string out;
  const auto pair = [&](const Value& key, const Value& value) {
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", quote(key, false), quote(value, false));
  };
  if (v.dict()) {
    for (const auto& [key, value] : v.dict()->items()) pair(key, value);
  } else {
    for (const Value& item : v.sequence()->items) {
      const Values parts = iterate(in, item);
      if (parts.size() != 2) fail("urlencode: want pairs");
      pair(parts[0], parts[1]);
    }
  }
  return Value::data(std::move(out));
}

Value center(Interpreter& in, const Value& v, Args& args) {
  const Bound bound("center", args, {"width"});
  return pad(in, to_text(in, v), bound.integer(0, 80), " ", Align::center);
}

const std::unordered_map<std::string_view, Filter>& filters() {
  static const std::unordered_map<std::string_view, Filter> table = [] {
    std::unordered_map<std::string_view, Filter> t = {
        {"length", length},
        {"count", length},
        {"default", default_value},
        {"d", default_value},
        {"first", first},
        {"last", last},
        {"join", join},
        {"replace", replace},
        {"trim", trim},
        {"title", title},
        {"indent", indent},
        {"tojson", tojson},
        {"int", to_int},
        {"float", to_float},
        {"abs", absolute},
        {"round", round_to},
        {"sum", sum},
        {"sort", sort},
        {"dictsort", dictsort},
        {"unique", unique},
        {"groupby", groupby},
        {"map", map},
        {"reverse", reverse},
        {"list", to_list},
        {"items", items},
        {"batch", batch},
        {"slice", slice},
        {"attr", attr},
        {"escape", escape},
        {"e", escape},
        {"forceescape", escape},
        {"truncate", truncate},
        {"wordcount", wordcount},
        {"urlencode", urlencode},
        {"center", center},
        {"format", format_percent},
    };
    t["string"] = t["safe"] = [](Interpreter& in, const Value& v, Args&) -> Value { return to_text(in, v); };
    t["upper"] = [](Interpreter& in, const Value& v, Args&) -> Value {
      return convert_case(in, to_text(in, v), Case::upper);
    };
    t["lower"] = [](Interpreter& in, const Value& v, Args&) -> Value {
      return convert_case(in, to_text(in, v), Case::lower);
    };
    t["capitalize"] = [](Interpreter& in, const Value& v, Args&) -> Value {
      return convert_case(in, to_text(in, v), Case::title, Case::lower);
    };
    t["min"] = [](Interpreter& in, const Value& v, Args& a) { return extreme(in, v, a, -1); };
    t["max"] = [](Interpreter& in, const Value& v, Args& a) { return extreme(in, v, a, 1); };
    t["select"] = [](Interpreter& in, const Value& v, Args& a) { return choose(in, v, a, false, true); };
    t["reject"] = [](Interpreter& in, const Value& v, Args& a) { return choose(in, v, a, false, false); };
    t["selectattr"] = [](Interpreter& in, const Value& v, Args& a) { return choose(in, v, a, true, true); };
    t["rejectattr"] = [](Interpreter& in, const Value& v, Args& a) { return choose(in, v, a, true, false); };
    return t;
  }();
  return table;
}

}  // namespace

Filter find_filter(std::string_view name) {
  const auto found = filters().find(name);
  return found == filters().end() ? nullptr : found->second;
}

}  // namespace headrace::text::jinja
