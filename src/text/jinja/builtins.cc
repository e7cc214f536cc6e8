// Global functions and tests, and how arguments are bound to parameters.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <unordered_map>

#include "text/jinja/case_mapping.h"
#include "text/jinja/interpreter.h"
#include "text/utf8.h"

namespace headrace::text::jinja {

// --- arguments ---

Bound::Bound(std::string_view function, Args& args, std::initializer_list<std::string_view> names,
             size_t required)
    : function_(function), given_(names.size()) {
  if (args.positional.size() > names.size()) {
    fail("{}() takes at most {} argument(s), got {}", function, names.size(), args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) given_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const size_t i = std::find(names.begin(), names.end(), name) - names.begin();
    if (i == names.size()) fail("{}() got an unexpected keyword argument '{}'", function, name);
    if (given_[i]) fail("{}() got multiple values for argument '{}'", function, name);
    given_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!given_[i]) fail("{}() is missing the argument '{}'", function, names.begin()[i]);
  }
}

int64_t Bound::integer(size_t i, int64_t otherwise) const {
  if (!has(i) || given_[i]->is_none()) return otherwise;
  if (!given_[i]->defined().is_integral())
    fail("{}(): want an integer, got {}", function_, type_name(*given_[i]));
  return given_[i]->as_integer();
}

const Text& Bound::text(size_t i) const {
  if (!given_[i]->defined().text()) fail("{}(): want a string, got {}", function_, type_name(*given_[i]));
  return *given_[i]->text();
}

namespace {

// --- global functions ---

struct NamespaceObject final : Object {
  std::string type_name() const override { return "Namespace"; }
  Value attribute(std::string_view name) override {
    const Value* found = attributes.find(name);
    return found ? *found : Value();
  }
  bool set_attribute(std::string_view name, Value value) override {
    if (name.starts_with('_'))
      fail("a namespace cannot store '{}': the name begins with an underscore", name);
    attributes.set(Value::data(std::string(name)), std::move(value));
    return true;
  }
  void release() override { attributes = {}; }
  Dict attributes;
};

void fill_dict(Interpreter& in, std::string_view function, Args& args, Dict& out) {
  if (args.positional.size() > 1)
    fail("{} expected at most 1 argument, got {}", function, args.positional.size());
  for (const Value& source : args.positional) {
    if (const Dict* dict = source.defined().dict()) {
      in.step_items(dict->size() * 4);
      for (const auto& [key, value] : dict->items()) out.set(key, value);
      continue;
    }
    for (const Value& pair : iterate(in, source)) {
      Values parts = iterate(in, pair);
      if (parts.size() != 2) fail("{}: want pairs, got {} values", function, parts.size());
      in.step_items(4);
      out.set(std::move(parts[0]), std::move(parts[1]));
    }
  }
  for (const auto& [name, value] : args.named) out.set(Value::data(name), value);
}

Value make_namespace(Interpreter& in, Args& args) {
  in.step(50);
  Dict attributes;
  fill_dict(in, "namespace", args, attributes);
  const auto made = std::make_shared<NamespaceObject>();
  for (const auto& [key, value] : attributes.items()) {
    if (!key.text()) fail("namespace: attribute names must be strings");
    made->set_attribute(key.text()->bytes, value);
  }
  in.keep(made);
  return std::static_pointer_cast<Object>(made);
}

Value make_dict(Interpreter& in, Args& args) {
  Dict dict;
  fill_dict(in, "dict", args, dict);
  return dict;
}

Value range(Interpreter& in, Args& args) {
  const Bound bound("range", args, {"start", "stop", "step"}, 1);
  const bool one = !bound.has(1);
  const int64_t start = one ? 0 : bound.integer(0, 0), stop = bound.integer(one ? 0 : 1, 0),
                step = bound.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  constexpr int64_t kMost = 100'000;  // the sandbox's limit
  Sequence out{{}, SequenceKind::range};
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (out.items.size() == kMost) fail("range too big: the sandbox blocks ranges larger than {}", kMost);
    out.items.push_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  in.step_items(out.items.size());
  return out;
}

Value raise_exception(Interpreter& in, Args& args) {
  const Bound bound("raise_exception", args, {"message"}, 1);
  throw TemplateError{Code::invalid_argument, to_text(in, bound[0]).bytes};
}

Value strftime_now(Interpreter&, Args& args) {
  const Bound bound("strftime_now", args, {"format"}, 1);
  const std::string& format = bound.text(0).bytes;
  if (format.empty()) return Value::data("");
  if (format.size() > 1000) fail("strftime_now: the format is longer than 1000 bytes");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  // A conversion may write nothing (%p in some locales): a mark tells that from a buffer that is too small.
  std::string out(format.size() * 64 + 64, '\0');
  out.resize(std::strftime(out.data(), out.size(), (format + "|").c_str(), &local));
  if (!out.empty()) out.pop_back();
  return Value::data(to_valid_utf8(out));
}

// cycler and joiner keep a position; they hold no values that could hold them.
struct Cycler final : Object {
  std::string type_name() const override { return "Cycler"; }
  Value attribute(std::string_view name) override;
  void release() override { items.clear(); }
  Values items;
  size_t at = 0;
};

struct CyclerMethod final : Object {
  CyclerMethod(Cycler& c, bool n) : cycler(c), next(n) {}
  std::string type_name() const override { return "method"; }
  bool callable() const override { return true; }
  Value call(Interpreter&, Args&) override {
    if (!next) {
      cycler.at = 0;
      return None{};
    }
    const Value value = cycler.items[cycler.at];
    cycler.at = (cycler.at + 1) % cycler.items.size();
    return value;
  }
  Cycler& cycler;  // kept by the interpreter
  bool next;
};

Value Cycler::attribute(std::string_view name) {
  if (name == "current") return items[at];
  if (name != "next" && name != "reset") return {};
  return std::static_pointer_cast<Object>(std::make_shared<CyclerMethod>(*this, name == "next"));
}

Value make_cycler(Interpreter& in, Args& args) {
  in.step(50);
  if (args.positional.empty()) fail("at least one item has to be provided");
  const auto made = std::make_shared<Cycler>();
  made->items = args.positional;
  in.keep(made);
  return std::static_pointer_cast<Object>(made);
}

struct Joiner final : Object {
  explicit Joiner(Value s) : Object(s.nesting() + 1), separator(std::move(s)) {}
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Interpreter&, Args&) override { return std::exchange(used, true) ? separator : Value::data(""); }
  Value separator;
  bool used = false;
};

