// What each expression evaluates to: Python's operators as far as templates use them.
#include <algorithm>
#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/strings.h"
#include "text/utf8.h"

namespace headrace::text::jinja {
namespace {

struct BoundMethod final : Object {
  // `constant`: it does not look at all of `s`.
  BoundMethod(Value s, Method m, bool constant)
      : Object(s.nesting() + 1), self(std::move(s)), method(m), in_constant_time(constant) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value call(Interpreter& in, Args& args) override {
    if (self.text() && !in_constant_time) in.step_bytes(self.text()->bytes.size());
    return method(in, self, args);
  }
  Value self;
  Method method;
  bool in_constant_time;
};

std::string shown_type(const Value& value) {
  return value.is_none() ? "None" : fmt::format("{} object", type_name(value));
}

// A Python index into `size` items, or -1.
int64_t position(int64_t index, size_t size) {
  const auto n = static_cast<int64_t>(size);
  if (index < 0) index += n;
  return index >= 0 && index < n ? index : -1;
}

// The byte positions of a text's characters, and its end.
std::vector<uint32_t> char_starts(std::string_view text) {
  std::vector<uint32_t> starts;
  for (uint32_t at = 0; at < text.size(); ++at) {
    if ((static_cast<uint8_t>(text[at]) & 0xC0) != 0x80) starts.push_back(at);
  }
  starts.push_back(static_cast<uint32_t>(text.size()));
  return starts;
}

int64_t checked(bool overflow, int64_t result) {
  if (overflow) fail("integer overflow");
  return result;
}

Value negate(int64_t value) {
  int64_t result;
  const bool overflow = __builtin_sub_overflow(int64_t{0}, value, &result);
  return checked(overflow, result);
}

[[noreturn]] void bad_operands(std::string_view op, const Value& left, const Value& right) {
  left.defined();
  right.defined();
  if (op == "+" && left.text()) fail("can only concatenate str (not \"{}\") to str", type_name(right));
  fail("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(left), type_name(right));
}

Value repeat(Interpreter& in, const Value& value, int64_t times) {
  if (times < 0) times = 0;
  const auto n = static_cast<uint64_t>(times);
  const size_t size = value.text() ? value.text()->bytes.size() : value.sequence()->items.size();
  // Charged before it is built; a product that does not fit is charged as such.
  const bool too_large = size != 0 && n > (uint64_t{1} << 40) / size;
  in.step(too_large ? uint64_t{1} << 40 : n * size * (value.text() ? 1 : sizeof(Value)) / 8);
  if (const Text* text = value.text()) {
    TextBuilder out;
    for (uint64_t i = 0; i < n && size > 0; ++i) out.append(*text);
    return out.take();
  }
  Sequence out{{}, value.is_list() ? SequenceKind::list : SequenceKind::tuple};
  const Values& items = value.sequence()->items;
  for (uint64_t i = 0; i < n && size > 0; ++i) out.items.insert(out.items.end(), items.begin(), items.end());
  return out;
}

bool repeatable(const Value& value) {
  return value.text() || value.is_list() || value.is_tuple();
}

Value multiply(Interpreter& in, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    int64_t product;
    const bool overflow = __builtin_mul_overflow(left.as_integer(), right.as_integer(), &product);
    return checked(overflow, product);
  }
  if (left.is_number() && right.is_number()) return left.as_real() * right.as_real();
  if (repeatable(left) && right.is_integral()) return repeat(in, left, right.as_integer());
  if (left.is_integral() && repeatable(right)) return repeat(in, right, left.as_integer());
  bad_operands("*", left, right);
}

Value divide(BinaryOp op, const Value& left, const Value& right) {
  if (right.as_real() == 0)
    fail("{}", op == BinaryOp::modulo ? "integer modulo by zero" : "division by zero");
  if (op == BinaryOp::divide) return left.as_real() / right.as_real();
  if (left.is_integral() && right.is_integral()) {
    const int64_t a = left.as_integer(), b = right.as_integer();
    if (b == -1) return op == BinaryOp::modulo ? Value(0) : negate(a);
    const int64_t quotient = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
    return op == BinaryOp::modulo ? a - quotient * b : quotient;
  }
  const double quotient = std::floor(left.as_real() / right.as_real());
  if (op == BinaryOp::floor_divide) return quotient;
  const double rest = std::fmod(left.as_real(), right.as_real());
  return rest != 0 && (rest < 0) != (right.as_real() < 0) ? rest + right.as_real() : rest;
}

Value power(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral() && right.as_integer() >= 0) {
    int64_t result = 1, base = left.as_integer();
    bool overflow = false;
    for (int64_t n = right.as_integer(); n > 0 && !overflow; n >>= 1) {
      if (n & 1) overflow = __builtin_mul_overflow(result, base, &result);
      if (n > 1) overflow |= __builtin_mul_overflow(base, base, &base);
    }
    return checked(overflow, result);
  }
  return std::pow(left.as_real(), right.as_real());
}

bool holds(Budget& in, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::eq:
      return equals(in, left, right);
    case CompareOp::ne:
      return !equals(in, left, right);
    case CompareOp::lt:
      return compare(in, left, right) < 0;
    case CompareOp::le:
      return compare(in, left, right) <= 0;
    case CompareOp::gt:
      return compare(in, left, right) > 0;
    case CompareOp::ge:
      return compare(in, left, right) >= 0;
    case CompareOp::in:
      return contains(in, right, left);
    case CompareOp::not_in:
      return !contains(in, right, left);
  }
  return false;
}

