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

namespace {

int checked_nesting(int nesting) {
  if (nesting > kMaxNesting) fail("value: nested deeper than {}", kMaxNesting);
  return nesting;
}

}  // namespace

void Budget::exhausted() const {
  throw TemplateError{Code::resource_exhausted, fmt::format("rendering took more than {} steps", max_steps_)};
}

void Budget::step_items(uint64_t items) {
  constexpr uint64_t kSteps = sizeof(Value) / 8;
  step(items > max_steps_ ? items : items * kSteps);
}

void Budget::step_texts(uint64_t texts) {
  // A Value, its shared Text with the counts before it, and what the allocator adds.
  constexpr uint64_t kSteps = (sizeof(Value) + sizeof(Text) + 32) / 8;
  step(texts > max_steps_ ? texts : texts * kSteps);
}

Object::Object(int parts) : nesting(checked_nesting(parts)) {}

int Value::nesting() const {
  if (sequence()) return sequence()->nesting;
  if (dict()) return dict()->nesting();
  return object() ? object()->nesting : 0;
}

Value::Value(Sequence sequence) {
  for (const Value& item : sequence.items) sequence.nesting = std::max(sequence.nesting, item.nesting());
  checked_nesting(++sequence.nesting);
  data_ = std::make_shared<const Sequence>(std::move(sequence));
}
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

namespace {

// Equal keys have equal spellings, others do not.
void append_key(const Value& key, std::string& out) {
  constexpr size_t kMaxKeyBytes = 1 << 16;
  if (out.size() > kMaxKeyBytes) fail("dict: a key of more than {} bytes", kMaxKeyBytes);
  if (key.is_undefined()) {
    out += 'u';
  } else if (key.is_none()) {
    out += 'n';
  } else if (key.real() && !(std::fabs(*key.real()) < 9e18 && std::floor(*key.real()) == *key.real())) {
    out += fmt::format("f{:a};", *key.real());
  } else if (key.is_number()) {
    out += fmt::format("i{};", key.real() ? static_cast<int64_t>(*key.real()) : key.as_integer());
  } else if (key.text()) {
    out += fmt::format("s{}:{}", key.text()->bytes.size(), key.text()->bytes);
  } else if (key.object()) {
    out += fmt::format("o{};", static_cast<const void*>(key.object()));
  } else if (key.is_tuple()) {
    out += '(';
    for (const Value& item : key.sequence()->items) append_key(item, out);
    out += ')';
  } else {
    fail("unhashable type: '{}'", type_name(key));
  }
}

}  // namespace

void Dict::set(Value key, Value value) {
  std::string spelling;
  if (!key.text()) append_key(key, spelling);
  const auto [it, added] = key.text() ? by_name_.try_emplace(key.text()->bytes, items_.size())
                                      : by_other_.try_emplace(std::move(spelling), items_.size());
  nesting_ = checked_nesting(std::max({nesting_, key.nesting() + 1, value.nesting() + 1}));
  if (added) {
    items_.emplace_back(std::move(key), std::move(value));
  } else {
    items_[it->second].second = std::move(value);
  }
}

const Value* Dict::find(std::string_view key) const {
  const auto found = by_name_.find(std::string(key));
  return found == by_name_.end() ? nullptr : &items_[found->second].second;
}

const Value* Dict::find(const Value& key) const {
  if (key.text()) return find(key.text()->bytes);
  std::string spelling;
  append_key(key, spelling);
  const auto found = by_other_.find(spelling);
  return found == by_other_.end() ? nullptr : &items_[found->second].second;
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
    static constexpr const char* names[] = {"list",        "tuple",      "range", "dict_keys",
                                            "dict_values", "dict_items", "tuple", "generator"};
    return names[static_cast<int>(s->kind)];
  }
  return value.object()->type_name();
}

bool equals(Budget& in, const Value& a, const Value& b) {
  in.step();
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.as_integer() == b.as_integer() : a.as_real() == b.as_real();
  }
  if (a.text() && b.text()) {
    if (a.text()->bytes.size() != b.text()->bytes.size()) return false;
    in.step_bytes(a.text()->bytes.size());
    return a.text()->bytes == b.text()->bytes;
  }
  if (a.sequence() && b.sequence()) {
    if (a.sequence() == b.sequence()) return true;
    const bool both_tuples = a.is_tuple() && b.is_tuple();
    if ((!both_tuples && a.sequence()->kind != b.sequence()->kind) || a.is_generator()) return false;
    const Values &x = a.sequence()->items, &y = b.sequence()->items;
    return x.size() == y.size() &&
           std::equal(x.begin(), x.end(), y.begin(),
                      [&](const Value& l, const Value& r) { return equals(in, l, r); });
  }
  if (a.dict() && b.dict()) {
    if (a.dict()->size() != b.dict()->size()) return false;
    for (const auto& [key, value] : a.dict()->items()) {
      const Value* other = b.dict()->find(key);
      if (other == nullptr || !equals(in, value, *other)) return false;
    }
    return true;
  }
  return a.is(b);
}

int compare(Budget& in, const Value& a, const Value& b) {
  in.step();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) {
      return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer();
    }
    return a.as_real() < b.as_real() ? -1 : a.as_real() > b.as_real();
  }
  if (a.text() && b.text()) {
    in.step_bytes(std::min(a.text()->bytes.size(), b.text()->bytes.size()));
    // The order of UTF-8 bytes is the order of code points.
    return std::clamp(a.text()->bytes.compare(b.text()->bytes), -1, 1);
  }
  const Sequence *s = a.sequence(), *t = b.sequence();
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    for (size_t i = 0; i < s->items.size() && i < t->items.size(); ++i) {
      if (!equals(in, s->items[i], t->items[i])) return compare(in, s->items[i], t->items[i]);
    }
    return s->items.size() < t->items.size() ? -1 : s->items.size() > t->items.size();
  }
  fail("'<' not supported between instances of '{}' and '{}'", type_name(a.defined()),
       type_name(b.defined()));
}

Values iterate(Budget& in, const Value& value) {
  if (value.is_undefined()) return {};
  if (const Sequence* s = value.sequence()) {
    const size_t from = value.is_generator() ? std::exchange(s->taken, s->items.size()) : 0;
    in.step_items(s->items.size() - from);
    return {s->items.begin() + static_cast<ptrdiff_t>(from), s->items.end()};
  }
  Values out;
  if (const Dict* d = value.dict()) {
    in.step_items(d->size());
    for (const auto& item : d->items()) out.push_back(item.first);
    return out;
  }
  if (const Text* t = value.text()) {
    for (size_t at = 0; at < t->bytes.size();) {
      in.step_texts(1);
      const size_t end = at + decode_utf8(std::string_view(t->bytes).substr(at)).length;
      out.push_back(t->sub(at, end));
      at = end;
    }
    return out;
  }
  fail("'{}' object is not iterable", type_name(value));
}

}  // namespace headrace::text::jinja
