// The grammar. 'x' is a token; x? is optional; x* any number of times; list(x) is x (',' x)* ','?
//
//   program     = declaration*
//   declaration = 'const' NAME '=' expr ';'
//               | 'type' NAME generics? '{' list(constructor) '}'
//               | 'weight' NAME ':' type ';'
//               | 'fn' NAME generics? '(' list(parameter)? ')' '->' type block
//   generics    = '[' list(NAME) ']'
//   constructor = NAME ( '(' list( (NAME ':')? type ) ')' )?
//   parameter   = (NAME | '_') ':' type
//   type        = 'int' | 'bool' | 'f32' ( '[' list(expr)? ']' )? | '(' list(type) ')' | '[' type ']'
//               | NAME ( '[' list(type | expr) ']' )?
//   block       = '{' ( 'let' pattern (':' type)? '=' expr ';' )* expr '}'
//   pattern     = '_' | NAME | '(' list(pattern) ')' | NAME '(' list(pattern) ')'
//   arm         = ( pattern | '[' ']' | '[' pattern ',' '..' (NAME | '_')? ']' ) '=>' expr
//   expr        = binary operators, weakest first:  ||  &&  (< <= > >= == !=, unchained)  (+ -)  (* / % @)
//                 over unary - and !, over primary (call | subscripts | '.' NAME)*
//   call        = '(' list((NAME '=')? expr)? ')'
//   subscripts  = '[' list(expr | expr? ':' expr?) ']'
//   primary     = NUMBER | 'true' | 'false' | NAME | '(' list(expr) ')' | '[' list(expr)? ']' | block
//               | 'if' expr block 'else' (block | if) | 'match' expr '{' list(arm) '}'
//               | '|' list(pattern) '|' expr
//
// After an arm that ends with '}' the comma may be left out.
#include "rondo/lang/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "rondo/lang/lexer.h"

namespace rondo::lang {
namespace {

// Deep enough for any program written by a person, shallow enough for an 8 MB stack under the sanitizers.
constexpr int kMaxNesting = 200;

constexpr std::array<const char*, 10> kKeywords = {"const", "type", "weight", "fn",   "let",
                                                   "if",    "else", "match",  "true", "false"};

struct BinaryOperator {
  const char* symbol;
  Operator op;
  int precedence;
};
constexpr int kComparison = 3, kUnary = 6;
constexpr BinaryOperator kOperators[] = {
    {"||", Operator::Or, 1}, {"&&", Operator::And, 2},   {"<", Operator::Lt, 3},  {"<=", Operator::Le, 3},
    {">", Operator::Gt, 3},  {">=", Operator::Ge, 3},    {"==", Operator::Eq, 3}, {"!=", Operator::Ne, 3},
    {"+", Operator::Add, 4}, {"-", Operator::Sub, 4},    {"*", Operator::Mul, 5}, {"/", Operator::Div, 5},
    {"%", Operator::Mod, 5}, {"@", Operator::MatMul, 5},
};

class Parser {
 public:
  Parser(const std::string& text, const ir::Program& program)
      : program_(program), tokens_(tokenise(text, program)) {}

  Module module() {
    Module module;
    while (peek().kind != Token::Kind::End) {
      if (take("const")) {
        module.consts.push_back(constant());
      } else if (take("type")) {
        module.types.push_back(type_declaration());
      } else if (take("weight")) {
        module.weights.push_back(weight());
      } else if (take("fn")) {
        module.functions.push_back(function());
      } else {
        fail("expected const, type, weight or fn");
      }
    }
    return module;
  }

