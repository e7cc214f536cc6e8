#pragma once
// The values of a template: Python's, as far as chat templates see them. All but namespaces are immutable and
// shared, as in the sandbox. A string remembers which of its bytes the template's author wrote (`trusted`)
// and which came out of the variables.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace headrace::text::jinja {

// Thrown inside the interpreter only; parse() and render() turn it into a Status.
struct TemplateError {
  Code code;
  std::string message;
  int line = 0;  // 0: the place that catches it and knows the line fills it in
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError{Code::malformed, fmt::format(format, std::forward<Args>(args)...)};
}

// What a rendering may still spend: a step for each evaluated node, each value that is compared or written,
// and each 8 bytes of what is built, so that the steps bound the memory that a template can hold at once.
class Budget {
 public:
  explicit Budget(uint64_t steps) : max_steps_(steps), left_(steps) {}
  void step(uint64_t n = 1) {
    if (n > left_) exhausted();
    left_ -= n;
  }
  void step_bytes(size_t bytes) { step(bytes / 8); }
  // `items` values.
  void step_items(uint64_t items);
  // `texts` strings of a list, beside their bytes.
  void step_texts(uint64_t texts);

 private:
  [[noreturn]] void exhausted() const;
  uint64_t max_steps_, left_;
};

struct Text {
  std::string bytes;               // valid UTF-8
  std::vector<ByteRange> trusted;  // sorted, disjoint, not adjacent

  static Text from_author(std::string bytes);
  static Text from_data(std::string bytes) { return {std::move(bytes), {}}; }
  Text sub(size_t begin, size_t end) const;  // bytes [begin, end)
};

// Appends texts and keeps their trusted ranges.
class TextBuilder {
 public:
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  void append(const Text& text, size_t begin, size_t end);
  void append_data(std::string_view bytes) { text_.bytes += bytes; }
  void append_trusted(std::string_view bytes);
  size_t size() const { return text_.bytes.size(); }
  Text take() { return std::exchange(text_, {}); }

 private:
  void trust(size_t begin, size_t end);
  Text text_;
};

class Value;
class Interpreter;
using Values = std::vector<Value>;

struct Undefined {
  std::shared_ptr<const std::string> why;  // "'x' is undefined"
};
struct None {};

enum class SequenceKind : uint8_t {
  list,
  tuple,
  range,
  keys,  // dict.keys() and the like: no index
  values,
  items,
  group,      // what groupby gives: a tuple with the attributes `grouper` and `list`
  generator,  // what lazy filters give: no length, no index, always true
};

struct Sequence;
class Dict;
struct Object;

class Value {
 public:
  using Data =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                   std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>;

  Value() = default;  // undefined
  Value(None none) : data_(none) {}
  Value(bool b) : data_(b) {}
  Value(int64_t i) : data_(i) {}
  Value(int i) : data_(int64_t{i}) {}
  Value(size_t n) : data_(static_cast<int64_t>(n)) {}
  Value(double d) : data_(d) {}
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  Value(Sequence sequence);
  Value(Values list);
  Value(Dict dict);
  Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}
  Value(const char*) = delete;

  static Value undefined(std::string why);
  static Value data(std::string bytes) { return Text::from_data(std::move(bytes)); }
  static Value tuple(Values items);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  // Undefined, and it is known why.
  bool has_reason() const { return is_undefined() && std::get<Undefined>(data_).why != nullptr; }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const Text* text() const { return get<Text>(); }
  const Sequence* sequence() const { return get<Sequence>(); }
  bool is_tuple() const;
  bool is_list() const;
  bool is_range() const;
  bool is_generator() const;
  const Dict* dict() const { return get<Dict>(); }
  Object* object() const {
    const auto* p = std::get_if<std::shared_ptr<Object>>(&data_);
    return p ? p->get() : nullptr;
  }
  std::shared_ptr<Object> shared_object() const { return std::get<std::shared_ptr<Object>>(data_); }

  // Booleans count as 0 and 1, as in Python.
  bool is_number() const { return boolean() || integer() || real(); }
  bool is_integral() const { return boolean() || integer(); }
  int64_t as_integer() const { return boolean() ? *boolean() : *integer(); }
  double as_real() const { return real() ? *real() : static_cast<double>(as_integer()); }

  // How deep the parts of this value are nested: 0 for a number, 1 for a list of numbers. At most
  // kMaxNesting, so that recursion over a value, its destructor's too, stays far from the end of the stack.
  int nesting() const;

  bool truthy() const;
  bool is(const Value& other) const;  // Python's `is`
  // Raises for an undefined value that is used.
  const Value& defined() const;

 private:
  template <class T>
  const T* get() const {
    const auto* p = std::get_if<std::shared_ptr<const T>>(&data_);
    return p ? p->get() : nullptr;
  }
  Data data_;
};

