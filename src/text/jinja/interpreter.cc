#include "text/jinja/interpreter.h"

#include <algorithm>

namespace headrace::text::jinja {

// --- scopes ---

const Value* Scope::find(int name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
    for (const auto& [id, value] : scope->values_) {
      if (id == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(int name, Value value) {
  for (auto& [id, old] : values_) {
    if (id == name) {
      old = std::move(value);
      return;
    }
  }
  values_.emplace_back(name, std::move(value));
}

// Several families build a control token around the role ("<|" + message.role + "|>"), so a role of the protocol is a word of the
// template's; any other stays text, or a caller could spell "<|endoftext|>" with it.
Value with_trusted_roles(const Value& messages) {
  static constexpr std::string_view roles[] = {"system", "developer", "user",     "assistant", "tool",
                                               "model",  "ipython",   "function", "environment"};
  if (messages.sequence() == nullptr) return messages;
  Values out = messages.sequence()->items;
  for (Value& message : out) {
    const Value* role = message.dict() ? message.dict()->find(std::string_view("role")) : nullptr;
    const Text* text = role ? role->text() : nullptr;
    if (text == nullptr || std::find(std::begin(roles), std::end(roles), text->bytes) == std::end(roles)) continue;
    Dict changed = *message.dict();
    changed.set(Value::data("role"), Text::from_author(text->bytes));
    message = std::move(changed);
  }
  return out;
}

// --- the interpreter ---

Interpreter::Interpreter(const Template& source, const Value& variables, const RenderLimits& limits)
    : template_(source), limits_(limits), root_(std::make_shared<Scope>(nullptr)), scope_(root_) {
  // Control tokens that the checkpoint names are the template's words, whoever passes them in.
  static constexpr std::string_view trusted[] = {"bos_token", "eos_token", "pad_token", "unk_token",
                                                 "sep_token", "cls_token", "mask_token"};
  const Dict* dict = variables.dict();
  for (size_t id = 0; id < source.names.size(); ++id) {
    const Value* value = dict ? dict->find(source.names[id]) : nullptr;
    if (value == nullptr) continue;
    const bool is_token =
        std::find(std::begin(trusted), std::end(trusted), source.names[id]) != std::end(trusted);
    root_->set(static_cast<int>(id), is_token && value->text()        ? Text::from_author(value->text()->bytes)
                                     : source.names[id] == "messages" ? with_trusted_roles(*value)
                                                                      : *value);
  }
}

Interpreter::~Interpreter() {
  root_->clear();
  for (const auto& object : kept_) object->release();
}

Text Interpreter::render() {
  exec(template_.body);
  return output_.take();
}

void Interpreter::too_many_steps() const {
  throw TemplateError{Code::resource_exhausted,
                      fmt::format("rendering took more than {} steps", limits_.max_steps)};
}

void Interpreter::too_deep() const {
  throw TemplateError{Code::resource_exhausted, "calls and expressions are nested too deep"};
}

void Interpreter::check_output() const {
  if (outer_output_ + output_.size() <= limits_.max_output_bytes) return;
  throw TemplateError{Code::resource_exhausted,
                      fmt::format("more than {} bytes of text", limits_.max_output_bytes)};
}

Flow Interpreter::exec(const Body& body) {
  for (const auto& statement : body) {
    try {
      const Frame frame(*this);
      const Flow flow = statement->exec(*this);
      if (flow != Flow::normal) return flow;
    } catch (TemplateError& e) {
      if (e.line == 0) e.line = statement->line;
      throw;
    }
  }
  return Flow::normal;
}

template <class Write>
Text Interpreter::capture_with(Write write) {
  outer_output_ += output_.size();
  TextBuilder outer = std::exchange(output_, {});
  write();
  std::swap(outer, output_);
  outer_output_ -= output_.size();
  step_bytes(outer.size());
  return outer.take();
}

Text Interpreter::capture(const Body& body) {
  return capture_with([&] { exec(body); });
}

Text Interpreter::capture_loop(const For& loop, const Value& iterable, int depth) {
  return capture_with([&] { loop.run(*this, iterable, depth); });
}

void Interpreter::write(const Value& value) {
  const Text* text = value.text();
  if (text) {
    output_.append(*text);
    step_bytes(text->bytes.size());
  } else {
    const Text made = to_text(value);
    output_.append(made);
    step_bytes(made.bytes.size());
  }
  check_output();
}

void Interpreter::write_trusted(std::string_view bytes) {
  output_.append_trusted(bytes);
  step_bytes(bytes.size());
  check_output();
}

Value Interpreter::look_up(int id) const {
  if (const Value* value = scope_->find(id)) return *value;
  Value global = find_global(name(id));
  if (!global.is_undefined()) return global;
  return Value::undefined(fmt::format("'{}' is undefined", name(id)));
}

void Interpreter::assign(const Target& target, Value value) {
  if (target.parts.empty()) {
    if (target.attribute.empty()) {
      scope_->set(target.name, std::move(value));
      return;
    }
    const Value holder = look_up(target.name);
    if (holder.object() == nullptr || !holder.object()->set_attribute(target.attribute, std::move(value))) {
      fail("cannot assign attribute on non-namespace object");
    }
    return;
  }
  Values values = iterate(value);
  if (values.size() != target.parts.size()) {
    fail("cannot unpack {} values into {} names", values.size(), target.parts.size());
  }
  for (size_t i = 0; i < values.size(); ++i) assign(target.parts[i], std::move(values[i]));
}

Args Interpreter::evaluate(const CallArgs& args) {
  Args out;
  for (const ExprPtr& arg : args.positional) out.positional.push_back(arg->eval(*this));
  for (const auto& [name, arg] : args.named) out.named.emplace_back(name, arg->eval(*this));
  if (args.star) {
    for (Value& value : iterate(args.star->eval(*this).defined())) out.positional.push_back(std::move(value));
  }
  if (args.star_star) {
    const Value named = args.star_star->eval(*this);
    if (!named.defined().dict()) fail("argument after ** must be a mapping, not {}", type_name(named));
    for (const auto& [key, value] : named.dict()->items()) {
      if (!key.text()) fail("keywords must be strings");
      out.named.emplace_back(key.text()->bytes, value);
    }
  }
  return out;
}

// --- macros and loops ---

namespace {

struct Macro final : Object {
  Macro(const MacroDef& d, std::shared_ptr<Scope> s) : definition(d), scope(std::move(s)) {}
  std::string type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value call(Interpreter& in, Args& args) override;
  Value attribute(std::string_view name) override {
    return name == "name" ? Value::data(definition.title) : Value();
  }

  const MacroDef& definition;
  std::shared_ptr<Scope> scope;
};

Value Macro::call(Interpreter& in, Args& args) {
  const Interpreter::Frame frame(in);
  const EnterScope enter(in, std::make_shared<Scope>(scope));
  const std::shared_ptr<Scope> mine = in.scope();
  const auto& parameters = definition.parameters;
  std::vector<bool> given(parameters.size());
  Values extra;
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (i < parameters.size()) {
      mine->set(parameters[i].name, args.positional[i]);
      given[i] = true;
    } else {
      extra.push_back(args.positional[i]);
    }
  }
  Dict extra_named;
  mine->set(in.source().name_caller, Value::undefined("no caller defined"));
  for (auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < parameters.size() && parameters[i].text != name) ++i;
    if (i < parameters.size()) {
      if (given[i]) fail("macro '{}' got multiple values for argument '{}'", definition.title, name);
      mine->set(parameters[i].name, value);
      given[i] = true;
    } else if (name == "caller") {
      mine->set(in.source().name_caller, value);
    } else {
      extra_named.set(Value::data(name), value);
    }
  }
  if (!extra.empty() && !definition.uses_varargs) {
    fail("macro '{}' takes not more than {} argument(s)", definition.title, parameters.size());
  }
  if (extra_named.size() > 0 && !definition.uses_kwargs) {
    fail("macro '{}' takes no keyword argument '{}'", definition.title,
         extra_named.items()[0].first.text()->bytes);
  }
  mine->set(in.source().name_varargs, Value::tuple(std::move(extra)));
  mine->set(in.source().name_kwargs, std::move(extra_named));
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i]) continue;
    const auto& parameter = parameters[i];
    mine->set(parameter.name,
              parameter.default_value
                  ? parameter.default_value->eval(in)
                  : Value::undefined(fmt::format("parameter '{}' was not provided", parameter.text)));
  }
  return in.capture(definition.body);
}