Value make_joiner(Interpreter&, Args& args) {
  const Bound bound("joiner", args, {"sep"});
  return std::static_pointer_cast<Object>(std::make_shared<Joiner>(bound.get(0, Text::from_author(", "))));
}

struct FunctionObject final : Object {
  explicit FunctionObject(Function f) : function(f) {}
  std::string type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Interpreter& in, Args& args) override { return function(in, args); }
  Function function;
};

// --- tests ---

bool is_text_in_case(Interpreter& in, const Value& value, Case wanted) {
  const Text text = to_text(in, value);
  in.step_bytes(text.bytes.size());
  bool any = false;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    if (has_case(c.code, wanted == Case::upper ? Case::lower : Case::upper) || has_case(c.code, Case::title))
      return false;
    any |= has_case(c.code, wanted);
    at += c.length;
  }
  return any;
}

bool is_iterable(const Value& v) {
  return v.is_undefined() || v.text() || v.sequence() || v.dict();
}

bool is_sequence(const Value& v) {
  return v.text() || v.dict() || v.is_list() || v.is_tuple() || v.is_range();
}

int64_t integer_of(const Value& value) {
  if (!value.defined().is_integral()) fail("want an integer, got {}", type_name(value));
  return value.as_integer();
}

template <class Holds>
bool ordered(Interpreter& in, std::string_view name, const Value& input, Args& args, Holds holds) {
  return holds(compare(in, input, Bound(name, args, {"other"}, 1)[0]));
}

