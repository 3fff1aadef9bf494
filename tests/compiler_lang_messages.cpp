// Every message of lexer, parser and checker, by its text; each program has one fault.
#include <gtest/gtest.h>

#include <string>

#include "rondo/error.h"
#include "rondo/lang/lang.h"

namespace rondo::lang {
namespace {

// The message without the source line and the caret.
std::string message(const std::string& text, const Overrides& overrides = {}) {
  try {
    parse_program(text, "t.rondo", overrides);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::Source) return std::string("kind ") + name(e.kind()) + ": " + e.what();
    const std::string what = e.what();
    return what.substr(0, what.find('\n'));
  }
  return "accepted";
}
std::string at(int line, int column, const std::string& text) {
  return "t.rondo:" + std::to_string(line) + ":" + std::to_string(column) + ": error: " + text;
}
// The message for the body of `fn main(x: f32[4], n: int,
// xs: [int], t: Tree) -> RESULT`, at a column of that body.
std::string in_main(const std::string& result, const std::string& body) {
  const std::string program =
      "type Tree { Leaf(f32[4]), Node(left: Tree, right: Tree) }\ntype Option[T] { None, Some(T) }\n"
      "type Point { Point(px: f32[], py: f32[]) }\nweight w: f32[2, 4];\nconst H = 4;\nfn half(x: f32[4]) -> "
      "f32[4] { x / 2 }\n"
      "fn main(x: f32[4], n: int, xs: [int], t: Tree) -> " +
      result + " {\n";
  const std::string what = message(program + body + "\n}");
  const std::string where = "t.rondo:8:";
  return what.compare(0, where.size(), where) == 0 ? what.substr(where.size()) : what;
}

TEST(Message, ShowsTheLineAndACaret) {
  try {
    parse_program("weight w: f32[8, 4];\nfn main(x: f32[8, 4]) -> f32[8, 4] {\n\tw @ x\n}", "tree.rondo");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::Source);
    EXPECT_STREQ(e.what(),
                 "tree.rondo:3:4: error: cannot multiply f32[8,4] by f32[8,4]: inner sizes 4 and 8 "
                 "differ\n\tw @ x\n\t  ^");
  }
}

TEST(Message, OfTheLexer) {
  EXPECT_EQ(message("const H = 4;\n  const S = 3 $ 4;"), at(2, 15, "unexpected character '$'"));
  EXPECT_EQ(message("\xc3"), at(1, 1, "unexpected byte 0xc3"));
  EXPECT_EQ(message("const A = 12ab;"), at(1, 13, "'a' directly after the number 12"));
  EXPECT_EQ(message("const A = 99999999999999999999;"),
            at(1, 11, "the number 99999999999999999999 is out of range"));
  EXPECT_EQ(message("const A = 1e999;"), at(1, 11, "the number 1e999 is out of range"));
}

TEST(Message, OfDeclarationSyntax) {
  EXPECT_EQ(message("let x = 1;"), at(1, 1, "expected const, type, weight or fn, got 'let'"));
  EXPECT_EQ(message("const = 1;"), at(1, 7, "expected the name of a const, got '='"));
  EXPECT_EQ(message("const A 1;"), at(1, 9, "expected '=', got '1'"));
  EXPECT_EQ(message("weight fn: f32[1];"), at(1, 8, "expected the name of a weight, got 'fn'"));
  EXPECT_EQ(message("type { A }"), at(1, 6, "expected the name of a type, got '{'"));
  EXPECT_EQ(message("type T { 1 }"), at(1, 10, "expected the name of a constructor, got '1'"));
  EXPECT_EQ(message("type T { A B }"), at(1, 12, "expected ',' or '}', got 'B'"));
  EXPECT_EQ(message("type T { A }\nfn 1() -> int { 1 }"),
            at(2, 4, "expected the name of a function, got '1'"));
  EXPECT_EQ(message("fn f(1: int) -> int { 1 }"), at(1, 6, "expected the name of a parameter, got '1'"));
  EXPECT_EQ(message("fn f[1](x: int) -> int { 1 }"),
            at(1, 6, "expected the name of a type or dimension parameter, got '1'"));
  EXPECT_EQ(message("fn f(x: int) { x }"), at(1, 14, "expected '->' and the result type of f, got '{'"));
  EXPECT_EQ(message("fn f(x: int) -> int"), at(1, 20, "expected '{', got the end of the file"));
  EXPECT_EQ(message("fn f(x: +) -> int { 1 }"), at(1, 9, "expected a type, got '+'"));
  EXPECT_EQ(message("fn f(x: (int)) -> int { 1 }"), at(1, 9, "a tuple type has 2 or more elements"));
}

