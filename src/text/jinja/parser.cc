// Recursive descent over Jinja's grammar, in Jinja's own order of precedence. Nesting is limited.
#include <charconv>
#include <unordered_map>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace headrace::text::jinja {
namespace {

// Well over what a tag of a real template holds; a tree of this depth still fits any thread's stack.
constexpr int kMaxChain = 1000;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(lex(source)) {}

  Template run() {
    template_.name_loop = intern("loop");
    template_.name_caller = intern("caller");
    template_.name_varargs = intern("varargs");
    template_.name_kwargs = intern("kwargs");
    template_.body = parse_body({});
    return std::move(template_);
  }

 private:
  // Counts nested constructs while it lives.
  struct Nested {
    explicit Nested(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxNesting) parser.error_here(fmt::format("nested deeper than {}", kMaxNesting));
    }
    ~Nested() { --parser.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    Parser& parser;
  };

  // Left-associative operators make trees as deep as the chain is long, within one tag.
  void link_chain() {
    if (++chain_length_ > kMaxChain) error_here(fmt::format("more than {} operators in one tag", kMaxChain));
  }

  const Lexeme& now() const { return tokens_[at_]; }
  int line() const { return now().line; }
  bool is(TokenType type) const { return now().type == type; }
  bool is_op(std::string_view op) const { return is(TokenType::op) && now().text == op; }
  bool is_name(std::string_view name) const { return is(TokenType::name) && now().text == name; }
  std::string next() { return tokens_[at_++].text; }

  [[noreturn]] void error_here(std::string message) const {
    throw TemplateError{Code::malformed, std::move(message), line()};
  }
  std::string describe() const {
    switch (now().type) {
      case TokenType::end:
        return "end of template";
      case TokenType::block_end:
        return "end of statement block";
      case TokenType::variable_end:
        return "end of print statement";
      default:
        return fmt::format("'{}'", now().text);
    }
  }
  [[noreturn]] void expected(std::string_view what) const {
    error_here(fmt::format("expected {}, got {}", what, describe()));
  }

