#include "text/jinja/interpreter.h"

#include <algorithm>

namespace headrace::text::jinja {

// --- scopes ---

Scope::Scope(std::shared_ptr<Scope> parent)
    : parent_(std::move(parent)), depth_(parent_ ? parent_->depth_ + 1 : 0) {
  // Recursion within bounds makes shorter chains; macros that are kept and called again could make any.
  constexpr int kMaxDepth = 3000;
  if (depth_ > kMaxDepth) throw TemplateError{Code::resource_exhausted, "scopes are nested too deep"};
}

const Value* Scope::find(Budget& in, int name) const {
  size_t visited = 0;
  const Value* found = nullptr;
  for (const Scope* scope = this; scope != nullptr && !found; scope = scope->parent_.get()) {
    visited += 1 + scope->values_.size();
    for (const auto& [id, value] : scope->values_) {
      if (id == name) found = &value;
    }
  }
  in.step(visited / 16);
  return found;
}

void Scope::set(Budget& in, int name, Value value) {
  in.step(values_.size() / 16);
  for (auto& [id, old] : values_) {
    if (id == name) {
      old = std::move(value);
      return;
    }
  }
  values_.emplace_back(name, std::move(value));
}

// Several families build a control token around the role ("<|" + message.role + "|>"), so a role of the
// protocol is a word of the template's; any other stays text, or a caller could spell "<|endoftext|>" with
// it.
Value with_trusted_roles(const Value& messages) {
  static constexpr std::string_view roles[] = {"system", "developer", "user",     "assistant",  "tool",
                                               "model",  "ipython",   "function", "environment"};
  if (messages.sequence() == nullptr) return messages;
  Values out = messages.sequence()->items;
  for (Value& message : out) {
    const Value* role = message.dict() ? message.dict()->find(std::string_view("role")) : nullptr;
    const Text* text = role ? role->text() : nullptr;
    if (text == nullptr || std::find(std::begin(roles), std::end(roles), text->bytes) == std::end(roles))
      continue;
    Dict changed = *message.dict();
    changed.set(Value::data("role"), Text::from_author(text->bytes));
    message = std::move(changed);
  }
  return out;
}

// --- the interpreter ---

Interpreter::Interpreter(const Template& source, const Value& variables, const RenderLimits& limits)
    : Budget(limits.max_steps),
      template_(source),
      limits_(limits),
      root_(std::make_shared<Scope>(nullptr)),
      scope_(root_) {
  // Control tokens that the checkpoint names are the template's words, whoever passes them in.
  static constexpr std::string_view trusted[] = {"bos_token", "eos_token", "pad_token", "unk_token",
                                                 "sep_token", "cls_token", "mask_token"};
  const Dict* dict = variables.dict();
  for (size_t id = 0; id < source.names.size(); ++id) {
    const Value* value = dict ? dict->find(source.names[id]) : nullptr;
    if (value == nullptr) continue;
    const bool is_token =
        std::find(std::begin(trusted), std::end(trusted), source.names[id]) != std::end(trusted);
    root_->set(*this, static_cast<int>(id),
               is_token && value->text()        ? Text::from_author(value->text()->bytes)
               : source.names[id] == "messages" ? with_trusted_roles(*value)
                                                : *value);
  }
}

Interpreter::~Interpreter() {
  root_->clear();
  for (const auto& object : kept_) object->release();
}

Text Interpreter::render() {
  stack_ = static_cast<const char*>(__builtin_frame_address(0));
  exec(template_.body);
  return output_.take();
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
    const Text made = to_text(*this, value);
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

Value Interpreter::look_up(int id) {
  if (const Value* value = scope_->find(*this, id)) return *value;
  Value global = find_global(name(id));
  if (!global.is_undefined()) return global;
  return Value::undefined(fmt::format("'{}' is undefined", name(id)));
}

void Interpreter::assign(const Target& target, Value value) {
  if (target.parts.empty()) {
    if (target.attribute.empty()) {
      scope_->set(*this, target.name, std::move(value));
      return;
    }
    const Value holder = look_up(target.name);
    if (holder.object() == nullptr || !holder.object()->set_attribute(target.attribute, std::move(value))) {
      fail("cannot assign attribute on non-namespace object");
    }
    return;
  }
  Values values = iterate(*this, value);
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
    for (Value& value : iterate(*this, args.star->eval(*this).defined()))
      out.positional.push_back(std::move(value));
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
      mine->set(in, parameters[i].name, args.positional[i]);
      given[i] = true;
    } else {
      extra.push_back(args.positional[i]);
    }
  }
  Dict extra_named;
  mine->set(in, in.source().name_caller, Value::undefined("no caller defined"));
  for (auto& [name, value] : args.named) {
    size_t i = 0;
    in.step(parameters.size() / 8);
    while (i < parameters.size() && parameters[i].text != name) ++i;
    if (i < parameters.size()) {
      if (given[i]) fail("macro '{}' got multiple values for argument '{}'", definition.title, name);
      mine->set(in, parameters[i].name, value);
      given[i] = true;
    } else if (name == "caller" && definition.uses_caller) {
      mine->set(in, in.source().name_caller, value);
    } else {
      extra_named.set(Value::data(name), value);
    }
  }
  if (!extra.empty() && !definition.uses_varargs) {
    fail("macro '{}' takes not more than {} argument(s)", definition.title, parameters.size());
  }
  if (extra_named.size() > 0 && !definition.uses_kwargs) {
    if (extra_named.find(std::string_view("caller")))
      fail("macro '{}' has no use for a caller", definition.title);
    fail("macro '{}' takes no keyword argument '{}'", definition.title,
         extra_named.items()[0].first.text()->bytes);
  }
  mine->set(in, in.source().name_varargs, Value::tuple(std::move(extra)));
  mine->set(in, in.source().name_kwargs, std::move(extra_named));
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i]) continue;
    const auto& parameter = parameters[i];
    mine->set(in, parameter.name,
              parameter.default_value
                  ? parameter.default_value->eval(in)
                  : Value::undefined(fmt::format("parameter '{}' was not provided", parameter.text)));
  }
  return in.capture(definition.body);
}