TEST(Message, OfBlocks) {
  EXPECT_EQ(message("fn main(n: int) -> int { let a = n; }"),
            at(1, 37, "expected an expression: a block ends with its value, got '}'"));
  EXPECT_EQ(message("fn main(n: int) -> int { n; }"),
            at(1, 27,
               "expected '}': a value in the middle of a block has no effect; name it with let, or drop the "
               "';', got ';'"));
  EXPECT_EQ(message("fn main(n: int) -> int { let a = n a }"), at(1, 36, "expected ';', got 'a'"));
  EXPECT_EQ(message("fn main(n: int) -> int { let 1 = n; n }"),
            at(1, 30, "expected a pattern, got '1': ints and bools are told apart by if"));
  EXPECT_EQ(message("fn main(n: int) -> int { match n { 0 => 1, _ => 2 } }"),
            at(1, 36, "expected a pattern, got '0': ints and bools are told apart by if"));
  EXPECT_EQ(message("fn main(b: bool) -> int { match b { true => 1, false => 2 } }"),
            at(1, 37, "expected a pattern, got 'true': ints and bools are told apart by if"));
  EXPECT_EQ(message("fn main(n: int) -> int { match n { m => m } }"),
            at(1, 32, "cannot match int: match is for algebraic types and lists; use if or let"));
  EXPECT_EQ(message("fn main(n: int) -> int { let () = n; n }"),
            at(1, 30, "a tuple pattern has 2 or more parts"));
}

TEST(Message, OfOperatorSyntax) {
  EXPECT_EQ(in_main("int", "n + "), "t.rondo:9:1: error: expected an expression, got '}'");
  EXPECT_EQ(in_main("int", "()"), "1: error: a tuple has 2 or more elements");
  EXPECT_EQ(in_main("bool", "0 < n < 3"), "7: error: comparisons do not chain; join them with &&, got '<'");
  EXPECT_EQ(in_main("int", "if n == 1 { 1 }"),
            "t.rondo:9:1: error: expected 'else': an if is a value, so both sides are needed, got '}'");
  EXPECT_EQ(in_main("int", "half(x)(n)"), "8: error: only a function's name can be called");
  EXPECT_EQ(in_main("int", "xs[]"), "3: error: expected an index or a slice between '[' and ']'");
  EXPECT_EQ(
      in_main("int", "t.1"),
      "3: error: expected the name of a field: a tuple is taken apart with a pattern, as in let (a, b) = t");
  EXPECT_EQ(in_main("int", "t.(1)"), "3: error: expected the name of a field, got '('");
  EXPECT_EQ(in_main("int", "match xs { [] => 1 x => 2 }"), "20: error: expected ',' or '}', got 'x'");
  EXPECT_EQ(in_main("int", "match xs { [a, b] => 2 }"),
            "14: error: expected ', ..rest]': a list is matched as [] or [first, ..rest], got ','");
}

TEST(Message, OfNesting) {
  const std::string deep = "nested deeper than 200 levels; name a part of it with let or fn";
  const auto program = [](const std::string& body) { return "fn main(n: int) -> int { " + body + " }"; };
  EXPECT_NE(message(program(std::string(10000, '('))).find(deep), std::string::npos);
  EXPECT_NE(message(program(std::string(10000, '-') + "n")).find(deep), std::string::npos);
  EXPECT_NE(message("fn main(n: " + std::string(10000, '[')).find(deep), std::string::npos);
  std::string sum = "n";
  for (int k = 0; k < 10000; ++k) sum += "+n";
  EXPECT_NE(message(program(sum)).find(deep), std::string::npos) << "a chain is deep too: to the left";
  std::string index = "n";
  for (int k = 0; k < 10000; ++k) index += "[0]";
  EXPECT_NE(message(program(index)).find(deep), std::string::npos);
  EXPECT_EQ(message(program(std::string(60, '(') + "n" + std::string(60, ')'))), "accepted");
}