struct Sequence {
  Values items;
  SequenceKind kind = SequenceKind::list;
  int nesting = 0;  // filled in where it becomes a Value
  // Of a generator: how many items were taken. It gives each once.
  mutable size_t taken = 0;
};

inline bool Value::is_tuple() const {
  return sequence() && (sequence()->kind == SequenceKind::tuple || sequence()->kind == SequenceKind::group);
}
inline bool Value::is_list() const {
  return sequence() && sequence()->kind == SequenceKind::list;
}
inline bool Value::is_range() const {
  return sequence() && sequence()->kind == SequenceKind::range;
}
inline bool Value::is_generator() const {
  return sequence() && sequence()->kind == SequenceKind::generator;
}

// Keeps the order of insertion; keys are any values that Python can hash.
class Dict {
 public:
  void set(Value key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  size_t size() const { return items_.size(); }
  int nesting() const { return nesting_; }

 private:
  std::vector<std::pair<Value, Value>> items_;
  std::unordered_map<std::string, size_t> by_name_;   // string keys
  std::unordered_map<std::string, size_t> by_other_;  // all others, by a spelling that equal keys share
  int nesting_ = 1;
};

struct Args {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Namespaces, macros, loops, functions, bound methods.
struct Object {
  // `parts`: the nesting of the values that it holds for as long as it lives. What it holds until release()
  // is called does not count.
  explicit Object(int parts = 0);
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual std::string type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Interpreter&, Args&) { fail("'{}' object is not callable", type_name()); }
  // Undefined when there is no such attribute.
  virtual Value attribute(std::string_view) { return {}; }
  // False when attributes cannot be set.
  virtual bool set_attribute(std::string_view, Value) { return false; }
  // Lets go of the values it holds.
  virtual void release() {}

  const int nesting;
};

std::string type_name(const Value& value);
bool equals(Budget& in, const Value& a, const Value& b);
// -1, 0, 1; raises for values that have no order.
int compare(Budget& in, const Value& a, const Value& b);
// Python's `value in container`.
bool contains(Budget& in, const Value& container, const Value& value);
// Python's str() and repr().
Text to_text(Budget& in, const Value& value);
void append_repr(Budget& in, const Value& value, std::string& out);
std::string real_repr(double value);
bool is_printable(char32_t c);  // as str.isprintable() has it
// json.dumps with transformers' defaults; indent < 0: one line.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::string indent;
  bool pretty = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
void append_json(Budget& in, const Value& value, const JsonStyle& style, std::string& out, int depth = 0);

// The items of anything that can be iterated; raises otherwise. A string gives its characters, a dict its
// keys, a generator what it has not given before.
Values iterate(Budget& in, const Value& value);

// Values from JSON text, key order kept. Errors: malformed.
Result<Value> parse_json(std::string_view json);

// Deeper nesting than this is refused everywhere (recursion stays far from the end of a thread's stack).
inline constexpr int kMaxNesting = 200;

}  // namespace headrace::text::jinja