const std::unordered_map<std::string_view, Test>& tests() {
  static const std::unordered_map<std::string_view, Test> table = [] {
    std::unordered_map<std::string_view, Test> t;
    t["defined"] = [](Interpreter&, const Value& v, Args&) { return !v.is_undefined(); };
    t["undefined"] = [](Interpreter&, const Value& v, Args&) { return v.is_undefined(); };
    t["none"] = [](Interpreter&, const Value& v, Args&) { return v.is_none(); };
    t["boolean"] = [](Interpreter&, const Value& v, Args&) { return v.boolean() != nullptr; };
    t["true"] = [](Interpreter&, const Value& v, Args&) { return v.boolean() && *v.boolean(); };
    t["false"] = [](Interpreter&, const Value& v, Args&) { return v.boolean() && !*v.boolean(); };
    t["integer"] = [](Interpreter&, const Value& v, Args&) { return v.integer() != nullptr; };
    t["float"] = [](Interpreter&, const Value& v, Args&) { return v.real() != nullptr; };
    t["number"] = [](Interpreter&, const Value& v, Args&) { return v.is_number(); };
    t["string"] = [](Interpreter&, const Value& v, Args&) { return v.text() != nullptr; };
    t["mapping"] = [](Interpreter&, const Value& v, Args&) { return v.dict() != nullptr; };
    t["iterable"] = [](Interpreter&, const Value& v, Args&) { return is_iterable(v); };
    t["sequence"] = [](Interpreter&, const Value& v, Args&) { return is_sequence(v); };
    t["callable"] = [](Interpreter&, const Value& v, Args&) { return v.object() && v.object()->callable(); };
    t["escaped"] = [](Interpreter&, const Value&, Args&) { return false; };
    t["lower"] = [](Interpreter& in, const Value& v, Args&) { return is_text_in_case(in, v, Case::lower); };
    t["upper"] = [](Interpreter& in, const Value& v, Args&) { return is_text_in_case(in, v, Case::upper); };
    t["odd"] = [](Interpreter&, const Value& v, Args&) { return integer_of(v) % 2 != 0; };
    t["even"] = [](Interpreter&, const Value& v, Args&) { return integer_of(v) % 2 == 0; };
    t["divisibleby"] = [](Interpreter&, const Value& v, Args& a) {
      const int64_t divisor = integer_of(Bound("divisibleby", a, {"num"}, 1)[0]);
      if (divisor == 0) fail("integer modulo by zero");
      return divisor == -1 || integer_of(v) % divisor == 0;
    };
    t["sameas"] = [](Interpreter&, const Value& v, Args& a) {
      return v.is(Bound("sameas", a, {"other"}, 1)[0]);
    };
    t["filter"] = [](Interpreter&, const Value& v, Args&) {
      return v.text() && find_filter(v.text()->bytes);
    };
    t["test"] = [](Interpreter&, const Value& v, Args&) { return v.text() && find_test(v.text()->bytes); };
    t["in"] = [](Interpreter& in, const Value& v, Args& a) {
      return contains(in, Bound("in", a, {"seq"}, 1)[0], v);
    };
    t["eq"] = [](Interpreter& in, const Value& v, Args& a) {
      return equals(in, v, Bound("eq", a, {"other"}, 1)[0]);
    };
    t["ne"] = [](Interpreter& in, const Value& v, Args& a) {
      return !equals(in, v, Bound("ne", a, {"other"}, 1)[0]);
    };
    t["lt"] = [](Interpreter& in, const Value& v, Args& a) {
      return ordered(in, "lt", v, a, [](int c) { return c < 0; });
    };
    t["le"] = [](Interpreter& in, const Value& v, Args& a) {
      return ordered(in, "le", v, a, [](int c) { return c <= 0; });
    };
    t["gt"] = [](Interpreter& in, const Value& v, Args& a) {
      return ordered(in, "gt", v, a, [](int c) { return c > 0; });
    };
    t["ge"] = [](Interpreter& in, const Value& v, Args& a) {
      return ordered(in, "ge", v, a, [](int c) { return c >= 0; });
    };
    t["equalto"] = t["=="] = t["eq"];
    t["!="] = t["ne"];
    t["lessthan"] = t["<"] = t["lt"];
    t["greaterthan"] = t[">"] = t["gt"];
    t["<="] = t["le"];
    t[">="] = t["ge"];
    return t;
  }();
  return table;
}

}  // namespace

Test find_test(std::string_view name) {
  const auto found = tests().find(name);
  return found == tests().end() ? nullptr : found->second;
}

Value find_global(std::string_view name) {
  static const std::unordered_map<std::string_view, Function> table = {
      {"namespace", make_namespace},
      {"dict", make_dict},
      {"range", range},
      {"raise_exception", raise_exception},
      {"joiner", make_joiner},
      {"strftime_now", strftime_now},
      {"cycler", make_cycler},
  };
  const auto found = table.find(name);
  if (found == table.end()) return {};
  return std::static_pointer_cast<Object>(std::make_shared<FunctionObject>(found->second));
}

}  // namespace headrace::text::jinja