TEST(Message, OfConstants) {
  EXPECT_EQ(message("const A = 1 / 0;"), at(1, 13, "division by zero in a constant"));
  EXPECT_EQ(message("const A = 9223372036854775807 + 1;"),
            at(1, 31, "the value of this constant does not fit in 64 bits"));
  EXPECT_EQ(message("const A = 1.0 / 0;"), at(1, 15, "the value of this constant is not a finite number"));
  EXPECT_EQ(message("const A = B; const B = 1;"), at(1, 11, "B is used before its declaration"));
  EXPECT_EQ(message("const SIZE = 1; const B = SIZ;"), at(1, 27, "unknown constant SIZ; did you mean SIZE?"));
  EXPECT_EQ(message("const A = [1];"), at(1, 11, "a const is made of numbers and other consts"));
  EXPECT_EQ(message("weight w: f32[1.5];"),
            at(1, 15, "an extent must be an int that is known while compiling"));
  EXPECT_EQ(message("const H = 4; fn main(x: f32[h]) -> int { 1 }"),
            at(1, 29, "unknown constant h; did you mean H?"));
}

TEST(Message, OfOverrides) {
  EXPECT_EQ(message("const H = 4; const V = 5; fn main() -> int { H }", {{"K", 3}}),
            "kind usage: t.rondo has no const K to override; it has H, V");
  EXPECT_EQ(message("fn main() -> int { 1 }", {{"K", 3}}),
            "kind usage: t.rondo has no const K to override; it has none");
}

TEST(Message, OfDuplicateNames) {
  EXPECT_EQ(message("const A = 1;\nweight A: f32[2];"), at(2, 8, "A is already declared on line 1"));
  EXPECT_EQ(message("type T { A }\ntype T { B }"), at(2, 6, "type T is already declared"));
  EXPECT_EQ(message("type T { A }\ntype U { A }"), at(2, 10, "A is already declared on line 1"));
  EXPECT_EQ(message("fn relu(x: int) -> int { x }"),
            at(1, 4, "relu is a function of the language; choose another name"));
  EXPECT_EQ(message("type f32 { A }"), at(1, 6, "f32 is a type of the language; choose another name"));
  EXPECT_EQ(message("type T { }"), at(1, 6, "type T needs at least one constructor"));
  EXPECT_EQ(message("type T { A(x: int, x: int) }"), at(1, 23, "A has two fields named x"));
  EXPECT_EQ(message("fn f[N, N](x: f32[N]) -> int { 1 }"), at(1, 9, "there are two parameters named N"));
  EXPECT_EQ(message("fn main(a: int, a: int) -> int { a }"), at(1, 17, "a is bound twice"));
  EXPECT_EQ(in_main("int", "let (a, a) = (n, n); a"), "9: error: a is bound twice");
}

TEST(Message, OfMain) {
  EXPECT_EQ(message("fn f() -> int { 1 }"),
            "t.rondo: error: there is no fn main; its parameters are the instance, its result is the output");
  EXPECT_EQ(message("fn main[T](x: T) -> T { x }"),
            at(1, 4, "fn main cannot be generic: its parameters are the instance"));
}

TEST(Message, OfTypes) {
  EXPECT_EQ(message("weight w: int;"), at(1, 11, "a weight is a tensor, got int"));
  EXPECT_EQ(message("weight w: f32[0];"), at(1, 11, "a tensor needs extents of at least 1, got 0"));
  EXPECT_EQ(message("weight w: f32[65536, 65536];"), at(1, 11, "a tensor has at most 2147483647 elements"));
  EXPECT_EQ(message("weight w: f32[1,1,1,1,1,1,1,1,1];"), at(1, 11, "a tensor has at most 8 axes, got 9"));
  EXPECT_EQ(message("type Tree { A } fn main(t: Tre) -> int { 1 }"),
            at(1, 28, "unknown type Tre; did you mean Tree?"));
  EXPECT_EQ(message("type L[T] { A(T) } fn main(t: L) -> int { 1 }"),
            at(1, 31, "type L takes 1 parameter(s), got 0"));
  EXPECT_EQ(message("type L[N] { A(f32[N]) } fn main(t: L[int]) -> int { 1 }"),
            at(1, 38, "parameter N of L is a dimension, got a type"));
  EXPECT_EQ(message("type L[T] { A(T) } fn main(t: L[3]) -> int { 1 }"),
            at(1, 33, "expected a type, got a number"));
  EXPECT_EQ(message("type L[T] { A(T, f32[T]) }"), at(1, 22, "T is used as a type and as a dimension"));
  EXPECT_EQ(message("type L[T] { A(T[int]) } fn main(t: L[int]) -> int { 1 }"),
            at(1, 15, "T is a parameter and takes none itself"));
  EXPECT_EQ(message("type L[T] { A } fn main() -> int { 1 }"),
            at(1, 8, "parameter T of type L is not used in it"));
  EXPECT_EQ(message("fn f[T](x: int) -> int { x } fn main() -> int { 1 }"),
            at(1, 6, "parameter T of fn f's signature is not used in it"));
  EXPECT_EQ(message("type L[T] { A(L[(T, T)]), B(T) } fn main(t: L[int]) -> int { 1 }"),
            at(1, 15, "type L unfolds into ever larger types"));
  EXPECT_EQ(message("fn f[T](x: T) -> int { f((x, x)) } fn main(t: int) -> int { f(t) }")
                .find("t.rondo:1:24: error: fn f calls itself with ever other parameters"),
            0u);
}

