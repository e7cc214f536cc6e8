#pragma once
// The parsed template. Expressions evaluate, statements execute, both in an Interpreter (interpreter.h),
// which counts steps and depth. Names are numbers: indices into Template::names.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace headrace::text::jinja {

struct Expr {
  explicit Expr(int at) : line(at) {}
  virtual ~Expr() = default;
  virtual Value eval(Interpreter& in) const = 0;
  int line;
};
using ExprPtr = std::unique_ptr<const Expr>;

enum class Flow : unsigned char { normal, break_loop, continue_loop };

struct Stmt {
  explicit Stmt(int at) : line(at) {}
  virtual ~Stmt() = default;
  virtual Flow exec(Interpreter& in) const = 0;
  int line;
};
using Body = std::vector<std::unique_ptr<const Stmt>>;

// Where {% set %} and {% for %} put values: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  int name = -1;
  std::string attribute;  // not empty: of the namespace `name`
  std::vector<Target> parts;
};

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *args
  ExprPtr star_star;  // **kwargs
};

struct Constant : Expr {
  Constant(int at, Value v) : Expr(at), value(std::move(v)) {}
  Value eval(Interpreter&) const override { return value; }
  Value value;
};

struct Name : Expr {
  Name(int at, int n) : Expr(at), name(n) {}
  Value eval(Interpreter&) const override;
  int name;
};

struct ListExpr : Expr {
  ListExpr(int at, std::vector<ExprPtr> parts, bool is_tuple)
      : Expr(at), items(std::move(parts)), tuple(is_tuple) {}
  Value eval(Interpreter&) const override;
  std::vector<ExprPtr> items;
  bool tuple;
};

struct DictExpr : Expr {
  explicit DictExpr(int at) : Expr(at) {}
  Value eval(Interpreter&) const override;
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};

enum class UnaryOp : unsigned char { negate, plus, logical_not };
struct Unary : Expr {
  Unary(int at, UnaryOp o, ExprPtr x) : Expr(at), op(o), operand(std::move(x)) {}
  Value eval(Interpreter&) const override;
  UnaryOp op;
  ExprPtr operand;
};

enum class BinaryOp : unsigned char { add, subtract, multiply, divide, floor_divide, modulo, power };
struct Binary : Expr {
  Binary(int at, BinaryOp o, ExprPtr l, ExprPtr r)
      : Expr(at), op(o), left(std::move(l)), right(std::move(r)) {}
  Value eval(Interpreter&) const override;
  BinaryOp op;
  ExprPtr left, right;
};

struct Logical : Expr {
  Logical(int at, bool both, ExprPtr l, ExprPtr r)
      : Expr(at), is_and(both), left(std::move(l)), right(std::move(r)) {}
  Value eval(Interpreter&) const override;
  bool is_and;
  ExprPtr left, right;
};

enum class CompareOp : unsigned char { eq, ne, lt, le, gt, ge, in, not_in };
struct Compare : Expr {
  explicit Compare(int at) : Expr(at) {}
  Value eval(Interpreter&) const override;
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct Concat : Expr {
  explicit Concat(int at) : Expr(at) {}
  Value eval(Interpreter&) const override;
  std::vector<ExprPtr> parts;
};

struct Conditional : Expr {
  explicit Conditional(int at) : Expr(at) {}
  Value eval(Interpreter&) const override;
  ExprPtr condition, then, otherwise;  // otherwise may be null
};

struct Attribute : Expr {
  Attribute(int at, ExprPtr o, std::string n) : Expr(at), object(std::move(o)), name(std::move(n)) {}
  Value eval(Interpreter&) const override;
  ExprPtr object;
  std::string name;
};

struct Subscript : Expr {
  Subscript(int at, ExprPtr o, ExprPtr i) : Expr(at), object(std::move(o)), index(std::move(i)) {}
  Value eval(Interpreter&) const override;
  ExprPtr object, index;
};

struct Slice : Expr {
  explicit Slice(int at) : Expr(at) {}
  Value eval(Interpreter&) const override;
  ExprPtr object, start, stop, step;  // the last three may be null
};

struct Call : Expr {
  Call(int at, ExprPtr f) : Expr(at), function(std::move(f)) {}
  Value eval(Interpreter&) const override;
  ExprPtr function;
  CallArgs args;
};

struct FilterCall : Expr {
  FilterCall(int at, ExprPtr x, std::string n) : Expr(at), input(std::move(x)), name(std::move(n)) {}
  Value eval(Interpreter&) const override;
  Value apply(Interpreter& in, const Value& to) const;
  ExprPtr input;  // null in filter and set blocks
  std::string name;
  CallArgs args;
};

struct TestCall : Expr {
  TestCall(int at, ExprPtr x, std::string n) : Expr(at), input(std::move(x)), name(std::move(n)) {}
  Value eval(Interpreter&) const override;
  ExprPtr input;
  std::string name;
  bool negated = false;
  CallArgs args;
};

struct Data : Stmt {
  Data(int at, std::string t) : Stmt(at), text(std::move(t)) {}
  Flow exec(Interpreter&) const override;
  std::string text;
};

struct Output : Stmt {
  Output(int at, ExprPtr x) : Stmt(at), value(std::move(x)) {}
  Flow exec(Interpreter&) const override;
  ExprPtr value;
};

struct If : Stmt {
  explicit If(int at) : Stmt(at) {}
  Flow exec(Interpreter&) const override;
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};

struct For : Stmt {
  explicit For(int at) : Stmt(at) {}
  Flow exec(Interpreter&) const override;
  void run(Interpreter& in, const Value& iterable, int depth) const;
  Target target;
  ExprPtr iterable, condition;  // condition may be null
  Body body, otherwise;
  bool recursive = false;
};

struct Set : Stmt {
  explicit Set(int at) : Stmt(at) {}
  Flow exec(Interpreter&) const override;
  Target target;
  ExprPtr value;  // null: the body's text
  Body body;
  std::vector<std::unique_ptr<FilterCall>> filters;  // applied to the body's text in order
};

struct MacroDef : Stmt {
  explicit MacroDef(int at) : Stmt(at) {}
  Flow exec(Interpreter&) const override;
  struct Parameter {
    std::string text;
    int name;
    ExprPtr default_value;  // may be null
  };
  std::string title;
  int name = -1;
  std::vector<Parameter> parameters;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;  // the body names them
  Body body;
};

struct CallBlock : Stmt {
  explicit CallBlock(int at) : Stmt(at) {}
  Flow exec(Interpreter&) const override;
  MacroDef caller{0};
  std::unique_ptr<Call> call;
};

struct FilterBlock : Stmt {
  explicit FilterBlock(int at) : Stmt(at) {}
  Flow exec(Interpreter&) const override;
  std::vector<std::unique_ptr<FilterCall>> filters;
  Body body;
};

// {% with %} and {% generation %}: a body with names of its own.
struct Block : Stmt {
  explicit Block(int at) : Stmt(at) {}
  Flow exec(Interpreter&) const override;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Body body;
};

struct Jump : Stmt {
  Jump(int at, Flow f) : Stmt(at), flow(f) {}
  Flow exec(Interpreter&) const override { return flow; }
  Flow flow;
};

struct Template {
  Body body;
  std::vector<std::string> names;
  // Names that the interpreter itself gives values to.
  int name_loop = -1, name_caller = -1, name_varargs = -1, name_kwargs = -1;
};

// Raises TemplateError.
Template parse(std::string_view source);

}  // namespace headrace::text::jinja
