#pragma once
// Runs one rendering of a template: scopes, output, and the limits on steps, bytes and depth.

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace headrace::text::jinja {

// Names that one block of the template gives values to. Scopes are few names long; a search beats a map.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent);
  // Here or in a parent.
  const Value* find(Budget& in, int name) const;
  void set(Budget& in, int name, Value value);
  void clear() { values_.clear(); }

 private:
  std::vector<std::pair<int, Value>> values_;
  std::shared_ptr<Scope> parent_;
  int depth_;
};

class Interpreter : public Budget {
 public:
  Interpreter(const Template& source, const Value& variables, const RenderLimits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Text render();

  // One level deeper in the template's tree while it lives; errors that pass learn their line.
  class Frame {
   public:
    explicit Frame(Interpreter& in) : in_(in) {
      in.step();
      const auto* here = static_cast<const char*>(__builtin_frame_address(0));
      if (++in.depth_ > kMaxDepth || in.stack_ - here > kMaxStackBytes) in.too_deep();
    }
    ~Frame() { --in_.depth_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Interpreter& in_;
  };

  Flow exec(const Body& body);
  // The text that `body`, or a recursive call of a loop, writes.
  Text capture(const Body& body);
  Text capture_loop(const For& loop, const Value& iterable, int depth);
  void write(const Value& value);
  void write_trusted(std::string_view bytes);

  const std::string& name(int id) const { return template_.names[id]; }
  const Template& source() const { return template_; }
  Value look_up(int name);
  void assign(const Target& target, Value value);
  Args evaluate(const CallArgs& args);

  const std::shared_ptr<Scope>& scope() const { return scope_; }
  std::shared_ptr<Scope> exchange_scope(std::shared_ptr<Scope> scope) {
    return std::exchange(scope_, std::move(scope));
  }

  // Namespaces can hold themselves; they are emptied when the rendering ends.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

 private:
  static constexpr int kMaxDepth = 2500;
  // A thread has 2 MiB where the system sets no limit of its own.
  static constexpr ptrdiff_t kMaxStackBytes = 3 << 19;
  [[noreturn]] void too_deep() const;
  template <class Write>
  Text capture_with(Write write);
  void check_output() const;

  const Template& template_;
  const RenderLimits& limits_;
  const char* stack_ = nullptr;  // where render() began
  int depth_ = 0;
  TextBuilder output_;
  size_t outer_output_ = 0;  // bytes in the builders that captures set aside
  std::shared_ptr<Scope> root_, scope_;
  std::vector<std::shared_ptr<Object>> kept_;
};

// Makes a scope the current one, and the one before it current again.
class EnterScope {
 public:
  EnterScope(Interpreter& in, std::shared_ptr<Scope> scope)
      : in_(in), mine_(scope), outer_(in.exchange_scope(std::move(scope))) {}
  // Macros that were kept from this scope find it empty: a scope must not own itself through them.
  ~EnterScope() {
    in_.exchange_scope(std::move(outer_));
    mine_->clear();
  }
  EnterScope(const EnterScope&) = delete;
  EnterScope& operator=(const EnterScope&) = delete;

 private:
  Interpreter& in_;
  std::shared_ptr<Scope> mine_, outer_;
};

// `object.name` and `object[index]`, as the environment's getattr and getitem find them.
Value get_attribute(const Value& object, std::string_view name);
Value get_item(const Value& object, const Value& index);

// Raises for what cannot be called.
Value call(Interpreter& in, const Value& function, Args& args);

// Calls with named parameters: binds positional and named arguments to `names`, in order. Raises for
// arguments that have no parameter.
class Bound {
 public:
  Bound(std::string_view function, Args& args, std::initializer_list<std::string_view> names,
        size_t required = 0);
  bool has(size_t i) const { return given_[i] != nullptr; }
  const Value& operator[](size_t i) const { return *given_[i]; }
  Value get(size_t i, Value otherwise) const { return has(i) ? *given_[i] : otherwise; }
  bool flag(size_t i, bool otherwise) const { return has(i) ? given_[i]->truthy() : otherwise; }
  int64_t integer(size_t i, int64_t otherwise) const;
  // The i-th argument must be a string.
  const Text& text(size_t i) const;

 private:
  std::string_view function_;
  std::vector<const Value*> given_;
};

using Filter = Value (*)(Interpreter& in, const Value& input, Args& args);
using Test = bool (*)(Interpreter& in, const Value& input, Args& args);
using Method = Value (*)(Interpreter& in, const Value& self, Args& args);
using Function = Value (*)(Interpreter& in, Args& args);
// Null when there is none of that name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
Method find_method(const Value& self, std::string_view name);
Value find_global(std::string_view name);  // undefined when there is none

Value call_filter(Interpreter& in, std::string_view name, const Value& input, Args& args);
bool call_test(Interpreter& in, std::string_view name, const Value& input, Args& args);

}  // namespace headrace::text::jinja