TEST(Message, OfNames) {
  EXPECT_EQ(in_main("int", "N"), "1: error: unknown name N; did you mean n?");
  EXPECT_EQ(in_main("int", "somethingelse"), "1: error: unknown name somethingelse");
  EXPECT_EQ(in_main("f32[4]", "haf(x)"), "1: error: unknown function haf; did you mean half?");
  EXPECT_EQ(in_main("f32[4]", "sigmoyd(x)"), "1: error: unknown function sigmoyd; did you mean sigmoid?");
  EXPECT_EQ(in_main("f32[4]", "half"),
            "1: error: half is a function; call it, or give it to map, fold or scan");
  EXPECT_EQ(in_main("f32[4]", "x(n)"), "1: error: x is a value, not a function");
  EXPECT_EQ(in_main("int", "|a| a"), "1: error: a function |..| can only be given to map, fold and scan");
}

TEST(Message, OfResultsAndLets) {
  EXPECT_EQ(in_main("f32[4]", "n"), "1: error: the result of fn main: expected f32[4], got int");
  EXPECT_EQ(in_main("f32[4]", "{ let a = n; a }"),
            "14: error: the result of fn main: expected f32[4], got int");
  EXPECT_EQ(in_main("int", "let a: bool = n; n"), "15: error: let: expected bool, got int");
  EXPECT_EQ(in_main("int", "let (a, b) = n; n"), "5: error: a tuple pattern does not fit int");
  EXPECT_EQ(in_main("int", "let (a, b, c) = (n, n); n"),
            "5: error: the pattern has 3 part(s), (int, int) has 2");
  EXPECT_EQ(in_main("int", "let Leaf(a) = t; n"), "5: error: Tree need not be Leaf; use match");
  EXPECT_EQ(in_main("int", "let Some(a) = t; n"), "5: error: Some is not a constructor of Tree");
  EXPECT_EQ(in_main("int", "let Pont(a, b) = Point(1, 2); n"),
            "5: error: unknown constructor Pont; did you mean Point?");
}

TEST(Message, OfArithmetic) {
  EXPECT_EQ(in_main("f32[4]", "x + zeros(3)"),
            "3: error: cannot add f32[4] and f32[3]: sizes 4 and 3 differ");
  EXPECT_EQ(in_main("f32[4]", "x + n"),
            "3: error: cannot add f32[4] and int; float(i) makes a tensor of an int");
  EXPECT_EQ(in_main("f32[4]", "x * xs"), "3: error: cannot multiply f32[4] and [int]");
  EXPECT_EQ(in_main("f32[4]", "x % 2"), "3: error: cannot take the remainder of f32[4] and f32[]");
  EXPECT_EQ(in_main("f32[4]", "-t"), "1: error: cannot negate Tree");
  EXPECT_EQ(in_main("f32[4]", "x @ n"), "3: error: cannot multiply f32[4] by int: @ needs two tensors");
  EXPECT_EQ(in_main("f32[4]", "x @ 2.0"),
            "3: error: cannot multiply f32[4] by f32[]: @ needs vectors or matrices; use * to scale");
  EXPECT_EQ(in_main("f32[4]", "zeros(2,3,4) @ zeros(3,4,2)"),
            "14: error: cannot multiply f32[2,3,4] by f32[3,4,2]: the leading sizes must be equal");
  EXPECT_EQ(in_main("f32[4]", "zeros(65536, 1) * zeros(65536)"),
            "17: error: the result has more than 2147483647 elements");
}