// Python's slice.indices(): the positions that [start:stop:step] takes of `size` items.
std::vector<size_t> slice_positions(Interpreter& in, const Slice& slice, size_t size) {
  const auto n = static_cast<int64_t>(size);
  const auto bound = [&](const ExprPtr& expr) -> std::optional<int64_t> {
    if (!expr) return std::nullopt;
    const Value value = expr->eval(in);
    if (value.is_none()) return std::nullopt;
    if (!value.defined().is_integral()) fail("slice indices must be integers or None");
    return value.as_integer();
  };
  const auto start = bound(slice.start), stop = bound(slice.stop), given_step = bound(slice.step);
  const int64_t step = given_step.value_or(1);
  if (step == 0) fail("slice step cannot be zero");
  const auto clamp = [&](int64_t at) {
    if (at < 0) at = at < -n ? -1 : at + n;
    return step > 0 ? std::clamp<int64_t>(at, 0, n) : std::clamp<int64_t>(at, -1, n - 1);
  };
  int64_t from = start ? clamp(*start) : step > 0 ? 0 : n - 1;
  const int64_t to = stop ? clamp(*stop) : step > 0 ? n : -1;
  std::vector<size_t> out;
  while (step > 0 ? from < to : from > to) {
    out.push_back(static_cast<size_t>(from));
    if (__builtin_add_overflow(from, step, &from)) break;
  }
  return out;
}

}  // namespace

Value add(Interpreter& in, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    int64_t sum;
    const bool overflow = __builtin_add_overflow(left.as_integer(), right.as_integer(), &sum);
    return checked(overflow, sum);
  }
  if (left.is_number() && right.is_number()) return left.as_real() + right.as_real();
  if (left.text() && right.text()) {
    in.step_bytes(left.text()->bytes.size() + right.text()->bytes.size());
    TextBuilder both;
    both.append(*left.text());
    both.append(*right.text());
    return both.take();
  }
  if ((left.is_list() && right.is_list()) || (left.is_tuple() && right.is_tuple())) {
    const Sequence *a = left.sequence(), *b = right.sequence();
    in.step_items(a->items.size() + b->items.size());
    Sequence both{a->items, left.is_list() ? SequenceKind::list : SequenceKind::tuple};
    both.items.insert(both.items.end(), b->items.begin(), b->items.end());
    return both;
  }
  bad_operands("+", left, right);
}

