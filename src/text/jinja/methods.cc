// Methods of strings, lists and dicts. Those that would change a value are refused, as the sandbox refuses
// them.
#include <algorithm>
#include <unordered_map>

#include "text/jinja/case_mapping.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/lexer.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text::jinja {
namespace {

// Digits that are not decimal, such as superscripts and circled ones.
bool is_digit_elsewhere(char32_t c) {
  static constexpr std::pair<char32_t, char32_t> ranges[] = {
      {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
      {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
      {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
      {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

Value texts(std::vector<Text> parts) {
  Values out;
  for (Text& part : parts) out.push_back(std::move(part));
  return out;
}

Value strip_method(Interpreter&, const Value& self, Args& args, bool left, bool right) {
  const Bound bound("strip", args, {"chars"});
  return strip(*self.text(), bound.has(0) && !bound[0].is_none() ? &bound.text(0) : nullptr, left, right);
}

Value split_method(Interpreter& in, const Value& self, Args& args, bool from_right) {
  const Bound bound("split", args, {"sep", "maxsplit"});
  const Text& text = *self.text();
  const int64_t most = bound.integer(1, -1);
  in.step_bytes(text.bytes.size());
  if (!bound.has(0) || bound[0].is_none()) return texts(split_words(in, text, most, from_right));
  const std::string& separator = bound.text(0).bytes;
  if (separator.empty()) fail("empty separator");
  return texts(from_right ? split_from_right(in, text, separator, most) : split(in, text, separator, most));
}

// [start, end) of find(), count() and startswith(), in bytes.
ByteRange search_range(Interpreter& in, const Bound& bound, size_t first, std::string_view text) {
  if (!bound.has(first) && !bound.has(first + 1)) return {0, static_cast<uint32_t>(text.size())};
  in.step_bytes(text.size());
  const auto n = static_cast<int64_t>(count_chars(text));
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
  const int64_t begin = clamp(bound.integer(first, 0)), end = clamp(bound.integer(first + 1, n));
  return {static_cast<uint32_t>(byte_of_char(text, begin)),
          static_cast<uint32_t>(byte_of_char(text, std::max(begin, end)))};
}

Value affix_method(Interpreter& in, const Value& self, Args& args, bool at_start) {
  const Bound bound("startswith", args, {"prefix", "start", "end"}, 1);
  const std::string_view all = self.text()->bytes;
  const ByteRange range = search_range(in, bound, 1, all);
  const std::string_view text = all.substr(range.begin, range.end - range.begin);
  const auto fits = [&](const Value& affix) {
    if (!affix.defined().text())
      fail("startswith first arg must be str or a tuple of str, not {}", type_name(affix));
    return at_start ? text.starts_with(affix.text()->bytes) : text.ends_with(affix.text()->bytes);
  };
  if (bound[0].is_tuple()) {
    const Values& affixes = bound[0].sequence()->items;
    return std::any_of(affixes.begin(), affixes.end(), fits);
  }
  return fits(bound[0]);
}

Value find_method_impl(Interpreter& in, const Value& self, Args& args, bool last, bool must) {
  const Bound bound("find", args, {"sub", "start", "end"}, 1);
  const std::string_view all = self.text()->bytes;
  const ByteRange range = search_range(in, bound, 1, all);
  const std::string_view text = all.substr(0, range.end);
  const std::string& wanted = bound.text(0).bytes;
  size_t found = last ? find_last_text(text, wanted) : find_text(text, wanted, range.begin);
  if (found != text.npos && found < range.begin) found = text.npos;
  if (found == text.npos) {
    if (must) fail("substring not found");
    return -1;
  }
  return count_chars(all.substr(0, found));
}

Value count_method(Interpreter& in, const Value& self, Args& args) {
  const Bound bound("count", args, {"sub", "start", "end"}, 1);
  const std::string_view all = self.text()->bytes;
  const ByteRange range = search_range(in, bound, 1, all);
  const std::string_view text = all.substr(range.begin, range.end - range.begin);
  const std::string& wanted = bound.text(0).bytes;
  if (wanted.empty()) return count_chars(text) + 1;
  int64_t n = 0;
  for (size_t at = find_text(text, wanted); at != text.npos; at = find_text(text, wanted, at + wanted.size()))
    ++n;
  return n;
}

Value replace_method(Interpreter& in, const Value& self, Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  return replace_all(in, *self.text(), bound.text(0).bytes, bound.text(1), bound.integer(2, -1));
}

Value join_method(Interpreter& in, const Value& self, Args& args) {
  const Bound bound("join", args, {"iterable"}, 1);
  TextBuilder out;
  size_t n = 0;
  for (const Value& item : iterate(in, bound[0].defined())) {
    if (!item.text()) fail("sequence item {}: expected str instance, {} found", n, type_name(item));
    if (n++ > 0) out.append(*self.text());
    out.append(*item.text());
    in.step_bytes(self.text()->bytes.size() + item.text()->bytes.size());
  }
  return out.take();
}

Value partition_method(Interpreter&, const Value& self, Args& args, bool from_right) {
  const Bound bound("partition", args, {"sep"}, 1);
  const Text& text = *self.text();
  const std::string& separator = bound.text(0).bytes;
  if (separator.empty()) fail("empty separator");
  const size_t at = from_right ? find_last_text(text.bytes, separator) : find_text(text.bytes, separator);
  if (at == std::string::npos) {
    if (from_right) return Value::tuple({Text(), Text(), self});
    return Value::tuple({self, Text(), Text()});
  }
  const size_t after = at + separator.size();
  return Value::tuple({text.sub(0, at), text.sub(at, after), text.sub(after, text.bytes.size())});
}

Value remove_affix(const Value& self, Args& args, bool prefix) {
  const Bound bound("removeprefix", args, {"affix"}, 1);
  const Text& text = *self.text();
  const std::string& affix = bound.text(0).bytes;
  if (prefix) return text.bytes.starts_with(affix) ? Value(text.sub(affix.size(), text.bytes.size())) : self;
  const bool fits = text.bytes.ends_with(affix) && !affix.empty();
  return fits ? Value(text.sub(0, text.bytes.size() - affix.size())) : self;
}

Value pad_method(Interpreter& in, const Value& self, Args& args, Align align) {
  const Bound bound("ljust", args, {"width", "fillchar"}, 1);
  const std::string fill = bound.has(1) ? bound.text(1).bytes : " ";
  if (count_chars(fill) != 1) fail("the fill character must be exactly one character long");
  return pad(in, *self.text(), bound.integer(0, 0), fill, align);
}

Value zfill(Interpreter& in, const Value& self, Args& args) {
  const Bound bound("zfill", args, {"width"}, 1);
  const Text& text = *self.text();
  const bool sign = text.bytes.starts_with('-') || text.bytes.starts_with('+');
  TextBuilder out;
  out.append(text, 0, sign);
  out.append(pad(in, text.sub(sign, text.bytes.size()), bound.integer(0, 0) - sign, "0", Align::right));
  return out.take();
}

template <class Holds>
Value every_char(const Value& self, Holds holds) {
  const std::string_view text = self.text()->bytes;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text.substr(at));
    if (!holds(c.code)) return false;
    at += c.length;
  }
  return !text.empty();
}

Value title_method(Interpreter& in, const Value& self, Args&) {
  const Text& text = *self.text();
  TextBuilder out;
  bool in_word = false;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    const bool cased =
        has_case(c.code, Case::upper) || has_case(c.code, Case::lower) || has_case(c.code, Case::title);
    out.append(convert_case(in, text.sub(at, at + c.length), in_word ? Case::lower : Case::title));
    in_word = cased;
    at += c.length;
  }
  return out.take();
}

// A title has at least one letter with case, and each word begins with its only upper case one.
Value is_title(Interpreter&, const Value& self, Args&) {
  const std::string_view text = self.text()->bytes;
  bool in_word = false, any = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text.substr(at));
    at += c.length;
    const bool capital = has_case(c.code, Case::upper) || has_case(c.code, Case::title);
    const bool small = has_case(c.code, Case::lower);
    if ((capital && in_word) || (small && !in_word)) return false;
    in_word = capital || small;
    any |= in_word;
  }
  return any;
}

Value expand_tabs(Interpreter& in, const Value& self, Args& args) {
  const Bound bound("expandtabs", args, {"tabsize"});
  const int64_t width = bound.integer(0, 8);
  if (width > 1000) fail("expandtabs: want a width of at most 1000, got {}", width);
  const Text& text = *self.text();
  TextBuilder out;
  int64_t column = 0;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    if (c.code == '\t') {
      const int64_t spaces = width > 0 ? width - column % width : 0;
      in.step_bytes(spaces);
      out.append_data(std::string(spaces, ' '));
      column += spaces;
    } else {
      out.append(text, at, at + c.length);
      column = c.code == '\n' || c.code == '\r' ? 0 : column + 1;
    }
    at += c.length;
  }
  return out.take();
}

Value swapcase(Interpreter& in, const Value& self, Args&) {
  const Text& text = *self.text();
  TextBuilder out;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    const Text letter = text.sub(at, at + c.length);
    out.append(has_case(c.code, Case::title)
                   ? letter
                   : convert_case(in, letter, has_case(c.code, Case::upper) ? Case::lower : Case::upper));
    at += c.length;
  }
  return out.take();
}