TEST(Message, OfConditions) {
  EXPECT_EQ(in_main("int", "if n { 1 } else { 2 }"),
            "4: error: the condition of an if: expected bool, got int");
  EXPECT_EQ(in_main("int", "if x == x { 1 } else { 2 }"),
            "6: error: cannot compare f32[4] with f32[4]: control flow depends on structure and ints, not on "
            "tensors");
  EXPECT_EQ(in_main("bool", "true < false"),
            "6: error: cannot compare bool with bool: only ints have an order");
  EXPECT_EQ(in_main("bool", "t == t"),
            "3: error: cannot compare Tree with Tree: only ints and bools can be compared");
  EXPECT_EQ(in_main("bool", "n && true"), "1: error: &&: expected bool, got int");
  EXPECT_EQ(in_main("bool", "true || n"), "9: error: ||: expected bool, got int");
  EXPECT_EQ(in_main("bool", "!n"), "2: error: !: expected bool, got int");
  EXPECT_EQ(in_main("int", "let a = if true { n } else { x }; n"),
            "30: error: the branches must agree: expected int, got f32[4]");
}

TEST(Message, OfMatch) {
  EXPECT_EQ(in_main("int", "match n { _ => 1 }"),
            "7: error: cannot match int: match is for algebraic types and lists; use if or let");
  EXPECT_EQ(in_main("int", "match t { Leaf(_) => 1 }"), "1: error: match does not cover Node of Tree");
  EXPECT_EQ(in_main("int", "match t { Leef(_) => 1, _ => 2 }"),
            "11: error: unknown constructor of Tree: Leef; did you mean Leaf?");
  EXPECT_EQ(in_main("int", "match t { None => 1, _ => 2 }"),
            "11: error: unknown constructor of Tree: None; did you mean Node?");
  EXPECT_EQ(in_main("int", "match t { Leaf(_) => 1, Node(l) => 2 }"),
            "25: error: Node has 2 field(s), the pattern has 1");
  EXPECT_EQ(in_main("int", "match t { _ => 1, Leaf(_) => 2 }"), "19: error: this arm is never reached");
  EXPECT_EQ(in_main("int", "match t { [] => 1, _ => 2 }"), "11: error: this pattern does not fit Tree");
  EXPECT_EQ(in_main("int", "match t { Node(Leaf(a), b) => 1, _ => 2 }"),
            "16: error: Tree need not be Leaf; use match");
  EXPECT_EQ(in_main("int", "match xs { [] => 1 }"), "1: error: match does not cover [first, ..rest]");
  EXPECT_EQ(in_main("int", "match xs { [a, ..r] => 1 }"), "1: error: match does not cover []");
  EXPECT_EQ(in_main("int", "match xs { Leaf(_) => 1, _ => 2 }"),
            "12: error: this pattern does not fit [int]; a list is matched as [] or [first, ..rest]");
  EXPECT_EQ(in_main("int", "match xs { r => 1, [] => 2 }"), "20: error: this arm is never reached");
}

TEST(Message, OfCalls) {
  EXPECT_EQ(in_main("f32[4]", "half(x, x)"), "1: error: half takes 1 argument(s), got 2");
  EXPECT_EQ(in_main("f32[4]", "half(n)"), "6: error: argument 1 of half: expected f32[4], got int");
  EXPECT_EQ(in_main("f32[4]", "half(x=x)"), "8: error: half takes no named arguments");
  EXPECT_EQ(in_main("Tree", "Node(t)"), "1: error: Node has 2 field(s), got 1");
  EXPECT_EQ(in_main("Tree", "Leaf"), "1: error: Leaf has 1 field(s), got 0");
  EXPECT_EQ(in_main("Tree", "Leaf(n)"), "6: error: argument 1 of Leaf: expected f32[4], got int");
  EXPECT_EQ(in_main("int", "let a = None; n"),
            "9: error: cannot tell parameter T of None from its arguments; give the result a type: let x: .. "
            "= None");
  EXPECT_EQ(in_main("Option[f32[4]]", "Some(n)"),
            "1: error: the result of fn main: expected Option[f32[4]], got Option[int]");
}