// `loop` inside {% for %}. It may outlive its loop, in a namespace.
struct Loop final : Object, std::enable_shared_from_this<Loop> {
  std::string type_name() const override { return "LoopContext"; }
  bool callable() const override { return true; }
  Value call(Interpreter& in, Args& args) override {
    if (!statement.recursive) fail("the loop must have the 'recursive' marker to be called recursively");
    const Bound bound("loop", args, {"iterable"}, 1);
    const Interpreter::Frame frame(in);
    return in.capture_loop(statement, bound[0], depth + 1);
  }
  Value attribute(std::string_view name) override;

  Loop(const For& f, Value all, int level) : statement(f), sequence(std::move(all)), depth(level) {}
  const Values& items() const { return sequence.sequence()->items; }

  const For& statement;
  Value sequence;
  int depth;
  size_t index = 0;
  Values last_changed;
  bool changed_before = false;
};

// `loop.cycle(...)` and `loop.changed(...)`.
struct LoopMethod final : Object {
  LoopMethod(std::shared_ptr<Loop> l, bool c) : loop(std::move(l)), cycles(c) {}
  std::string type_name() const override { return "method"; }
  bool callable() const override { return true; }
  Value call(Interpreter&, Args& args) override {
    if (cycles) {
      if (args.positional.empty()) fail("no items for cycling given");
      return args.positional[loop->index % args.positional.size()];
    }
    const bool same =
        loop->changed_before && equals(Value::tuple(loop->last_changed), Value::tuple(args.positional));
    loop->changed_before = true;
    loop->last_changed = args.positional;
    return !same;
  }
  std::shared_ptr<Loop> loop;
  bool cycles;
};