bool contains(Budget& in, const Value& container, const Value& value) {
  if (container.is_undefined()) return false;
  if (const Text* text = container.text()) {
    if (!value.defined().text()) {
      fail("'in <string>' requires string as left operand, not {}", type_name(value));
    }
    in.step_bytes(text->bytes.size());
    return find_text(text->bytes, value.text()->bytes) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(value) != nullptr;
  if (const Sequence* s = container.sequence()) {
    size_t at = container.is_generator() ? s->taken : 0;
    bool found = false;
    while (at < s->items.size() && !found) found = equals(in, s->items[at++], value);
    if (container.is_generator()) s->taken = at;
    return found;
  }
  fail("argument of type '{}' is not iterable", type_name(container));
}

namespace {

bool is_indexed(const Value& value) {
  return value.is_list() || value.is_tuple() || value.is_range();
}

}  // namespace

Value get_attribute(const Value& object, std::string_view name) {
  object.defined();
  if (name.starts_with("__")) {
    return Value::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(object)));
  }
  if (const Method method = find_method(object, name)) {
    return std::static_pointer_cast<Object>(
        std::make_shared<BoundMethod>(object, method, name == "startswith" || name == "endswith"));
  }
  if (const Dict* dict = object.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  if (object.sequence() && object.sequence()->kind == SequenceKind::group) {
    if (name == "grouper") return object.sequence()->items[0];
    if (name == "list") return object.sequence()->items[1];
  }
  if (object.object()) {
    Value found = object.object()->attribute(name);
    if (!found.is_undefined() || found.has_reason()) return found;
  }
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", shown_type(object), name));
}

Value get_item(const Value& object, const Value& index) {
  object.defined();
  if (const Dict* dict = object.dict()) {
    if (const Value* found = dict->find(index)) return *found;
  } else if (index.is_integral()) {
    const Sequence* s = object.sequence();
    if (is_indexed(object)) {
      const int64_t at = position(index.as_integer(), s->items.size());
      if (at >= 0) return s->items[at];
    } else if (const Text* text = object.text()) {
      const auto starts = char_starts(text->bytes);
      const int64_t at = position(index.as_integer(), starts.size() - 1);
      if (at >= 0) return text->sub(starts[at], starts[at + 1]);
    }
  }
  if (index.text()) return get_attribute(object, index.text()->bytes);
  return Value::undefined(fmt::format("{} has no element {}", shown_type(object),
                                      index.is_integral() ? std::to_string(index.as_integer())
                                                          : fmt::format("of type {}", type_name(index))));
}

Value call(Interpreter& in, const Value& function, Args& args) {
  function.defined();
  if (!function.object() || !function.object()->callable()) {
    fail("'{}' object is not callable", type_name(function));
  }
  return function.object()->call(in, args);
}

Value call_filter(Interpreter& in, std::string_view name, const Value& input, Args& args) {
  const Filter filter = find_filter(name);
  if (!filter) fail("No filter named '{}'.", name);
  return filter(in, input, args);
}

bool call_test(Interpreter& in, std::string_view name, const Value& input, Args& args) {
  const Test test = find_test(name);
  if (!test) fail("No test named '{}'.", name);
  return test(in, input, args);
}

Value Name::eval(Interpreter& in) const {
  in.step();
  return in.look_up(name);
}

Value ListExpr::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  in.step_items(items.size());
  Values values;
  for (const ExprPtr& item : items) values.push_back(item->eval(in));
  return Sequence{std::move(values), tuple ? SequenceKind::tuple : SequenceKind::list};
}

Value DictExpr::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  in.step_items(items.size() * 4);
  Dict dict;
  for (const auto& [key, value] : items) {
    Value name = key->eval(in);
    dict.set(std::move(name), value->eval(in));
  }
  return dict;
}