TEST(Message, OfFields) {
  EXPECT_EQ(in_main("f32[]", "n.px"), "3: error: int has no fields");
  EXPECT_EQ(in_main("int", "(n, n).px"),
            "8: error: (int, int) has no fields; take it apart with a pattern, as in let (a, b) = t");
  EXPECT_EQ(in_main("f32[]", "t.left"),
            "3: error: Tree has 2 constructors, so its fields are reached by match");
  EXPECT_EQ(in_main("f32[]", "Point(1, 2).p"), "13: error: unknown field of Point: p");
  EXPECT_EQ(in_main("f32[]", "Point(1, 2).pz"), "13: error: unknown field of Point: pz; did you mean px?");
}

TEST(Message, OfSubscripts) {
  EXPECT_EQ(in_main("int", "n[0]"), "2: error: cannot index int");
  EXPECT_EQ(in_main("int", "(n, n)[0]"),
            "7: error: cannot index (int, int); take it apart with a pattern, as in let (a, b) = t");
  EXPECT_EQ(in_main("int", "xs[x]"), "4: error: an index: expected int, got f32[4]");
  EXPECT_EQ(in_main("int", "xs[0:1]"), "3: error: a list takes one index and no slices");
  EXPECT_EQ(in_main("f32[]", "x[0, 1]"),
            "6: error: too many subscripts: f32[] has no axis left for this one");
  EXPECT_EQ(in_main("f32[]", "x[4]"), "3: error: index 4 is outside of axis 0 of f32[4]");
  EXPECT_EQ(in_main("f32[]", "x[-5]"), "3: error: index -5 is outside of axis 0 of f32[4]");
  EXPECT_EQ(in_main("f32[]", "x[1:5]"), "3: error: slice 1:5 is empty or outside of axis 0 of f32[4]");
  EXPECT_EQ(in_main("f32[]", "x[2:2]"), "3: error: slice 2:2 is empty or outside of axis 0 of f32[4]");
  EXPECT_EQ(in_main("f32[]", "x[n:]"),
            "3: error: the end of a slice must be an int that is known while compiling");
  EXPECT_EQ(in_main("f32[]", "w[:, n]"),
            "6: error: an index of the run-time works on the first axis only; transpose the tensor first");
}

TEST(Message, OfBuiltins) {
  EXPECT_EQ(in_main("f32[4]", "relu(n)"),
            "6: error: argument 1 of relu: expected a tensor, got int; float(i) makes one of an int");
  EXPECT_EQ(in_main("f32[4]", "relu(x, x)"), "1: error: relu takes 1 argument(s), got 2");
  EXPECT_EQ(in_main("f32[4]", "pow(x, zeros(3))"),
            "1: error: cannot raise f32[4] to the power f32[3]: sizes 4 and 3 differ");
  EXPECT_EQ(in_main("f32[4]", "relu(x, axis=0)"), "14: error: relu has no argument named axis");
  EXPECT_EQ(in_main("f32[4]", "sum(x, dim=0)"), "12: error: sum has no argument named dim; it has axis");
  EXPECT_EQ(in_main("f32[4]", "sum(axis=0, x)"), "10: error: axis= must be the last argument of sum");
  EXPECT_EQ(in_main("f32[4]", "sum(axis=0)"), "1: error: sum takes 1 argument(s), got 0");
  EXPECT_EQ(in_main("f32[4]", "mean(x, 0, 1)"), "1: error: mean takes 1 to 2 argument(s), got 3");
  EXPECT_EQ(in_main("f32[4]", "sum(x, 1)"), "8: error: sum: axis 1 is out of range for a tensor with 1 axes");
  EXPECT_EQ(in_main("f32[4]", "sum(x, n)"), "8: error: an axis must be an int that is known while compiling");
  EXPECT_EQ(in_main("f32[4]", "softmax(1.0)"), "1: error: softmax needs a tensor with an axis, got f32[]");
  EXPECT_EQ(in_main("f32[4]", "max(x, x)"),
            "1: error: max(x, axis) reduces a tensor along an axis that is known while compiling; maximum(x, "
            "y) compares two");
  EXPECT_EQ(in_main("int", "min(xs, 1)"), "1: error: min takes two ints, or a tensor and an axis; got [int]");
  EXPECT_EQ(in_main("int", "min(n, x)"), "8: error: argument 2 of min: expected int, got f32[4]");
  EXPECT_EQ(in_main("f32[4]", "concat(x, w)"),
            "1: error: cannot concat f32[4] and f32[2,4] along axis 0: their other sizes differ");
  EXPECT_EQ(in_main("f32[4]", "concat(1.0, 2.0)"), "1: error: concat: axis 0 is out of range for f32[]");
  EXPECT_EQ(in_main("f32[4]", "concat()"), "1: error: concat takes 1 or more argument(s), got 0");
  EXPECT_EQ(in_main("f32[4]", "stack(x, w)"), "1: error: cannot stack f32[4] and f32[2,4]: they differ");
  EXPECT_EQ(in_main("f32[4]", "transpose(w, 0, 0)"),
            "1: error: transpose of f32[2,4] needs a permutation of its 2 axes, got [0,0]");
  EXPECT_EQ(in_main("f32[4]", "reshape(w, 3, 3)"),
            "1: error: cannot reshape f32[2,4] to f32[3,3]: 8 elements are not 9");
  EXPECT_EQ(in_main("f32[4]", "reshape(w, 0, -1)"),
            "1: error: cannot reshape f32[2,4]: 0 does not divide its 8 elements");
  EXPECT_EQ(in_main("f32[4]", "reshape(w, n)"),
            "12: error: an extent must be an int that is known while compiling");
  EXPECT_EQ(in_main("f32[4]", "broadcast_to(x, 3)"), "1: error: cannot broadcast f32[4] to f32[3]");
  EXPECT_EQ(in_main("f32[4]", "zeros(0)"), "1: error: a tensor needs extents of at least 1, got 0");
  EXPECT_EQ(in_main("f32[4]", "float(x)"), "7: error: argument 1 of float: expected int, got f32[4]");
}

