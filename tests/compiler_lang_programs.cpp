// The golden programs and the models: they are accepted,
// their text is stable, and no mutation of them crashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "rondo/error.h"
#include "rondo/lang/lang.h"

namespace rondo::lang {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<std::string> sources() {
  std::vector<std::filesystem::path> paths;
  for (const char* folder : {"tests/golden", "examples/models"})
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(RONDO_SOURCE_DIR) / folder))
      if (entry.path().extension() == ".rondo") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) texts.push_back(read(path));
  return texts;
}

std::string model(const std::string& name) {
  return read(std::filesystem::path(RONDO_SOURCE_DIR) / "examples/models" / (name + ".rondo"));
}

std::string printed(const std::string& text) { return ir::print(parse_program(text, "t.rondo")); }

TEST(Programs, AConstMayBeOverridden) {
  const std::string text = model("treelstm");
  EXPECT_NE(printed(text).find("weight w13: f32[256,256]"), std::string::npos);
  const ir::Program small = parse_program(text, "t.rondo", {{"H", 8}, {"V", 10}});
  EXPECT_NE(ir::print(small).find("weight embed: f32[10,8]"), std::string::npos);
}

TEST(Programs, AnOverrideReachesConstsMadeFromIt) {
  const std::string text =
      "const H = 2; const G = 4 * H; const S = 1.5; fn main() -> (f32[G], f32[]) { (ones(G), S) }";
  const std::string small = ir::print(parse_program(text, "t", {{"H", 3}, {"S", 2}}));
  EXPECT_NE(small.find("fill 1 : f32[12]"), std::string::npos);
  EXPECT_NE(small.find("fill 2 : f32[]"), std::string::npos) << "a float const stays one";
}

TEST(Programs, EveryModelIsAccepted) {
  for (const char* name : {"treelstm", "birnn", "bilstm", "mvrnn"})
    EXPECT_NO_THROW(printed(model(name))) << name;
}

TEST(Programs, PrintingIsStable) {
  for (const std::string& text : sources()) {
    try {
      EXPECT_EQ(printed(text), printed(text));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Source);
    }
  }
}

TEST(Programs, RegionsArePrintedIndented) {
  EXPECT_EQ(printed("type T { A(x: int), B } fn main(t: T) -> int { match t { A(x) => if x < 1 { x } else { "
                    "2 }, B => 3 } }"),
            "type T { A(x: int), B }\n"
            "fn main(%0: T) -> int {\n"
            "  %7 = match %0 : int {\n"
            "    A(%1: int) => {\n"
            "      %2 = int 1 : int\n"
            "      %3 = ilt %1, %2 : bool\n"
            "      %5 = if %3 : int {\n"
            "        then => {\n"
            "          yield %1\n"
            "        }\n"
            "        else => {\n"
            "          %4 = int 2 : int\n"
            "          yield %4\n"
            "        }\n"
            "      }\n"
            "      yield %5\n"
            "    }\n"
            "    B => {\n"
            "      %6 = int 3 : int\n"
            "      yield %6\n"
            "    }\n"
            "  }\n"
            "  yield %7\n"
            "}\n");
}

// A generic function is one function a set of parameters, whoever calls it.
TEST(Programs, AGenericFunctionIsSharedByEqualUses) {
  const ir::Program p = parse_program(
      "fn id[T](x: T) -> T { x } fn main(a: int, b: int, c: f32[2]) -> (int, int, f32[2]) { (id(a), id(b), "
      "id(c)) }",
      "t");
  ASSERT_EQ(p.functions.size(), 3u);
  EXPECT_EQ(p.functions[1].name, "id_int");
  EXPECT_EQ(p.functions[2].name, "id_f32_2");
}

TEST(Programs, AGenericNameThatIsTakenGetsANumber) {
  const ir::Program p = parse_program(
      "fn id_int(x: int) -> int { x } fn id[T](x: T) -> T { x } fn main(a: int) -> int { id(id_int(a)) }",
      "t");
  EXPECT_EQ(p.functions.back().name, "id_int_2");
}