Value Unary::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  const Value value = operand->eval(in);
  if (op == UnaryOp::logical_not) return !value.truthy();
  if (!value.defined().is_number())
    fail("bad operand type for unary {}: '{}'", op == UnaryOp::plus ? '+' : '-', type_name(value));
  if (op == UnaryOp::plus) return value.real() ? value : Value(value.as_integer());
  return value.real() ? Value(-*value.real()) : negate(value.as_integer());
}

Value Binary::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  const Value a = left->eval(in), b = right->eval(in);
  switch (op) {
    case BinaryOp::add:
      return add(in, a, b);
    case BinaryOp::multiply:
      return multiply(in, a, b);
    case BinaryOp::modulo:
      if (a.text()) {
        Args args;
        if (b.is_tuple()) {
          args.positional = b.sequence()->items;
        } else {
          args.positional.push_back(b);
        }
        return format_percent(in, a, args);
      }
      break;
    default:
      break;
  }
  static constexpr std::string_view names[] = {"+", "-", "*", "/", "//", "%", "**"};
  if (!a.is_number() || !b.is_number()) bad_operands(names[static_cast<int>(op)], a, b);
  if (op == BinaryOp::power) return power(a, b);
  if (op != BinaryOp::subtract) return divide(op, a, b);
  if (!a.is_integral() || !b.is_integral()) return a.as_real() - b.as_real();
  int64_t difference;
  const bool overflow = __builtin_sub_overflow(a.as_integer(), b.as_integer(), &difference);
  return checked(overflow, difference);
}

Value Logical::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  Value value = left->eval(in);
  return value.truthy() == is_and ? right->eval(in) : value;
}

Value Compare::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  Value left = first->eval(in);
  for (const auto& [op, expr] : rest) {
    Value right = expr->eval(in);
    if (!holds(in, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Concat::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  TextBuilder out;
  for (const ExprPtr& part : parts) {
    const Text text = to_text(in, part->eval(in));
    in.step_bytes(text.bytes.size());
    out.append(text);
  }
  return out.take();
}

Value Conditional::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  if (condition->eval(in).truthy()) return then->eval(in);
  if (otherwise) return otherwise->eval(in);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Attribute::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  return get_attribute(object->eval(in), name);
}

Value Subscript::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  const Value value = object->eval(in);
  if (value.text()) in.step_bytes(value.text()->bytes.size());
  return get_item(value, index->eval(in));
}

Value Slice::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  const Value value = object->eval(in);
  if (const Text* text = value.defined().text()) {
    in.step_bytes(text->bytes.size() * 2);
    const auto starts = char_starts(text->bytes);
    TextBuilder out;
    for (const size_t i : slice_positions(in, *this, starts.size() - 1))
      out.append(*text, starts[i], starts[i + 1]);
    return out.take();
  }
  if (!is_indexed(value)) {
    return Value::undefined(fmt::format("'{}' cannot be sliced", shown_type(value)));
  }
  const Sequence* s = value.sequence();
  Sequence out{{}, value.is_tuple() ? SequenceKind::tuple : s->kind};
  in.step_items(s->items.size());
  for (const size_t i : slice_positions(in, *this, s->items.size())) out.items.push_back(s->items[i]);
  return out;
}

Value Call::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  const Value callee = function->eval(in);
  Args arguments = in.evaluate(args);
  return call(in, callee, arguments);
}

Value FilterCall::apply(Interpreter& in, const Value& to) const {
  Args arguments = in.evaluate(args);
  if (to.text()) in.step_bytes(to.text()->bytes.size());
  return call_filter(in, name, to, arguments);
}

Value FilterCall::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  return apply(in, input->eval(in));
}

Value TestCall::eval(Interpreter& in) const {
  const Interpreter::Frame frame(in);
  const Value value = input->eval(in);
  Args arguments = in.evaluate(args);
  return call_test(in, name, value, arguments) != negated;
}

}  // namespace headrace::text::jinja