// A run of {% for %}, and `loop` inside it. Conditions are evaluated as the run goes on, as late as Jinja
// does: what the body puts into a namespace may decide on later items. It may outlive its loop, in a
// namespace.
struct Loop final : Object, std::enable_shared_from_this<Loop> {
  Loop(Interpreter& interpreter, const For& f, Value all, int level)
      : Object(all.nesting() + 1),
        in(interpreter),
        statement(f),
        outer(interpreter.scope()),
        sequence(std::move(all)),
        depth(level) {}
  std::string type_name() const override { return "LoopContext"; }
  bool callable() const override { return true; }
  Value call(Interpreter&, Args& args) override {
    if (!statement.recursive) fail("the loop must have the 'recursive' marker to be called recursively");
    const Bound bound("loop", args, {"iterable"}, 1);
    const Interpreter::Frame frame(in);
    return in.capture_loop(statement, bound[0], depth + 1);
  }
  Value attribute(std::string_view name) override;
  void release() override { last_changed.clear(); }

  const Values& items() const { return sequence.sequence()->items; }
  // Whether there is an i-th item that the condition takes; 0 is the first.
  bool reach(size_t i) {
    while (taken.size() <= i && seen < items().size()) {
      const size_t candidate = seen++;
      if (accepts(items()[candidate])) taken.push_back(static_cast<uint32_t>(candidate));
    }
    return i < taken.size();
  }
  const Value& item(size_t i) const { return items()[taken[i]]; }
  size_t length() {
    reach(SIZE_MAX);
    return taken.size();
  }

  Interpreter& in;
  const For& statement;
  std::shared_ptr<Scope> outer;
  Value sequence;
  std::vector<uint32_t> taken;  // the places of the items so far
  size_t seen = 0;
  int depth;
  size_t index = 0;
  Values last_changed;
  bool changed_before = false;

 private:
  bool accepts(const Value& item) {
    if (!statement.condition) return true;
    const EnterScope enter(in, std::make_shared<Scope>(outer));
    in.assign(statement.target, item);
    return statement.condition->eval(in).truthy();
  }
};

// `loop.cycle(...)` and `loop.changed(...)`.
struct LoopMethod final : Object {
  LoopMethod(std::shared_ptr<Loop> l, bool c) : Object(l->nesting + 1), loop(std::move(l)), cycles(c) {}
  std::string type_name() const override { return "method"; }
  bool callable() const override { return true; }
  Value call(Interpreter& in, Args& args) override {
    if (cycles) {
      if (args.positional.empty()) fail("no items for cycling given");
      return args.positional[loop->index % args.positional.size()];
    }
    const bool same =
        loop->changed_before && equals(in, Value::tuple(loop->last_changed), Value::tuple(args.positional));
    // loop.changed(loop) makes the loop own itself.
    if (!std::exchange(loop->changed_before, true)) in.keep(loop);
    loop->last_changed = args.positional;
    return !same;
  }
  std::shared_ptr<Loop> loop;
  bool cycles;
};

Value Loop::attribute(std::string_view name) {
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "first") return index == 0;
  if (name == "last") return !reach(index + 1);
  if (name == "length") return length();
  if (name == "revindex") return length() - index;
  if (name == "revindex0") return length() - index - 1;
  if (name == "depth") return depth + 1;
  if (name == "depth0") return depth;
  if (name == "cycle" || name == "changed") {
    return std::static_pointer_cast<Object>(
        std::make_shared<LoopMethod>(shared_from_this(), name == "cycle"));
  }
  if (name == "previtem") return index > 0 ? item(index - 1) : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return reach(index + 1) ? item(index + 1) : Value::undefined("there is no next item");
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
  const auto loop = std::make_shared<Loop>(in, *this, Value(iterate(in, iterable_value)), depth);
  bool completed = false;  // a run of the body came to its end: what Jinja's else looks at
  for (; loop->reach(loop->index); ++loop->index) {
    const EnterScope enter(in, std::make_shared<Scope>(in.scope()));
    in.scope()->set(in, in.source().name_loop, std::static_pointer_cast<Object>(loop));
    in.assign(target, loop->item(loop->index));
    const Flow flow = in.exec(body);
    if (flow == Flow::break_loop) break;
    completed |= flow == Flow::normal;
  }
  if (completed || otherwise.empty()) return;
  const EnterScope enter(in, std::make_shared<Scope>(in.scope()));
  in.exec(otherwise);
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
  in.scope()->set(in, name, std::static_pointer_cast<Object>(std::make_shared<Macro>(*this, in.scope())));
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
