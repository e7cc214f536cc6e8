#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace headrace::text::jinja {

Text Text::from_author(std::string bytes) {
  Text text{std::move(bytes), {}};
  if (!text.bytes.empty()) text.trusted.push_back({0, static_cast<uint32_t>(text.bytes.size())});
  return text;
}

Text Text::sub(size_t begin, size_t end) const {
  TextBuilder builder;
  builder.append(*this, begin, end);
  return builder.take();
}

void TextBuilder::trust(size_t begin, size_t end) {
  if (begin == end) return;
  auto& ranges = text_.trusted;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = static_cast<uint32_t>(end);
  } else {
    ranges.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  }
}

void TextBuilder::append(const Text& text, size_t begin, size_t end) {
  const size_t base = text_.bytes.size();
  text_.bytes.append(text.bytes, begin, end - begin);
  auto range = std::lower_bound(text.trusted.begin(), text.trusted.end(), begin,
                                [](const ByteRange& r, size_t at) { return r.end <= at; });
  for (; range != text.trusted.end() && range->begin < end; ++range) {
    trust(base + std::max<size_t>(range->begin, begin) - begin,
          base + std::min<size_t>(range->end, end) - begin);
  }
}

void TextBuilder::append_trusted(std::string_view bytes) {
  const size_t base = text_.bytes.size();
  text_.bytes += bytes;
  trust(base, text_.bytes.size());
}

Value::Value(Sequence sequence) : data_(std::make_shared<const Sequence>(std::move(sequence))) {}
Value::Value(Values list) : Value(Sequence{std::move(list), SequenceKind::list}) {}
Value::Value(Dict dict) : data_(std::make_shared<const Dict>(std::move(dict))) {}

Value Value::undefined(std::string why) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return value;
}

Value Value::tuple(Values items) {
  return Sequence{std::move(items), SequenceKind::tuple};
}

const Value& Value::defined() const {
  if (const auto* undefined = std::get_if<Undefined>(&data_)) {
    throw TemplateError{Code::malformed, undefined->why ? *undefined->why : "value is undefined"};
  }
  return *this;
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return as_real() != 0;
  if (text()) return !text()->bytes.empty();
  if (sequence()) return sequence()->kind == SequenceKind::generator || !sequence()->items.empty();
  if (dict()) return dict()->size() > 0;
  return true;
}

bool Value::is(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_none() || is_undefined()) return true;
  if (boolean()) return *boolean() == *other.boolean();
  if (integer()) return *integer() == *other.integer();
  if (text()) return text() == other.text() || text()->bytes == other.text()->bytes;
  if (sequence()) return sequence() == other.sequence();
  if (dict()) return dict() == other.dict();
  if (object()) return object() == other.object();
  return false;
}

size_t Dict::index_of(const Value& key) const {
  if (const Text* name = key.text()) {
    const auto found = by_name_.find(name->bytes);
    return found == by_name_.end() ? kNowhere : found->second;
  }
  if (by_name_.size() == items_.size()) return kNowhere;
  const auto found =
      std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return equals(item.first, key); });
  return found == items_.end() ? kNowhere : found - items_.begin();
}

void Dict::set(Value key, Value value) {
  if (const size_t at = index_of(key); at != kNowhere) {
    items_[at].second = std::move(value);
    return;
  }
  if (key.sequence() && key.sequence()->kind != SequenceKind::tuple)
    fail("unhashable type: '{}'", type_name(key));
  if (key.dict()) fail("unhashable type: 'dict'");
  if (key.text()) by_name_.emplace(key.text()->bytes, items_.size());
  items_.emplace_back(std::move(key), std::move(value));
}

const Value* Dict::find(std::string_view key) const {
  const auto found = by_name_.find(std::string(key));
  return found == by_name_.end() ? nullptr : &items_[found->second].second;
}

const Value* Dict::find(const Value& key) const {
  const size_t at = index_of(key);
  return at == kNowhere ? nullptr : &items_[at].second;
}

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.boolean()) return "bool";
  if (value.integer()) return "int";
  if (value.real()) return "float";
  if (value.text()) return "str";
  if (value.dict()) return "dict";
  if (const Sequence* s = value.sequence()) {
    static constexpr const char* names[] = {"list", "tuple", "range", "dict_items", "generator"};
    return names[static_cast<int>(s->kind)];
  }
  return value.object()->type_name();
}

bool equals(const Value& a, const Value& b, int depth) {
  if (depth > kMaxNesting) fail("comparison: nested deeper than {}", kMaxNesting);
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.as_integer() == b.as_integer() : a.as_real() == b.as_real();
  }
  if (a.text() && b.text()) return a.text()->bytes == b.text()->bytes;
  if (a.sequence() && b.sequence()) {
    if (a.sequence() == b.sequence()) return true;
    if (a.sequence()->kind != b.sequence()->kind || a.sequence()->kind == SequenceKind::generator)
      return false;
    const Values &x = a.sequence()->items, &y = b.sequence()->items;
    return x.size() == y.size() &&
           std::equal(x.begin(), x.end(), y.begin(),
                      [&](const Value& l, const Value& r) { return equals(l, r, depth + 1); });
  }
  if (a.dict() && b.dict()) {
    if (a.dict()->size() != b.dict()->size()) return false;
    for (const auto& [key, value] : a.dict()->items()) {
      const Value* other = b.dict()->find(key);
      if (other == nullptr || !equals(value, *other, depth + 1)) return false;
    }
    return true;
  }
  return a.is(b);
}

int compare(const Value& a, const Value& b, int depth) {
  if (depth > kMaxNesting) fail("comparison: nested deeper than {}", kMaxNesting);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) {
      return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer();
    }
    return a.as_real() < b.as_real() ? -1 : a.as_real() > b.as_real();
  }
  // The order of UTF-8 bytes is the order of code points.
  if (a.text() && b.text()) return std::clamp(a.text()->bytes.compare(b.text()->bytes), -1, 1);
  const Sequence *s = a.sequence(), *t = b.sequence();
  const auto ordered = [](const Sequence* q) {
    return q && (q->kind == SequenceKind::list || q->kind == SequenceKind::tuple);
  };
  if (ordered(s) && ordered(t) && s->kind == t->kind) {
    for (size_t i = 0; i < s->items.size() && i < t->items.size(); ++i) {
      if (!equals(s->items[i], t->items[i], depth + 1)) return compare(s->items[i], t->items[i], depth + 1);
    }
    return s->items.size() < t->items.size() ? -1 : s->items.size() > t->items.size();
  }
  fail("'<' not supported between instances of '{}' and '{}'", type_name(a.defined()),
       type_name(b.defined()));
}

Values iterate(const Value& value) {
  if (value.is_undefined()) return {};
  if (const Sequence* s = value.sequence()) return s->items;
  Values out;
  if (const Dict* d = value.dict()) {
    for (const auto& item : d->items()) out.push_back(item.first);
    return out;
  }
  if (const Text* t = value.text()) {
    for (size_t at = 0; at < t->bytes.size();) {
      const size_t end = at + decode_utf8(std::string_view(t->bytes).substr(at)).length;
      out.push_back(t->sub(at, end));
      at = end;
    }
    return out;
  }
  fail("'{}' object is not iterable", type_name(value));
}

}  // namespace headrace::text::jinja