Value Loop::attribute(std::string_view name) {
  const size_t length = items().size();
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == length;
  if (name == "length") return length;
  if (name == "revindex") return length - index;
  if (name == "revindex0") return length - index - 1;
  if (name == "depth") return depth + 1;
  if (name == "depth0") return depth;
  if (name == "cycle" || name == "changed") {
    return std::static_pointer_cast<Object>(
        std::make_shared<LoopMethod>(shared_from_this(), name == "cycle"));
  }
  if (name == "previtem")
    return index > 0 ? items()[index - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return index + 1 < length ? items()[index + 1] : Value::undefined("there is no next item");
  return {};
}

}  // namespace

// --- statements ---

Flow Data::exec(Interpreter& in) const {
  in.write_trusted(text);
  return Flow::normal;
}

Flow Output::exec(Interpreter& in) const {
  in.write(value->eval(in));
  return Flow::normal;
}

Flow If::exec(Interpreter& in) const {
  for (const auto& [condition, body] : branches) {
    if (condition->eval(in).truthy()) return in.exec(body);
  }
  return in.exec(otherwise);
}

Flow For::exec(Interpreter& in) const {
  run(in, iterable->eval(in), 0);
  return Flow::normal;
}

void For::run(Interpreter& in, const Value& iterable_value, int depth) const {
  Values items = iterate(iterable_value);
  in.step(items.size());
  if (condition) {
    Values kept;
    for (Value& item : items) {
      const EnterScope enter(in, std::make_shared<Scope>(in.scope()));
      in.assign(target, item);
      if (condition->eval(in).truthy()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    const EnterScope enter(in, std::make_shared<Scope>(in.scope()));
    in.exec(otherwise);
    return;
  }
  const auto loop = std::make_shared<Loop>(*this, Value(std::move(items)), depth);
  // loop.changed(loop) would make the loop own itself.
  const struct Forget {
    ~Forget() { loop.last_changed.clear(); }
    Loop& loop;
  } forget{*loop};
  for (; loop->index < loop->items().size(); ++loop->index) {
    const EnterScope enter(in, std::make_shared<Scope>(in.scope()));
    in.scope()->set(in.source().name_loop, std::static_pointer_cast<Object>(loop));
    in.assign(target, loop->items()[loop->index]);
    if (in.exec(body) == Flow::break_loop) break;
  }
}

Flow Set::exec(Interpreter& in) const {
  if (value) {
    in.assign(target, value->eval(in));
    return Flow::normal;
  }
  Value text;
  {
    const EnterScope enter(in, std::make_shared<Scope>(in.scope()));
    text = in.capture(body);
  }
  for (const auto& filter : filters) text = filter->apply(in, text);
  in.assign(target, std::move(text));
  return Flow::normal;
}

Flow MacroDef::exec(Interpreter& in) const {
  in.scope()->set(name, std::static_pointer_cast<Object>(std::make_shared<Macro>(*this, in.scope())));
  return Flow::normal;
}

Flow CallBlock::exec(Interpreter& in) const {
  const Value function = call->function->eval(in);
  Args args = in.evaluate(call->args);
  args.named.emplace_back("caller",
                          std::static_pointer_cast<Object>(std::make_shared<Macro>(caller, in.scope())));
  in.write(jinja::call(in, function, args));
  return Flow::normal;
}

Flow FilterBlock::exec(Interpreter& in) const {
  Value text;
  {
    const EnterScope enter(in, std::make_shared<Scope>(in.scope()));
    text = in.capture(body);
  }
  for (const auto& filter : filters) text = filter->apply(in, text);
  in.write(text);
  return Flow::normal;
}

Flow Block::exec(Interpreter& in) const {
  Values values;
  for (const auto& [target, value] : assignments) values.push_back(value->eval(in));
  const EnterScope enter(in, std::make_shared<Scope>(in.scope()));
  for (size_t i = 0; i < values.size(); ++i) in.assign(assignments[i].first, std::move(values[i]));
  return in.exec(body);
}

}  // namespace headrace::text::jinja
