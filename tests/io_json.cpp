#include "io_echo.h"
#include "io_support.h"
#include "rondo/io/instances.h"
#include "rondo/io/write_outputs.h"

namespace rondo {
namespace {

using test::error_of;

// The line of JSON that is written for the line that is read, for main(x: T) -> T.
std::string round_trip(std::shared_ptr<const Signature> signature, const std::string& line, int64_t tensor_size = 0) {
  Batch batch(signature);
  io::add_json_instance(line, "in:1", &batch);
  std::string text;
  io::append_json(test::echo(batch, signature, tensor_size)[0], &text);
  return text;
}

std::shared_ptr<const Signature> of(const std::function<TypeId(TypeTable*)>& make) {
  TypeTable types;
  const TypeId type = make(&types);
  return std::make_shared<Signature>(types, std::vector<TypeId>{type}, type);
}

TEST(Json, TreesInAllSpellings) {
  const auto tree = test::tree_signature();
  const std::string want = R"({"Node":[{"Leaf":[3]},{"Leaf":[5]}]})";
  EXPECT_EQ(round_trip(tree, want), want);
  EXPECT_EQ(round_trip(tree, R"( {"Node": {"left": {"Leaf": 3}, "right": {"Leaf": {"word": 5}}}} )"), want);
}

TEST(Json, NumbersTuplesListsAndBools) {
  const auto type = of([](TypeTable* t) {
    return t->tuple({t->integer(), t->list(t->list(t->boolean())), t->tuple({})});
  });
  EXPECT_EQ(round_trip(type, "[-9223372036854775808, [[true], [], [false, true]], []]"),
            "[-9223372036854775808,[[true],[],[false,true]],[]]");
}

TEST(Json, TensorsNestByAxis) {
  const auto matrix = of([](TypeTable* t) { return t->tensor({2, 1, 3}); });
  EXPECT_EQ(round_trip(matrix, "[[[1, 2.5, -3e-2]], [[\"nan\", \"inf\", \"-inf\"]]]", 6),
            "[[[1,2.5,-0.03]],[[\"nan\",\"inf\",\"-inf\"]]]");
  const auto scalar = of([](TypeTable* t) { return t->tensor({}); });
  EXPECT_EQ(round_trip(scalar, "0.1", 1), "0.1");
}

TEST(Json, NullaryConstructorsAreStrings) {
  const auto option = of([](TypeTable* t) {
    t->adts.push_back({"Option", {{"None", {}, {}}, {"Some", {t->integer()}, {""}}}});
    return t->intern({TypeKind::Adt, {}, {}, 0});
  });
  EXPECT_EQ(round_trip(option, "\"None\""), "\"None\"");
  EXPECT_EQ(round_trip(option, R"({"None": []})"), "\"None\"");
  EXPECT_EQ(round_trip(option, R"({"Some": 4})"), R"({"Some":[4]})");
  EXPECT_EQ(error_of([&] { round_trip(option, "\"Some\""); }),
            "usage: in:1: $: expected {\"Some\": [1 fields]}, got \"Some\"");
}

TEST(Json, SeveralArgumentsAreAnArray) {
  TypeTable types;
  const TypeId integer = types.integer();
  Batch batch(std::make_shared<Signature>(types, std::vector<TypeId>{integer, integer}, integer));
  io::add_json_instance("[1, 2]", "in:1", &batch);
  EXPECT_EQ(batch.arguments(0)[1], 2u);
  EXPECT_EQ(error_of([&] { io::add_json_instance("[1]", "in:2", &batch); }),
            "usage: in:2: $: expected an array of the 2 arguments of main, got an array of 1");
}

TEST(Json, ErrorsShowPathWantedAndFound) {
  const auto tree = test::tree_signature();
  const auto error = [&](const std::string& line) { return error_of([&] { round_trip(tree, line); }); };
  EXPECT_EQ(error(R"({"Node": [{"Leaf": [1]}, {"Node": [{"Leaf": ["x"]}, {"Leaf": [2]}]}]})"),
            "usage: in:1: $.Node[1].Node[0].Leaf[0]: expected int, got \"x\"");
  EXPECT_EQ(error(R"({"Node": {"left": {"Leaf": 1}, "right": 7}})"),
            "usage: in:1: $.Node.right: expected {\"Leaf\": ..} or {\"Node\": ..} for Tree, got 7");
  EXPECT_EQ(error(R"({"Node": [{"Leaf": 1}]})"),
            "usage: in:1: $: expected the 2 fields of Node (left: Tree, right: Tree), got an array of 1");
  EXPECT_EQ(error(R"({"Leaf": 1.5})"), "usage: in:1: $.Leaf: expected int, got 1.5");
  EXPECT_EQ(error(R"({"Leaf": 9223372036854775808})"), "usage: in:1: $.Leaf: expected int, got 9223372036854775808");
  EXPECT_EQ(error(R"({"Leaf": 1, "Node": 2})").substr(0, 25), "usage: in:1: $: expected ");
  EXPECT_EQ(error("{").substr(0, 22), "usage: in:1:2: not JSO");
  const auto matrix = of([](TypeTable* t) { return t->tensor({2, 2}); });
  EXPECT_EQ(error_of([&] { round_trip(matrix, "[[1, 2], [3]]", 4); }),
            "usage: in:1: $: expected arrays of 2 along axis 1 of f32[2,2], got an array of 1");
  EXPECT_EQ(error_of([&] { round_trip(matrix, "[[1, 2], [3, null]]", 4); }),
            "usage: in:1: $: expected a number for f32[2,2], got null");
  const auto list = of([](TypeTable* t) { return t->list(t->boolean()); });
  EXPECT_EQ(error_of([&] { round_trip(list, "[true, 1]"); }), "usage: in:1: $[1]: expected true or false, got 1");
  EXPECT_EQ(error_of([&] { round_trip(list, "{}"); }), "usage: in:1: $: expected an array for [bool], got {}");
}

TEST(Json, VeryDeepTreesAreReadAndWritten) {
  constexpr int kDepth = 20000;
  std::string line;
  for (int i = 0; i < kDepth; ++i) line += R"({"Node":[{"Leaf":[1]},)";
  line += R"({"Leaf":[2]})";
  std::string bad = line;
  for (int i = 0; i < kDepth; ++i) line += "]}";
  EXPECT_EQ(round_trip(test::tree_signature(), line), line);
  bad.replace(bad.size() - 4, 1, "x");
  for (int i = 0; i < kDepth; ++i) bad += "]}";
  EXPECT_NE(error_of([&] { round_trip(test::tree_signature(), bad); }), "");
}

TEST(Json, DeepPathsAreShownByBothEnds) {
  std::string line;
  for (int i = 0; i < 100; ++i) line += R"({"Node":[{"Leaf":[1]},)";
  line += R"({"Leaf":["x"]})";
  for (int i = 0; i < 100; ++i) line += "]}";
  const std::string error = error_of([&] { round_trip(test::tree_signature(), line); });
  EXPECT_NE(error.find(".. 85 more .."), std::string::npos) << error;
  EXPECT_LT(error.size(), 300u);
}

TEST(Json, LinesAreReadPieceByPiece) {
  const test::TempFile file(".jsonl", "{\"Leaf\":1}\n\n{\"Leaf\":2}\r\n{\"Leaf\":3}\n{\"Leaf\":true}");
  const auto source = io::open_json_lines(file.path());
  Batch batch(test::tree_signature());
  EXPECT_EQ(source->read(&batch, 2), 2u);
  EXPECT_EQ(source->read(&batch, 1), 1u);
  EXPECT_EQ(error_of([&] { source->read(&batch, 9); }),
            "usage: " + file.path() + ":5: $.Leaf: expected int, got true");
  EXPECT_EQ(source->read(&batch, 9), 0u);
  EXPECT_EQ(batch.size(), 3u);
  EXPECT_EQ(error_of([] { io::open_json_lines("/no/such.jsonl"); }),
            "usage: cannot read /no/such.jsonl: No such file or directory");
}

TEST(JsonLines, ANulByteIsNotTheEndOfALine) {
  Batch batch(test::tree_signature());
  const std::string line("{\"Leaf\": 3}\0 garbage", 21);
  EXPECT_EQ(error_of([&] { io::add_json_instance(line, "in:1", &batch); }), "usage: in:1:12: not JSON: a NUL byte");
  EXPECT_EQ(batch.size(), 0u);
}

TEST(Outputs, ViewsAnswerOnlyWhatTheyAre) {
  const auto tree = test::tree_signature();
  Batch batch(tree);
  io::add_json_instance(R"({"Node": [{"Leaf": 3}, {"Leaf": 5}]})", "in:1", &batch);
  const Outputs outputs = test::echo(batch, tree);
  const OutputView root = outputs[0];
  EXPECT_EQ(root.tag(), 1);
  EXPECT_EQ(root.size(), 2u);
  EXPECT_EQ(root[1][0].integer(), 5);
  EXPECT_EQ(root[0].constructor().name, "Leaf");
  EXPECT_EQ(error_of([&] { root.integer(); }), "usage: integer() of an output of type Tree");
  EXPECT_EQ(error_of([&] { root[0][0].boolean(); }), "usage: boolean() of an output of type int");
  EXPECT_EQ(error_of([&] { root.tensor(); }), "usage: tensor() of an output of type Tree");
  EXPECT_EQ(error_of([&] { root.dims(); }), "usage: dims() of an output of type Tree");
  EXPECT_EQ(error_of([&] { root[0][0].tag(); }), "usage: tag() of an output of type int");
  EXPECT_EQ(error_of([&] { root[0][0].size(); }), "usage: size() of an output of type int");
  EXPECT_EQ(error_of([&] { root[2]; }), "usage: element 2 of an output of type Tree with 2");
}

}  // namespace
}  // namespace rondo
