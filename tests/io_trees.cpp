#include "io_echo.h"
#include "io_support.h"
#include "rondo/io/instances.h"
#include "rondo/io/write_outputs.h"

namespace rondo {
namespace {

using io::Vocabulary;
using test::error_of;

std::shared_ptr<const Signature> signature_of(std::vector<Constructor> (*make)(TypeTable*, TypeId tree)) {
  TypeTable types;
  types.adts.push_back({"Tree", {}});
  const TypeId tree = types.intern({TypeKind::Adt, {}, {}, 0});
  types.adts[0].constructors = make(&types, tree);
  return std::make_shared<Signature>(types, std::vector<TypeId>{tree}, tree);
}

// type Tree { Leaf(label: int, word: int), Node(label: int, children: [Tree]) }
std::shared_ptr<const Signature> labelled() {
  return signature_of([](TypeTable* t, TypeId tree) {
    const TypeId integer = t->integer();
    return std::vector<Constructor>{{"Leaf", {integer, integer}, {"label", "word"}},
                                    {"Node", {integer, t->list(tree)}, {"label", "children"}}};
  });
}

std::string read(const std::string& text, std::shared_ptr<const Signature> signature,
                 Vocabulary vocabulary = Vocabulary::numbers()) {
  Batch batch(signature);
  const auto source = io::trees_of(text, "t.txt", std::move(vocabulary), *signature);
  while (source->read(&batch, 1)) {
  }
  std::string out;
  if (batch.size()) io::append_json_lines(test::echo(batch, signature), &out);
  return out;
}

TEST(Trees, BinaryTreesOverSeveralLines) {
  EXPECT_EQ(read("(3 (2 7) (4 (2 8)\n  (1 9)))\n\n(0 5)", test::tree_signature()),
            "{\"Node\":[{\"Leaf\":[7]},{\"Node\":[{\"Leaf\":[8]},{\"Leaf\":[9]}]}]}\n{\"Leaf\":[5]}\n");
  EXPECT_EQ(read("", test::tree_signature()), "");
}

TEST(Trees, LabelsAndAnyNumberOfChildren) {
  EXPECT_EQ(read("(3 (2 7) (1 8) (0 (4 9)))", labelled()),
            "{\"Node\":[3,[{\"Leaf\":[2,7]},{\"Leaf\":[1,8]},{\"Node\":[0,[{\"Leaf\":[4,9]}]]}]]}\n");
}

TEST(Trees, SingleChildrenAreReadThroughWhereTheTypeHasNoRoom) {
  EXPECT_EQ(read("( (S (NP (N 1)) (VP 2)) )", test::tree_signature()), "{\"Node\":[{\"Leaf\":[1]},{\"Leaf\":[2]}]}\n");
}

TEST(Trees, WordsComeFromAFileOrAHash) {
  const test::TempFile vocabulary(".txt", "<unk>\nthe\r\nfilm\n");
  EXPECT_EQ(read("(2 (1 the) (1 movie))", test::tree_signature(), Vocabulary::file(vocabulary.path())),
            "{\"Node\":[{\"Leaf\":[1]},{\"Leaf\":[0]}]}\n");
  const test::TempFile marked(".txt", "\xef\xbb\xbf<unk>\nthe\n");
  EXPECT_EQ(read("(1 the)", test::tree_signature(), Vocabulary::file(marked.path())), "{\"Leaf\":[1]}\n");
  EXPECT_EQ(read("(1 film)", test::tree_signature(), Vocabulary::file(marked.path())), "{\"Leaf\":[0]}\n");
  const test::TempFile closed(".txt", "the\nfilm");
  EXPECT_EQ(error_of([&] { read("(2 (1 the)\n  (1 movie))", test::tree_signature(), Vocabulary::file(closed.path())); }),
            "usage: t.txt:2:3: word 'movie' is not in " + closed.path() + ", which has no <unk> either");
  EXPECT_EQ(Vocabulary::hash(1000).find(""), 14695981039346656037u % 1000);
  EXPECT_EQ(Vocabulary::hash(1000).find("a"), (14695981039346656037u ^ 'a') * 1099511628211u % 1000);
  EXPECT_EQ(error_of([] { Vocabulary::hash(0); }), "usage: words hashed modulo 0; expected a number from 1");
  const test::TempFile twice(".txt", "the\nthe\n");
  EXPECT_EQ(error_of([&] { Vocabulary::file(twice.path()); }),
            "usage: " + twice.path() + ":2: word 'the' is there twice");
  const test::TempFile none(".txt");
  EXPECT_NE(error_of([&] { Vocabulary::file(none.path()); }), "");
}

TEST(Trees, SequencesGetTheWordsInOrder) {
  TypeTable types;
  const TypeId ints = types.list(types.integer());
  const auto signature = std::make_shared<Signature>(types, std::vector<TypeId>{ints}, ints);
  EXPECT_EQ(read("(3 (2 7) (4 (2 8) (1 9)))", signature), "[7,8,9]\n");
}

TEST(Trees, ErrorsShowLineAndColumn) {
  const auto error = [](const std::string& text) { return error_of([&] { read(text, test::tree_signature()); }); };
  EXPECT_EQ(error("(1 2)\nx"), "usage: t.txt:2:1: expected ( to begin a tree, got 'x'");
  EXPECT_EQ(error("(1 (2 3)"), "usage: t.txt:1:1: this bracket is never closed");
  EXPECT_EQ(error("("), "usage: t.txt:1:1: this bracket is never closed");
  EXPECT_EQ(error("()"), "usage: t.txt:1:1: an empty node");
  EXPECT_EQ(error("(1 2 (3 4))"), "usage: t.txt:1:6: a node has one word or subtrees, not both");
  EXPECT_EQ(error("(1 2 3)"), "usage: t.txt:1:6: a node has one word or subtrees, not both; got '3'");
  EXPECT_EQ(error("(1 (2 3) 4)"), "usage: t.txt:1:10: a node has one word or subtrees, not both; got '4'");
  EXPECT_EQ(error("(1 film)"), "usage: t.txt:1:1: word 'film' is not a number; give a vocabulary (--vocab FILE), or hash words (--hash-words N)");
  EXPECT_EQ(error("(1 (1 1) (1 2) (1 3))"),
            "usage: t.txt:1:1: a node of 3 children; of type Tree, Node has 2. Make the trees binary, or give the type a "
            "constructor with a list of subtrees");
  EXPECT_EQ(error_of([] { read("(NP 3)", labelled()); }),
            "usage: t.txt:1:1: label 'NP' is not a number, which the field `label` of Leaf takes");
}

TEST(Trees, TypesThatCannotHoldTreesAreRefused) {
  const auto option = signature_of([](TypeTable* t, TypeId) {
    return std::vector<Constructor>{{"None", {}, {}}, {"Some", {t->integer()}, {""}}};
  });
  EXPECT_EQ(error_of([&] { read("(1 2)", option); }),
            "usage: type Tree cannot hold bracketed trees: it needs a constructor with one int (the word) and one with "
            "subtrees or a list of them; or use [int], the words in order");
  TypeTable types;
  const TypeId integer = types.integer();
  const auto two = std::make_shared<Signature>(types, std::vector<TypeId>{integer, integer}, integer);
  EXPECT_EQ(error_of([&] { read("(1 2)", two); }), "usage: bracketed trees need a main of one parameter; it has 2");
}

TEST(Trees, VeryDeepTreesAreRead) {
  constexpr int kDepth = 50000;
  std::string text;
  for (int i = 0; i < kDepth; ++i) text += "(1 (2 7) ";
  text += "(3 8)";
  text.append(kDepth, ')');
  const std::string out = read(text, test::tree_signature());
  EXPECT_EQ(out.substr(0, 30), R"({"Node":[{"Leaf":[7]},{"Node":)");
  EXPECT_NE(error_of([&] { read(text.substr(0, text.size() - 1), test::tree_signature()); }), "");
}

}  // namespace
}  // namespace rondo