TEST(Message, OfLists) {
  EXPECT_EQ(in_main("int", "len(x)"), "5: error: argument 1 of len: expected a list, got f32[4]");
  EXPECT_EQ(in_main("[int]", "[n, x]"), "5: error: the result of fn main: expected int, got f32[4]");
  EXPECT_EQ(in_main("int", "len([n, x])"), "9: error: the branches must agree: expected int, got f32[4]");
}

TEST(Message, OfListFunctions) {
  EXPECT_EQ(in_main("int", "len(cons(x, xs))"),
            "13: error: argument 2 of cons: expected [f32[4]], got [int]");
  EXPECT_EQ(in_main("int", "len(append(xs, [x]))"),
            "17: error: argument 2 of append: expected int, got f32[4]");
  EXPECT_EQ(in_main("int", "len(zip(xs))"), "5: error: zip takes 2 or more argument(s), got 1");
  EXPECT_EQ(in_main("[int]", "map(xs, n)"),
            "9: error: argument 2 of map: expected a function, |x| .. or the name of one");
  EXPECT_EQ(in_main("[int]", "map(zip(xs, xs), |a, b| a)"),
            "18: error: map calls its function with 1 argument(s), this one takes 2; a tuple is taken apart "
            "with |(a, b)|");
  EXPECT_EQ(in_main("int", "fold(xs, 0, |a| a)"),
            "13: error: fold calls its function with 2 argument(s), this one takes 1");
  EXPECT_EQ(in_main("f32[4]", "fold(xs, x, |h, i| i)"),
            "20: error: the function of fold must keep the type of its start: expected f32[4], got int");
  EXPECT_EQ(in_main("[f32[4]]", "map(xs, half)"), "9: error: argument 1 of half: expected f32[4], got int");
  EXPECT_EQ(in_main("int", "let a = concurrent(n); n"),
            "9: error: concurrent takes 2 or more argument(s), got 1");
}

TEST(Message, OfSizeLimits) {
  std::string lets = "let a0 = (n, n);\n";
  for (int k = 1; k < 12; ++k)
    lets += "let a" + std::to_string(k) + " = (a" + std::to_string(k - 1) + ", a" + std::to_string(k - 1) +
            ");\n";
  EXPECT_NE(in_main("int", lets + "n").find("a tuple of 2048 values is too large: at most 1024"),
            std::string::npos);
  // A wildcard arm is checked once for each constructor it covers; nested ones multiply.
  std::string match = "n";
  for (int k = 0; k < 10; ++k) match = "match t { A => n, _ => " + match + " + " + match + " }";
  EXPECT_NE(message("type T { A, B, C, D, E } fn main(t: T, n: int) -> int { " + match + " }")
                .find("fn main is too large: more than 200000 operations"),
            std::string::npos);
}

}  // namespace
}  // namespace rondo::lang