  bool skip_op(std::string_view op) {
    if (!is_op(op)) return false;
    ++at_;
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    ++at_;
    return true;
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) expected(fmt::format("'{}'", op));
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) expected(fmt::format("'{}'", name));
  }
  std::string expect_any_name() {
    if (!is(TokenType::name)) expected("a name");
    return next();
  }
  void expect_block_end() {
    if (!is(TokenType::block_end)) expected("end of statement block");
    ++at_;
  }

  int intern(const std::string& name) {
    const auto [it, added] = name_ids_.try_emplace(name, static_cast<int>(template_.names.size()));
    if (added) template_.names.push_back(name);
    return it->second;
  }

  // --- statements ---

  // Statements up to a tag that one of `ends` names (left standing after its {%), or up to the end when
  // empty.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const Nested nested(*this);
    Body body;
    while (true) {
      if (is(TokenType::end)) {
        if (ends.size() == 0) return body;
        error_here(fmt::format("unexpected end of template, looking for '{}'", *(ends.end() - 1)));
      }
      if (is(TokenType::data)) {
        const int at = line();
        body.push_back(std::make_unique<Data>(at, next()));
      } else if (is(TokenType::variable_begin)) {
        const int at = line();
        ++at_;
        chain_length_ = 0;
        body.push_back(std::make_unique<Output>(at, parse_tuple(true)));
        if (!is(TokenType::variable_end)) expected("end of print statement");
        ++at_;
      } else {
        ++at_;  // {%
        chain_length_ = 0;
        for (const std::string_view end : ends) {
          if (is_name(end)) return body;
        }
        body.push_back(parse_statement());
        expect_block_end();
      }
    }
  }

  // The body of a block tag and its closing tag, up to but not including the last %}.
  Body parse_block(std::string_view end) {
    expect_block_end();
    Body body = parse_body({end});
    expect_name(end);
    return body;
  }

  std::unique_ptr<Stmt> parse_statement() {
    const int at = line();
    const std::string tag = expect_any_name();
    if (tag == "for") return parse_for(at);
    if (tag == "if") return parse_if(at);
    if (tag == "set") return parse_set(at);
    if (tag == "macro") return parse_macro(at);
    if (tag == "call") return parse_call_block(at);
    if (tag == "filter") return parse_filter_block(at);
    if (tag == "with") return parse_with(at);
    if (tag == "generation") {
      auto block = std::make_unique<Block>(at);
      block->body = parse_block("endgeneration");
      return block;
    }
    if (tag == "break" || tag == "continue") {
      if (loop_depth_ == 0) error_here(fmt::format("'{}' outside of a loop", tag));
      return std::make_unique<Jump>(at, tag == "break" ? Flow::break_loop : Flow::continue_loop);
    }
    if (tag == "print") return std::make_unique<Output>(at, parse_tuple(true));
    for (const std::string_view known : {"block", "extends", "include", "import", "from", "autoescape"}) {
      if (tag == known) {
        throw TemplateError{Code::unsupported, fmt::format("the tag '{}' is not implemented", tag), at};
      }
    }
    error_here(fmt::format("encountered unknown tag '{}'", tag));
  }

  std::unique_ptr<Stmt> parse_for(int at) {
    auto loop = std::make_unique<For>(at);
    loop->target = parse_target(false, true);
    expect_name("in");
    loop->iterable = parse_tuple(false);
    if (skip_name("if")) loop->condition = parse_expression();
    loop->recursive = skip_name("recursive");
    expect_block_end();
    ++loop_depth_;
    loop->body = parse_body({"endfor", "else"});
    --loop_depth_;
    if (next() == "else") {
      expect_block_end();
      loop->otherwise = parse_body({"endfor"});
      ++at_;
    }
    return loop;
  }

  std::unique_ptr<Stmt> parse_if(int at) {
    auto branch = std::make_unique<If>(at);
    while (true) {
      ExprPtr condition = parse_tuple(false);
      expect_block_end();
      branch->branches.emplace_back(std::move(condition), parse_body({"elif", "else", "endif"}));
      const std::string tag = next();
      if (tag == "elif") continue;
      if (tag == "else") branch->otherwise = parse_block("endif");
      return branch;
    }
  }

  std::unique_ptr<Stmt> parse_set(int at) {
    auto set = std::make_unique<Set>(at);
    set->target = parse_target(true, true);
    if (skip_op("=")) {
      set->value = parse_tuple(true);
      return set;
    }
    while (skip_op("|")) set->filters.push_back(parse_filter(nullptr));
    set->body = parse_block("endset");
    return set;
  }

  void parse_signature(MacroDef& macro) {
    expect_op("(");
    while (!skip_op(")")) {
      if (!macro.parameters.empty()) expect_op(",");
      if (skip_op(")")) break;
      std::string name = expect_any_name();
      const int id = intern(name);
      for (const MacroDef::Parameter& other : macro.parameters) {
        if (other.name == id) error_here(fmt::format("duplicate argument '{}'", name));
      }
      ExprPtr value;
      if (skip_op("=")) {
        value = parse_expression();
      } else if (name == "caller") {
        error_here("the argument 'caller' must be left out or have a default");
      } else if (!macro.parameters.empty() && macro.parameters.back().default_value) {
        error_here("non-default argument follows default argument");
      }
      macro.parameters.push_back({std::move(name), id, std::move(value)});
    }
  }

  void parse_macro_body(MacroDef& macro, std::string_view end) {
    const int loops = std::exchange(loop_depth_, 0);
    macros_.push_back(&macro);
    macro.body = parse_block(end);
    macros_.pop_back();
    loop_depth_ = loops;
  }

  std::unique_ptr<Stmt> parse_macro(int at) {
    auto macro = std::make_unique<MacroDef>(at);
    macro->title = expect_any_name();
    macro->name = intern(macro->title);
    parse_signature(*macro);
    parse_macro_body(*macro, "endmacro");
    return macro;
  }

  std::unique_ptr<Stmt> parse_call_block(int at) {
    auto block = std::make_unique<CallBlock>(at);
    block->caller.line = at;
    block->caller.title = "caller";
    if (is_op("(")) parse_signature(block->caller);
    ExprPtr call = parse_expression();
    if (dynamic_cast<const Call*>(call.get()) == nullptr) expected("a call");
    block->call.reset(const_cast<Call*>(static_cast<const Call*>(call.release())));
    parse_macro_body(block->caller, "endcall");
    return block;
  }

  std::unique_ptr<Stmt> parse_filter_block(int at) {
    auto block = std::make_unique<FilterBlock>(at);
    do {
      block->filters.push_back(parse_filter(nullptr));
    } while (skip_op("|"));
    block->body = parse_block("endfilter");
    return block;
  }

  std::unique_ptr<Stmt> parse_with(int at) {
    auto block = std::make_unique<Block>(at);
    while (!is(TokenType::block_end)) {
      if (!block->assignments.empty()) expect_op(",");
      Target target = parse_target(false, false);
      expect_op("=");
      block->assignments.emplace_back(std::move(target), parse_expression());
    }
    block->body = parse_block("endwith");
    return block;
  }

  Target parse_one_target(bool with_namespace) {
    const Nested nested(*this);
    if (skip_op("(")) {
      Target target = parse_target(false, true);
      expect_op(")");
      return target;
    }
    Target target;
    const std::string name = expect_any_name();
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) error_here(fmt::format("can't assign to '{}'", name));
    }
    target.name = intern(name);
    if (with_namespace && skip_op(".")) target.attribute = expect_any_name();
    return target;
  }

  Target parse_target(bool with_namespace, bool with_tuple) {
    Target first = parse_one_target(with_namespace);
    if (!with_tuple || !is_op(",")) return first;
    Target tuple;
    tuple.parts.push_back(std::move(first));
    while (skip_op(",")) {
      if (is_name("in") || is_op("=") || is_op(")")) break;
      tuple.parts.push_back(parse_one_target(with_namespace));
    }
    return tuple;
  }

  // --- expressions, loosest first ---

  bool at_tuple_end() const {
    return is(TokenType::variable_end) || is(TokenType::block_end) || is_op(")") || is_name("recursive");
  }

  // One expression, or several with commas between them; conditional expressions only where `if` has no other
  // use.
  ExprPtr parse_tuple(bool with_conditional) {
    const int at = line();
    const auto part = [&] { return with_conditional ? parse_expression() : parse_or(); };
    ExprPtr first = part();
    if (!is_op(",")) return first;
    std::vector<ExprPtr> items;
    items.push_back(std::move(first));
    while (skip_op(",") && !at_tuple_end()) items.push_back(part());
    return std::make_unique<ListExpr>(at, std::move(items), true);
  }

  ExprPtr parse_expression() {
    const Nested nested(*this);
    const int at = line();
    ExprPtr value = parse_or();
    while (skip_name("if")) {
      link_chain();
      auto conditional = std::make_unique<Conditional>(at);
      conditional->then = std::move(value);
      conditional->condition = parse_or();
      if (skip_name("else")) conditional->otherwise = parse_expression();
      value = std::move(conditional);
    }
    return value;
  }

  ExprPtr parse_or() {
    ExprPtr left = parse_and();
    while (is_name("or")) {
      link_chain();
      const int at = line();
      ++at_;
      left = std::make_unique<Logical>(at, false, std::move(left), parse_and());
    }
    return left;
  }

  ExprPtr parse_and() {
    ExprPtr left = parse_not();
    while (is_name("and")) {
      link_chain();
      const int at = line();
      ++at_;
      left = std::make_unique<Logical>(at, true, std::move(left), parse_not());
    }
    return left;
  }

  ExprPtr parse_not() {
    if (!is_name("not")) return parse_compare();
    const Nested nested(*this);
    const int at = line();
    ++at_;
    return std::make_unique<Unary>(at, UnaryOp::logical_not, parse_not());
  }

  std::optional<CompareOp> compare_op() {
    static const std::unordered_map<std::string_view, CompareOp> ops = {
        {"==", CompareOp::eq}, {"!=", CompareOp::ne}, {"<", CompareOp::lt},
        {"<=", CompareOp::le}, {">", CompareOp::gt},  {">=", CompareOp::ge}};
    if (is(TokenType::op)) {
      const auto found = ops.find(now().text);
      if (found == ops.end()) return std::nullopt;
      ++at_;
      return found->second;
    }
    if (skip_name("in")) return CompareOp::in;
    if (is_name("not") && tokens_[at_ + 1].type == TokenType::name && tokens_[at_ + 1].text == "in") {
      at_ += 2;
      return CompareOp::not_in;
    }
    return std::nullopt;
  }

  ExprPtr parse_compare() {
    const int at = line();
    ExprPtr first = parse_sum();
    auto op = compare_op();
    if (!op) return first;
    auto compare = std::make_unique<Compare>(at);
    compare->first = std::move(first);
    for (; op; op = compare_op()) compare->rest.emplace_back(*op, parse_sum());
    return compare;
  }

  ExprPtr parse_sum() {
    ExprPtr left = parse_concat();
    while (is_op("+") || is_op("-")) {
      link_chain();
      const int at = line();
      const BinaryOp op = next() == "+" ? BinaryOp::add : BinaryOp::subtract;
      left = std::make_unique<Binary>(at, op, std::move(left), parse_concat());
    }
    return left;
  }

  ExprPtr parse_concat() {
    const int at = line();
    ExprPtr first = parse_product();
    if (!is_op("~")) return first;
    auto concat = std::make_unique<Concat>(at);
    concat->parts.push_back(std::move(first));
    while (skip_op("~")) concat->parts.push_back(parse_product());
    return concat;
  }

  ExprPtr parse_product() {
    static const std::unordered_map<std::string_view, BinaryOp> ops = {{"*", BinaryOp::multiply},
                                                                       {"/", BinaryOp::divide},
                                                                       {"//", BinaryOp::floor_divide},
                                                                       {"%", BinaryOp::modulo}};
    ExprPtr left = parse_power();
    while (is(TokenType::op) && ops.contains(now().text)) {
      link_chain();
      const int at = line();
      const BinaryOp op = ops.at(next());
      left = std::make_unique<Binary>(at, op, std::move(left), parse_power());
    }
    return left;
  }

  ExprPtr parse_power() {
    ExprPtr left = parse_unary(true);
    while (is_op("**")) {
      link_chain();
      const int at = line();
      ++at_;
      left = std::make_unique<Binary>(at, BinaryOp::power, std::move(left), parse_unary(true));
    }
    return left;
  }

  ExprPtr parse_unary(bool with_filter) {
    const Nested nested(*this);
    const int at = line();
    ExprPtr node;
    if (skip_op("-")) {
      node = std::make_unique<Unary>(at, UnaryOp::negate, parse_unary(false));
    } else if (skip_op("+")) {
      node = std::make_unique<Unary>(at, UnaryOp::plus, parse_unary(false));
    } else {
      node = parse_primary();
    }
    node = parse_postfix(std::move(node));
    return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
  }

  ExprPtr parse_primary() {
    const int at = line();
    if (is(TokenType::name)) return parse_name(at);
    if (is(TokenType::string)) {
      std::string text = next();
      while (is(TokenType::string)) text += next();
      return std::make_unique<Constant>(at, Text::from_author(std::move(text)));
    }
    if (is(TokenType::integer)) return std::make_unique<Constant>(at, parse_integer(next()));
    if (is(TokenType::real)) {
      const std::string text = next();
      double value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return std::make_unique<Constant>(at, value);
    }
    if (skip_op("(")) {
      if (skip_op(")")) return std::make_unique<ListExpr>(at, std::vector<ExprPtr>(), true);
      ExprPtr inner = parse_tuple(true);
      expect_op(")");
      return inner;
    }
    if (skip_op("[")) return parse_list(at);
    if (skip_op("{")) return parse_dict(at);
    expected("an expression");
  }

  ExprPtr parse_name(int at) {
    const std::string name = next();
    if (name == "true" || name == "True") return std::make_unique<Constant>(at, true);
    if (name == "false" || name == "False") return std::make_unique<Constant>(at, false);
    if (name == "none" || name == "None") return std::make_unique<Constant>(at, None{});
    for (MacroDef* const macro : macros_) {
      macro->uses_varargs |= name == "varargs";
      macro->uses_kwargs |= name == "kwargs";
      macro->uses_caller |= name == "caller";
    }
    return std::make_unique<Name>(at, intern(name));
  }

  Value parse_integer(std::string text) {
    int base = 10;
    if (text.size() > 2 && text[0] == '0' && (text[1] | 0x20) >= 'a') {
      base = (text[1] | 0x20) == 'x' ? 16 : (text[1] | 0x20) == 'o' ? 8 : 2;
      text.erase(0, 2);
    }
    int64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (failed != std::errc() || end != text.data() + text.size()) {
      error_here(fmt::format("\"{}\" is no integer of 64 bits", text));
    }
    return value;
  }

  ExprPtr parse_list(int at) {
    std::vector<ExprPtr> items;
    while (!skip_op("]")) {
      if (!items.empty()) expect_op(",");
      if (skip_op("]")) break;
      items.push_back(parse_expression());
    }
    return std::make_unique<ListExpr>(at, std::move(items), false);
  }

  ExprPtr parse_dict(int at) {
    auto dict = std::make_unique<DictExpr>(at);
    while (!skip_op("}")) {
      if (!dict->items.empty()) expect_op(",");
      if (skip_op("}")) break;
      ExprPtr key = parse_expression();
      expect_op(":");
      dict->items.emplace_back(std::move(key), parse_expression());
    }
    return dict;
  }

  ExprPtr parse_postfix(ExprPtr node) {
    while (true) {
      link_chain();
      const int at = line();
      if (skip_op(".")) {
        if (is(TokenType::integer)) {
          node = std::make_unique<Subscript>(at, std::move(node),
                                             std::make_unique<Constant>(at, parse_integer(next())));
        } else {
          node = std::make_unique<Attribute>(at, std::move(node), expect_any_name());
        }
      } else if (skip_op("[")) {
        node = parse_subscript(at, std::move(node));
      } else if (is_op("(")) {
        node = parse_call(at, std::move(node));
      } else {
        return node;
      }
    }
  }

  ExprPtr parse_subscript(int at, ExprPtr object) {
    ExprPtr start;
    if (!is_op(":")) {
      start = parse_tuple(true);
      if (skip_op("]")) return std::make_unique<Subscript>(at, std::move(object), std::move(start));
    }
    auto slice = std::make_unique<Slice>(at);
    slice->object = std::move(object);
    slice->start = std::move(start);
    expect_op(":");
    if (!is_op("]") && !is_op(":")) slice->stop = parse_expression();
    if (skip_op(":") && !is_op("]")) slice->step = parse_expression();
    expect_op("]");
    return slice;
  }

  ExprPtr parse_call(int at, ExprPtr function) {
    auto call = std::make_unique<Call>(at, std::move(function));
    call->args = parse_args();
    return call;
  }

  CallArgs parse_args() {
    CallArgs args;
    expect_op("(");
    bool first = true;
    while (!skip_op(")")) {
      if (!first) expect_op(",");
      first = false;
      if (skip_op(")")) break;
      if (skip_op("**")) {
        if (args.star_star) error_here("invalid syntax for function call expression");
        args.star_star = parse_expression();
      } else if (skip_op("*")) {
        if (args.star || args.star_star) error_here("invalid syntax for function call expression");
        args.star = parse_expression();
      } else if (is(TokenType::name) && tokens_[at_ + 1].type == TokenType::op &&
                 tokens_[at_ + 1].text == "=") {
        std::string name = next();
        ++at_;
        args.named.emplace_back(std::move(name), parse_expression());
      } else {
        if (!args.named.empty() || args.star || args.star_star) {
          error_here("invalid syntax for function call expression");
        }
        args.positional.push_back(parse_expression());
      }
    }
    return args;
  }

  std::string parse_dotted_name() {
    std::string name = expect_any_name();
    while (skip_op(".")) name.append(1, '.').append(expect_any_name());
    return name;
  }

  std::unique_ptr<FilterCall> parse_filter(ExprPtr input) {
    const int at = line();
    auto filter = std::make_unique<FilterCall>(at, std::move(input), parse_dotted_name());
    if (is_op("(")) filter->args = parse_args();
    return filter;
  }

  ExprPtr parse_filters_and_tests(ExprPtr node) {
    while (true) {
      link_chain();
      if (skip_op("|")) {
        node = parse_filter(std::move(node));
      } else if (skip_name("is")) {
        node = parse_test(std::move(node));
      } else if (is_op("(")) {
        const int at = line();
        node = parse_call(at, std::move(node));
      } else {
        return node;
      }
    }
  }

  ExprPtr parse_test(ExprPtr input) {
    const int at = line();
    const bool negated = skip_name("not");
    auto test = std::make_unique<TestCall>(at, std::move(input), parse_dotted_name());
    test->negated = negated;
    const bool may_be_argument =
        is(TokenType::string) || is(TokenType::integer) || is(TokenType::real) || is_op("[") || is_op("{") ||
        (is(TokenType::name) && !is_name("else") && !is_name("or") && !is_name("and"));
    if (is_op("(")) {
      test->args = parse_args();
    } else if (is_name("is")) {
      error_here("you cannot chain multiple tests with is");
    } else if (may_be_argument) {
      const Nested nested(*this);
      test->args.positional.push_back(parse_postfix(parse_primary()));
    }
    return test;
  }

  std::vector<Lexeme> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loop_depth_ = 0;
  std::vector<MacroDef*> macros_;  // those whose bodies are being parsed
  int chain_length_ = 0;
  Template template_;
  std::unordered_map<std::string, int> name_ids_;
};

}  // namespace

Template parse(std::string_view source) {
  return Parser(source).run();
}

}  // namespace headrace::text::jinja