 private:
  // ---------------------------------------------------------------- tokens
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(const char* text, size_t ahead = 0) const {
    const Token& token = peek(ahead);
    return (token.kind == Token::Kind::Symbol || token.kind == Token::Kind::Name) && token.text == text;
  }
  static bool keyword(const std::string& text) {
    return std::find(kKeywords.begin(), kKeywords.end(), text) != kKeywords.end();
  }
  bool is_name(size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::Name && !keyword(peek(ahead).text) && peek(ahead).text != "_";
  }
  bool is_number() const { return peek().kind == Token::Kind::Int || peek().kind == Token::Kind::Float; }
  bool take(const char* text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  Loc expect(const char* text) {
    if (!is(text)) fail(fmt::format("expected '{}'", text));
    return tokens_[at_++].loc;
  }
  std::string name(const char* what) {
    if (!is_name()) fail(fmt::format("expected {}", what));
    return tokens_[at_++].text;
  }
  [[noreturn]] void fail(const std::string& message) const {
    const Token& token = peek();
    ir::fail_at(program_, token.loc,
                token.kind == Token::Kind::End ? message + ", got the end of the file"
                                               : fmt::format("{}, got '{}'", message, token.text));
  }

  // One level of nesting; every recursive rule opens one.
  struct Nested {
    explicit Nested(Parser* parser) : parser(parser) {
      if (++parser->nesting_ > kMaxNesting) too_deep(parser);
    }
    ~Nested() { --parser->nesting_; }
    Parser* parser;
  };
  [[noreturn]] static void too_deep(Parser* parser) {
    ir::fail_at(parser->program_, parser->peek().loc,
                fmt::format("nested deeper than {} levels; name a part of it with let or fn", kMaxNesting));
  }

  // x (',' x)* ','? up to `close`, which is taken.
  template <class Rule>
  void list(const char* close, Rule rule) {
    while (!take(close)) {
      rule();
      if (!take(",") && !is(close)) fail(fmt::format("expected ',' or '{}'", close));
    }
  }

  // ---------------------------------------------------------------- declarations
  ConstDecl constant() {
    ConstDecl decl;
    decl.loc = peek().loc;
    decl.name = name("the name of a const");
    expect("=");
    decl.value = expr();
    expect(";");
    return decl;
  }
  WeightDecl weight() {
    WeightDecl decl;
    decl.loc = peek().loc;
    decl.name = name("the name of a weight");
    expect(":");
    decl.type = type();
    expect(";");
    return decl;
  }
  std::vector<Generic> generics() {
    std::vector<Generic> result;
    if (!take("[")) return result;
    list("]", [&] {
      const Loc loc = peek().loc;
      result.push_back({name("the name of a type or dimension parameter"), loc});
    });
    return result;
  }
  TypeDecl type_declaration() {
    TypeDecl decl;
    decl.loc = peek().loc;
    decl.name = name("the name of a type");
    decl.generics = generics();
    expect("{");
    list("}", [&] {
      ConstructorDecl constructor;
      constructor.loc = peek().loc;
      constructor.name = name("the name of a constructor");
      if (take("(")) {
        list(")", [&] {
          const bool named = is_name() && is(":", 1);
          constructor.field_names.push_back(named ? name("a field") : "");
          if (named) expect(":");
          constructor.fields.push_back(type());
        });
      }
      decl.constructors.push_back(std::move(constructor));
    });
    return decl;
  }
  FnDecl function() {
    FnDecl decl;
    decl.loc = peek().loc;
    decl.name = name("the name of a function");
    decl.generics = generics();
    expect("(");
    list(")", [&] {
      Pattern parameter;
      parameter.loc = peek().loc;
      if (!take("_")) {
        parameter.kind = Pattern::Kind::Name;
        parameter.name = name("the name of a parameter");
      }
      decl.params.push_back(parameter);
      expect(":");
      decl.param_types.push_back(type());
    });
    if (!is("->")) fail(fmt::format("expected '->' and the result type of {}", decl.name));
    expect("->");
    decl.result = type();
    decl.body = block();
    return decl;
  }

  // ---------------------------------------------------------------- types and patterns
  TypeExpr type() {
    const Nested nested(this);
    TypeExpr result;
    result.loc = peek().loc;
    if (take("(")) {
      result.kind = TypeExpr::Kind::Tuple;
      list(")", [&] { result.args.push_back(type()); });
      if (result.args.size() < 2) ir::fail_at(program_, result.loc, "a tuple type has 2 or more elements");
    } else if (take("[")) {
      result.kind = TypeExpr::Kind::List;
      result.args.push_back(type());
      expect("]");
    } else if (take("int")) {
      result.kind = TypeExpr::Kind::Int;
    } else if (take("bool")) {
      result.kind = TypeExpr::Kind::Bool;
    } else if (take("f32")) {
      result.kind = TypeExpr::Kind::Tensor;
      if (take("[")) list("]", [&] { result.dims.push_back(expr()); });
    } else {
      result.kind = TypeExpr::Kind::Named;
      result.name = name("a type");
      if (take("[")) list("]", [&] { result.args.push_back(type_argument()); });
    }
    return result;
  }
  // A single name may be either; the checker knows what the generic type takes.
  TypeExpr type_argument() {
    const bool arithmetic = is_name() && (is("+", 1) || is("-", 1) || is("*", 1) || is("/", 1) || is("%", 1));
    if (peek().kind != Token::Kind::Int && !arithmetic) return type();
    TypeExpr result;
    result.loc = peek().loc;
    result.kind = TypeExpr::Kind::Dim;
    result.dims.push_back(expr());
    return result;
  }

  Pattern pattern() {
    const Nested nested(this);
    Pattern result;
    result.loc = peek().loc;
    if (take("_")) return result;
    if (take("(")) {
      result.kind = Pattern::Kind::Tuple;
      list(")", [&] { result.parts.push_back(pattern()); });
      if (result.parts.size() == 1) return Pattern(result.parts[0]);
      if (result.parts.empty()) ir::fail_at(program_, result.loc, "a tuple pattern has 2 or more parts");
      return result;
    }
    if (is_number() || is("true") || is("false"))
      ir::fail_at(
          program_, peek().loc,
          fmt::format("expected a pattern, got '{}': ints and bools are told apart by if", peek().text));
    result.name = name("a pattern");
    result.kind = Pattern::Kind::Name;
    if (take("(")) {
      result.kind = Pattern::Kind::Constructor;
      list(")", [&] { result.parts.push_back(pattern()); });
    }
    return result;
  }
  Pattern arm_pattern() {
    if (!is("[")) return pattern();
    Pattern result;
    result.loc = expect("[");
    if (take("]")) {
      result.kind = Pattern::Kind::EmptyList;
      return result;
    }
    result.kind = Pattern::Kind::Cons;
    result.parts.push_back(pattern());
    if (!is(",") || !is("..", 1)) fail("expected ', ..rest]': a list is matched as [] or [first, ..rest]");
    expect(",");
    expect("..");
    Pattern rest;
    rest.loc = peek().loc;
    if (!take("_") && !is("]")) {
      rest.kind = Pattern::Kind::Name;
      rest.name = name("the name of the rest");
    }
    result.parts.push_back(rest);
    expect("]");
    return result;
  }

  // ---------------------------------------------------------------- expressions
  ExprPtr node(Expr::Kind kind, Loc loc) const {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->loc = loc;
    return e;
  }
  // To be called when all children are in place.
  ExprPtr finish(ExprPtr e) {
    int depth = 0;
    const auto see = [&](const ExprPtr& child) { depth = std::max(depth, child ? child->depth : 0); };
    for (const ExprPtr& part : e->parts) see(part);
    for (const Subscript& s : e->subscripts) {
      see(s.low);
      see(s.high);
    }
    for (const Let& let : e->lets) see(let.value);
    for (const Arm& arm : e->arms) see(arm.value);
    e->depth = depth + 1;
    if (e->depth > kMaxNesting) too_deep(this);
    return e;
  }

  ExprPtr expr(int weakest = 1) {
    const Nested nested(this);
    ExprPtr left = unary();
    for (;;) {
      const BinaryOperator* found = nullptr;
      for (const BinaryOperator& candidate : kOperators)
        if (peek().kind == Token::Kind::Symbol && peek().text == candidate.symbol) found = &candidate;
      if (!found || found->precedence < weakest) return left;
      if (found->precedence == kComparison && left->kind == Expr::Kind::Binary && !parenthesised_ &&
          left->op >= Operator::Lt && left->op <= Operator::Ne)
        fail("comparisons do not chain; join them with &&");
      ExprPtr e = node(Expr::Kind::Binary, peek().loc);
      ++at_;
      e->op = found->op;
      e->parts.push_back(std::move(left));
      e->parts.push_back(expr(found->precedence + 1));
      left = finish(std::move(e));
      parenthesised_ = false;
    }
  }

  ExprPtr unary() {
    if (!is("-") && !is("!")) return postfix();
    const Nested nested(this);
    ExprPtr e = node(Expr::Kind::Unary, peek().loc);
    e->op = take("-") ? Operator::Neg : (expect("!"), Operator::Not);
    e->parts.push_back(expr(kUnary));
    parenthesised_ = false;
    return finish(std::move(e));
  }

  ExprPtr postfix() {
    ExprPtr e = primary();
    // What ends with '}' is complete: the '[' or '(' after it begins the next arm of a match.
    const bool braced =
        e->kind == Expr::Kind::Block || e->kind == Expr::Kind::If || e->kind == Expr::Kind::Match;
    if (braced && !parenthesised_) return e;
    for (;;) {
      const Loc loc = peek().loc;
      if (is("(")) {
        if (e->kind != Expr::Kind::Name) ir::fail_at(program_, loc, "only a function's name can be called");
        e = call(std::move(e));
      } else if (take("[")) {
        ExprPtr index = node(Expr::Kind::Index, loc);
        index->parts.push_back(std::move(e));
        list("]", [&] { index->subscripts.push_back(subscript()); });
        if (index->subscripts.empty())
          ir::fail_at(program_, loc, "expected an index or a slice between '[' and ']'");
        e = finish(std::move(index));
      } else if (take(".")) {
        ExprPtr field = node(Expr::Kind::Field, peek().loc);
        if (is_number())
          ir::fail_at(
              program_, peek().loc,
              "expected the name of a field: a tuple is taken apart with a pattern, as in let (a, b) = t");
        field->name = name("the name of a field");
        field->parts.push_back(std::move(e));
        e = finish(std::move(field));
      } else {
        return e;
      }
      parenthesised_ = false;
    }
  }

  ExprPtr call(ExprPtr function) {
    ExprPtr e = node(Expr::Kind::Call, function->loc);
    e->name = function->name;
    expect("(");
    list(")", [&] {
      const bool named = is_name() && is("=", 1);
      e->arg_names.push_back(named ? name("an argument") : "");
      if (named) expect("=");
      e->parts.push_back(expr());
    });
    return finish(std::move(e));
  }

  Subscript subscript() {
    Subscript s;
    s.loc = peek().loc;
    if (!is(":")) s.low = expr();
    if (take(":")) {
      s.is_slice = true;
      if (!is(",") && !is("]")) s.high = expr();
    }
    return s;
  }

  ExprPtr primary() {
    const Token token = peek();
    parenthesised_ = false;
    if (token.kind == Token::Kind::Int || token.kind == Token::Kind::Float) {
      ++at_;
      ExprPtr e = node(token.kind == Token::Kind::Int ? Expr::Kind::Int : Expr::Kind::Float, token.loc);
      e->integer = token.integer;
      e->real = token.real;
      return e;
    }
    if (is("true") || is("false")) {
      ExprPtr e = node(Expr::Kind::Bool, token.loc);
      e->integer = is("true");
      ++at_;
      return e;
    }
    if (is("{")) return block();
    if (is("if")) return if_else();
    if (is("match")) return match();
    if (is("|")) return lambda();
    if (take("(")) {
      ExprPtr e = node(Expr::Kind::Tuple, token.loc);
      list(")", [&] { e->parts.push_back(expr()); });
      if (e->parts.empty()) ir::fail_at(program_, token.loc, "a tuple has 2 or more elements");
      parenthesised_ = e->parts.size() == 1;
      return parenthesised_ ? std::move(e->parts[0]) : finish(std::move(e));
    }
    if (take("[")) {
      ExprPtr e = node(Expr::Kind::List, token.loc);
      list("]", [&] { e->parts.push_back(expr()); });
      return finish(std::move(e));
    }
    if (!is_name()) fail("expected an expression");
    ExprPtr e = node(Expr::Kind::Name, token.loc);
    e->name = token.text;
    ++at_;
    return e;
  }

  ExprPtr block() {
    const Nested nested(this);
    ExprPtr e = node(Expr::Kind::Block, expect("{"));
    while (take("let")) {
      Let let;
      let.pattern = pattern();
      if (take(":")) let.type = std::make_unique<TypeExpr>(type());
      expect("=");
      let.value = expr();
      expect(";");
      e->lets.push_back(std::move(let));
    }
    if (is("}")) fail("expected an expression: a block ends with its value");
    e->parts.push_back(expr());
    if (is(";"))
      fail("expected '}': a value in the middle of a block has no effect; name it with let, or drop the ';'");
    expect("}");
    return finish(std::move(e));
  }

  ExprPtr if_else() {
    const Nested nested(this);
    ExprPtr e = node(Expr::Kind::If, expect("if"));
    e->parts.push_back(expr());
    e->parts.push_back(block());
    if (!is("else")) fail("expected 'else': an if is a value, so both sides are needed");
    expect("else");
    e->parts.push_back(is("if") ? if_else() : block());
    return finish(std::move(e));
  }

  ExprPtr match() {
    const Nested nested(this);
    ExprPtr e = node(Expr::Kind::Match, expect("match"));
    e->parts.push_back(expr());
    expect("{");
    while (!take("}")) {
      Arm arm;
      arm.pattern = arm_pattern();
      expect("=>");
      arm.value = expr();
      const bool braced = tokens_[at_ - 1].text == "}";
      e->arms.push_back(std::move(arm));
      if (!take(",") && !is("}") && !braced) fail("expected ',' or '}'");
    }
    return finish(std::move(e));
  }

  ExprPtr lambda() {
    const Nested nested(this);
    ExprPtr e = node(Expr::Kind::Lambda, expect("|"));
    list("|", [&] { e->params.push_back(pattern()); });
    e->parts.push_back(expr());
    return finish(std::move(e));
  }

  const ir::Program& program_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  bool parenthesised_ = false;  // the operand just read stood in brackets of its own
};

}  // namespace

Module parse(const std::string& text, const ir::Program& program) { return Parser(text, program).module(); }

}  // namespace rondo::lang