const std::unordered_map<std::string_view, Method>& string_methods() {
  static const std::unordered_map<std::string_view, Method> table = [] {
    std::unordered_map<std::string_view, Method> t = {
        {"count", count_method}, {"replace", replace_method}, {"join", join_method},     {"zfill", zfill},
        {"title", title_method}, {"swapcase", swapcase},      {"format", format_braces},
    };
    t["strip"] = [](Interpreter& in, const Value& s, Args& a) { return strip_method(in, s, a, true, true); };
    t["lstrip"] = [](Interpreter& in, const Value& s, Args& a) {
      return strip_method(in, s, a, true, false);
    };
    t["rstrip"] = [](Interpreter& in, const Value& s, Args& a) {
      return strip_method(in, s, a, false, true);
    };
    t["split"] = [](Interpreter& in, const Value& s, Args& a) { return split_method(in, s, a, false); };
    t["rsplit"] = [](Interpreter& in, const Value& s, Args& a) { return split_method(in, s, a, true); };
    t["splitlines"] = [](Interpreter& in, const Value& s, Args& a) {
      const Bound bound("splitlines", a, {"keepends"});
      return texts(split_lines(in, *s.text(), false, bound.flag(0, false)));
    };
    t["startswith"] = [](Interpreter& in, const Value& s, Args& a) { return affix_method(in, s, a, true); };
    t["endswith"] = [](Interpreter& in, const Value& s, Args& a) { return affix_method(in, s, a, false); };
    t["find"] = [](Interpreter& in, const Value& s, Args& a) {
      return find_method_impl(in, s, a, false, false);
    };
    t["rfind"] = [](Interpreter& in, const Value& s, Args& a) {
      return find_method_impl(in, s, a, true, false);
    };
    t["index"] = [](Interpreter& in, const Value& s, Args& a) {
      return find_method_impl(in, s, a, false, true);
    };
    t["rindex"] = [](Interpreter& in, const Value& s, Args& a) {
      return find_method_impl(in, s, a, true, true);
    };
    t["partition"] = [](Interpreter& in, const Value& s, Args& a) {
      return partition_method(in, s, a, false);
    };
    t["rpartition"] = [](Interpreter& in, const Value& s, Args& a) {
      return partition_method(in, s, a, true);
    };
    t["removeprefix"] = [](Interpreter&, const Value& s, Args& a) { return remove_affix(s, a, true); };
    t["removesuffix"] = [](Interpreter&, const Value& s, Args& a) { return remove_affix(s, a, false); };
    t["ljust"] = [](Interpreter& in, const Value& s, Args& a) { return pad_method(in, s, a, Align::left); };
    t["rjust"] = [](Interpreter& in, const Value& s, Args& a) { return pad_method(in, s, a, Align::right); };
    t["center"] = [](Interpreter& in, const Value& s, Args& a) {
      return pad_method(in, s, a, Align::center);
    };
    t["upper"] = [](Interpreter& in, const Value& s, Args& a) -> Value {
      const Bound none("upper", a, {});
      return convert_case(in, *s.text(), Case::upper);
    };
    t["lower"] = [](Interpreter& in, const Value& s, Args& a) -> Value {
      const Bound none("lower", a, {});
      return convert_case(in, *s.text(), Case::lower);
    };
    t["casefold"] = [](Interpreter& in, const Value& s, Args& a) -> Value {
      const Bound none("casefold", a, {});
      return fold_case(in, *s.text());
    };
    t["capitalize"] = [](Interpreter& in, const Value& s, Args& a) -> Value {
      const Bound none("capitalize", a, {});
      return convert_case(in, *s.text(), Case::title, Case::lower);
    };
    t["isspace"] = [](Interpreter&, const Value& s, Args&) { return every_char(s, is_python_space); };
    t["isalpha"] = [](Interpreter&, const Value& s, Args&) {
      return every_char(s, [](char32_t c) { return (category_bit(c) & kLetters) != 0; });
    };
    t["isalnum"] = [](Interpreter&, const Value& s, Args&) {
      return every_char(s, [](char32_t c) { return (category_bit(c) & (kLetters | kNumbers)) != 0; });
    };
    t["isdecimal"] = [](Interpreter&, const Value& s, Args&) {
      return every_char(s, [](char32_t c) { return category(c) == Category::Nd; });
    };
    t["isdigit"] = [](Interpreter&, const Value& s, Args&) {
      return every_char(s, [](char32_t c) { return category(c) == Category::Nd || is_digit_elsewhere(c); });
    };
    t["isascii"] = [](Interpreter&, const Value& s, Args&) -> Value {
      const std::string& bytes = s.text()->bytes;
      return std::none_of(bytes.begin(), bytes.end(), [](char c) { return (c & 0x80) != 0; });
    };
    t["isprintable"] = [](Interpreter&, const Value& s, Args&) -> Value {
      return s.text()->bytes.empty() ? Value(true) : every_char(s, is_printable);
    };
    t["isidentifier"] = [](Interpreter&, const Value& s, Args&) -> Value {
      const bool digit_first =
          !s.text()->bytes.empty() && category(decode_utf8(s.text()->bytes).code) == Category::Nd;
      return !digit_first && *every_char(s, [](char32_t c) {
                                return c == '_' || (category_bit(c) & (kLetters | kMarks)) ||
                                       category(c) == Category::Nd;
                              }).boolean();
    };
    t["istitle"] = is_title;
    t["expandtabs"] = expand_tabs;
    t["isnumeric"] = [](Interpreter&, const Value& s, Args&) {
      return every_char(s, [](char32_t c) { return (category_bit(c) & kNumbers) != 0; });
    };
    t["isupper"] = [](Interpreter& in, const Value& s, Args& a) -> Value {
      return call_test(in, "upper", s, a);
    };
    t["islower"] = [](Interpreter& in, const Value& s, Args& a) -> Value {
      return call_test(in, "lower", s, a);
    };
    return t;
  }();
  return table;
}

