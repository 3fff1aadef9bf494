#include "io_support.h"

namespace rondo {
namespace {

using test::error_of;

// type Option[T] for int and bool; main(o: Option[int], xs: [int], p: (int, f32[2])) -> int
std::shared_ptr<const Signature> mixed_signature() {
  TypeTable types;
  const TypeId integer = types.integer(), boolean = types.boolean();
  types.adts.push_back({"Option[int]", {{"None", {}, {}}, {"Some", {integer}, {""}}}});
  types.adts.push_back({"Option[bool]", {{"None", {}, {}}, {"Some", {boolean}, {""}}}});
  const TypeId option = types.intern({TypeKind::Adt, {}, {}, 0});
  types.intern({TypeKind::Adt, {}, {}, 1});
  const TypeId pair = types.tuple({integer, types.tensor({2})});
  types.list(types.list(integer));
  return std::make_shared<Signature>(types, std::vector<TypeId>{option, types.list(integer), pair}, integer);
}

TEST(Values, TreeHasTheWordsOfTypesH) {
  Batch batch(test::tree_signature());
  const ConstructorId leaf = batch.constructor("Leaf"), node = batch.constructor("Node");
  EXPECT_EQ(batch.add({batch.make(node, {batch.make(leaf, {Value::integer(3)}), batch.make(leaf, {Value::integer(-5)})})}),
            0u);
  const auto* root = reinterpret_cast<const uint64_t*>(*batch.arguments(0));
  EXPECT_EQ(root[0], 1u);
  const auto* left = reinterpret_cast<const uint64_t*>(root[1]);
  const auto* right = reinterpret_cast<const uint64_t*>(root[2]);
  EXPECT_EQ(left[0], 0u);
  EXPECT_EQ(left[1], 3u);
  EXPECT_EQ(static_cast<int64_t>(right[1]), -5);
}

TEST(Values, ListsTuplesAndTensorsAreFlattened) {
  Batch batch(mixed_signature());
  const float numbers[] = {1, 2};
  const Value xs = batch.list({Value::integer(7), Value::integer(8)});
  const Value pair = batch.tuple({Value::integer(9), batch.tensor(std::vector<int64_t>{2}, numbers)});
  batch.add({batch.make(batch.constructor("Option[int].Some"), {Value::integer(1)}), xs, pair});
  const uint64_t* words = batch.arguments(0);
  EXPECT_EQ(reinterpret_cast<const uint64_t*>(words[1])[1], 8u);
  EXPECT_EQ(words[2], 2u);
  EXPECT_EQ(words[3], 9u);
  EXPECT_EQ(words[4], 1u);  // bucket 1, slot 0
  EXPECT_EQ(batch.tensors(2).size(), 2u);
  EXPECT_EQ(batch.tensors(2)[1], 2.0f);
  batch.add({batch.make(batch.constructor("Option[int].None"), {}), batch.list({}),
             batch.tuple({Value::integer(0), batch.tensor(std::vector<int64_t>{2}, numbers)})});
  EXPECT_EQ(batch.arguments(1)[2], 0u);
  EXPECT_EQ(batch.arguments(1)[4], uint64_t{1} << 32 | 1);
}

TEST(Values, ListOfEmptyListsNeedsNoType) {
  Batch batch(mixed_signature());
  EXPECT_EQ(batch.show(batch.list({batch.list({}), batch.list({Value::integer(1)})})), "[[int]]");
}

TEST(Values, WrongFieldsShowBothTypes) {
  Batch batch(test::tree_signature());
  const ConstructorId node = batch.constructor("Node");
  EXPECT_EQ(error_of([&] { batch.make(node, {Value::integer(1), Value()}); }),
            "usage: cannot make Tree.Node from (int, nothing): it takes (left: Tree, right: Tree)");
  EXPECT_EQ(error_of([&] { batch.make(batch.constructor("Leaf"), {}); }),
            "usage: cannot make Tree.Leaf from (): it takes (word: int)");
}

TEST(Values, WrongArgumentsShowBothTypes) {
  Batch batch(mixed_signature());
  EXPECT_EQ(error_of([&] { batch.add({Value::integer(1)}); }),
            "usage: cannot add instance 0 with arguments (int): main takes (Option[int], [int], (int, f32[2]))");
}

TEST(Values, NamesThatAreNotThereAreToldWhatIs) {
  const auto signature = mixed_signature();
  EXPECT_EQ(error_of([&] { test::tree_signature()->constructor("Loaf"); }),
            "usage: the model has no constructor Loaf; it has Leaf, Node");
  EXPECT_EQ(error_of([&] { signature->constructor("Some"); }),
            "usage: constructor Some is of several types; say which: Option[int].Some, Option[bool].Some");
  EXPECT_EQ(error_of([&] { test::tree_signature()->type("Treu"); }), "usage: the model has no type Treu; it has int, Tree");
  EXPECT_EQ(error_of([&] { (*signature)[ConstructorId{}]; }),
            "usage: not a constructor of this model; get one from constructor(name)");
  const TypeId option = signature->type("Option[int]");
  EXPECT_EQ(error_of([&] { (*signature)[(ConstructorId{option, 2})]; }),
            "usage: constructor number 2 of Option[int], which has 2");
}

TEST(Values, ListsThatTheModelDoesNotHaveAreRefused) {
  Batch batch(test::tree_signature());
  EXPECT_EQ(error_of([&] { batch.list({Value::integer(1)}); }), "usage: the model has no lists of int");
  Batch mixed(mixed_signature());
  const TypeId ints = mixed.signature().type("[int]");
  EXPECT_EQ(error_of([&] { mixed.list(ints, {Value::integer(1), Value::boolean(true)}); }),
            "usage: item 1 of a list is bool; [int] takes int");
  EXPECT_EQ(error_of([&] { mixed.list(mixed.signature().type("int"), {}); }),
            "usage: int is not a list type of this model; get one from type(\"..\")");
  EXPECT_EQ(error_of([&] { mixed.tuple({Value::integer(1)}); }), "usage: the model has no tuples (int)");
  EXPECT_EQ(error_of([&] { mixed.tuple(mixed.signature().type("(int, f32[2])"), {Value::integer(1)}); }),
            "usage: cannot make a tuple (int, f32[2]) from (int)");
}

TEST(Values, TensorsOfOtherShapesAreRefused) {
  Batch batch(mixed_signature());
  const float numbers[] = {1, 2, 3};
  EXPECT_EQ(error_of([&] { batch.tensor(std::vector<int64_t>{3}, numbers); }),
            "usage: the model has no tensors of type f32[3]");
  EXPECT_EQ(error_of([&] { batch.tensor(std::vector<int64_t>{2}, numbers); }),
            "usage: 3 numbers for a tensor f32[2], which has 2");
  EXPECT_EQ(error_of([&] { batch.scalar(1); }), "usage: the model has no tensors of type f32[]");
}

TEST(Values, ValuesOfAnotherBatchOrOfBeforeClearAreRefused) {
  const auto signature = test::tree_signature();
  Batch one(signature), two(signature);
  const Value leaf = one.make(one.constructor("Leaf"), {Value::integer(3)});
  EXPECT_EQ(error_of([&] { two.add({leaf}); }),
            "usage: cannot add instance 0 with arguments (a value of another batch, or of before clear()): main takes (Tree)");
  one.clear();
  EXPECT_NE(error_of([&] { one.add({leaf}); }), "");
  EXPECT_EQ(one.size(), 0u);
}

TEST(Values, ArenaKeepsAddressesAndReusesItsMemory) {
  Arena arena;
  uint64_t* first = arena.words(10);
  first[0] = 42;
  for (int i = 0; i < 1000; ++i) arena.words(1000);
  EXPECT_EQ(first[0], 42u);
  const size_t bytes = arena.bytes();
  arena.reset();
  EXPECT_EQ(arena.words(10), first);
  for (int i = 0; i < 1000; ++i) arena.words(1000);
  EXPECT_EQ(arena.bytes(), bytes);
  EXPECT_NE(arena.words(size_t{5} << 20), nullptr);  // larger than any chunk
}

TEST(Outputs, DefaultConstructedHasNothing) {
  Outputs none;
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(error_of([&] { none[0]; }), "usage: output 0 of a run of 0 instances");
  EXPECT_EQ(error_of([&] { none.signature(); }), "usage: these outputs are of no run");
}

}  // namespace
}  // namespace rondo