TEST(Programs, ExpectedTypesReachEmptyListsAndNone) {
  const std::string head =
      "type Option[T] { None, Some(T) } type Pair[A, B] { Pair(A, B) } fn keep[T](x: Option[T], y: T) -> T { "
      "y } ";
  for (const char* body : {
           "fn main(n: int) -> [int] { [] }",
           "fn main(n: int) -> Option[int] { if n > 0 { None } else { Some(n) } }",
           "fn main(n: int) -> int { let a = if n > 0 { None } else { Some(n) }; n }",
           "fn main(n: int) -> int { keep(None, n) }",
           "fn main(n: int) -> int { len(cons([], [[n]])) }",
           "fn main(n: int) -> int { len(append([], [n])) }",
           "fn main(n: int) -> int { len([[], [n]]) }",
           "fn main(n: int) -> Pair[Option[int], [f32[2]]] { Pair(None, []) }",
           "fn main(xs: [int]) -> [int] { fold(xs, [], |acc, x| cons(x, acc)) }",
           "fn main(xs: [int]) -> [Option[int]] { map(xs, |x| if x > 0 { Some(x) } else { None }) }",
           "fn main(xs: [int]) -> [Option[int]] { map(xs, Some) }",
           "fn main(n: int) -> (f32[], [int]) { (1, []) }",
       })
    EXPECT_NO_THROW(printed(head + body)) << body;
}

// Both parameters stand in one field: an argument is still
// walked over once a level, not once a parameter and level.
TEST(Programs, NestedGenericConstructorsTakeNoExponentialTime) {
  std::string value = "P((n, n))";
  for (int k = 0; k < 60; ++k) value = "P((n, " + value + "))";
  const std::string text =
      "type P[A, B] { P((A, B)) } fn f[T](x: T) -> int { 1 } fn main(n: int) -> int { f(" + value + ") }";
  EXPECT_NO_THROW(printed(text));
}

// Seeded; a failure names the seed and shows the program.
TEST(Programs, NoMutationCrashes) {
  constexpr uint32_t kSeed = 20261129;
  constexpr int kMutations = 4000;
  const std::vector<std::string> texts = sources();
  ASSERT_FALSE(texts.empty());
  std::vector<std::string> words;  // pieces of the language to put in
  for (const char* word : {"(",
                           ")",
                           "{",
                           "}",
                           "[",
                           "]",
                           ",",
                           "|",
                           "..",
                           "->",
                           "=>",
                           "=",
                           ";",
                           "f32[",
                           "match ",
                           "let ",
                           "if ",
                           "fn ",
                           "None",
                           "0",
                           "-1",
                           "1.5",
                           "9223372036854775807",
                           " @ ",
                           "zeros(",
                           "x",
                           "H"})
    words.push_back(word);
  std::mt19937 random(kSeed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int accepted = 0;
  for (int k = 0; k < kMutations; ++k) {
    std::string text = texts[below(texts.size())];
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(text.size() + 1), length = below(std::min<size_t>(text.size() - at, 12) + 1);
      switch (below(4)) {
        case 0: text.erase(at, length); break;
        case 1: text.insert(at, words[below(words.size())]); break;
        case 2: text.insert(at, text.substr(below(text.size() + 1), 20)); break;
        default:
          if (at < text.size()) text[at] = static_cast<char>(random());
      }
    }
    try {
      printed(text);
      ++accepted;
    } catch (const Error& e) {
      ASSERT_EQ(e.kind(), ErrorKind::Source)
          << "seed " << kSeed << ", mutation " << k << ": " << e.what() << "\n"
          << text;
      ASSERT_EQ(std::string(e.what()).rfind("t.rondo:", 0), 0u) << e.what();
    }
  }
  EXPECT_GT(accepted, kMutations / 50) << "mutations that all fail in the lexer test little";
}

}  // namespace
}  // namespace rondo::lang