Value refuse(Interpreter&, const Value& self, Args&) {
  fail("access to a method that would change a '{}' object is unsafe", type_name(self));
}

Value dict_get(Interpreter&, const Value& self, Args& args) {
  const Bound bound("get", args, {"key", "default"}, 1);
  const Value* found = self.dict()->find(bound[0]);
  return found ? *found : bound.get(1, None{});
}

template <class Part>
Value dict_view(Interpreter& in, const Value& self, SequenceKind kind, Part part) {
  Sequence view{{}, kind};
  for (const auto& item : self.dict()->items()) view.items.push_back(part(item));
  in.step_items(view.items.size() * 4);
  return view;
}

const std::unordered_map<std::string_view, Method>& dict_methods() {
  static const std::unordered_map<std::string_view, Method> table = [] {
    std::unordered_map<std::string_view, Method> t = {{"get", dict_get}};
    t["keys"] = [](Interpreter& in, const Value& s, Args&) {
      return dict_view(in, s, SequenceKind::keys, [](const auto& item) { return item.first; });
    };
    t["values"] = [](Interpreter& in, const Value& s, Args&) {
      return dict_view(in, s, SequenceKind::values, [](const auto& item) { return item.second; });
    };
    t["items"] = [](Interpreter& in, const Value& s, Args&) {
      return dict_view(in, s, SequenceKind::items, [](const auto& item) {
        return Value::tuple({item.first, item.second});
      });
    };
    t["copy"] = [](Interpreter&, const Value& s, Args&) { return s; };
    for (const char* name : {"clear", "pop", "popitem", "setdefault", "update"}) t[name] = refuse;
    return t;
  }();
  return table;
}

Value list_count(Interpreter& in, const Value& self, Args& args) {
  const Bound bound("count", args, {"value"}, 1);
  const Values& items = self.sequence()->items;
  return static_cast<size_t>(std::count_if(items.begin(), items.end(),
                                           [&](const Value& item) { return equals(in, item, bound[0]); }));
}

Value list_index(Interpreter& in, const Value& self, Args& args) {
  const Bound bound("index", args, {"value"}, 1);
  const Values& items = self.sequence()->items;
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const Value& item) { return equals(in, item, bound[0]); });
  if (found == items.end()) fail("value is not in list");
  return static_cast<size_t>(found - items.begin());
}

const std::unordered_map<std::string_view, Method>& list_methods() {
  static const std::unordered_map<std::string_view, Method> table = [] {
    std::unordered_map<std::string_view, Method> t = {{"count", list_count}, {"index", list_index}};
    t["copy"] = [](Interpreter&, const Value& s, Args&) { return s; };
    for (const char* name : {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"})
      t[name] = refuse;
    return t;
  }();
  return table;
}

}  // namespace

Method find_method(const Value& self, std::string_view name) {
  const auto look = [&](const std::unordered_map<std::string_view, Method>& table) -> Method {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
  };
  if (self.text()) return look(string_methods());
  if (self.dict()) return look(dict_methods());
  if (self.is_list() || self.is_tuple()) return look(list_methods());
  return nullptr;
}

}  // namespace headrace::text::jinja
