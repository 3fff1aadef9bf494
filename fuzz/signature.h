// Types that the fuzz targets of io/ read values of: every kind of type, nested.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "rondo/error.h"
#include "rondo/value.h"

namespace rondo::fuzz {

// type Tree { Leaf(word: int), Node(label: int, left: Tree, right: Tree), Many([Tree]), Nothing }
inline TypeId add_tree(TypeTable* types) {
  Type self;
  self.kind = TypeKind::Adt;
  self.adt = static_cast<int32_t>(types->adts.size());
  types->adts.push_back({"Tree", {}});
  const TypeId tree = types->intern(self);
  types->adts[static_cast<size_t>(self.adt)].constructors = {
      {"Leaf", {types->integer()}, {"word"}},
      {"Node", {types->integer(), tree, tree}, {"label", "left", "right"}},
      {"Many", {types->list(tree)}, {""}},
      {"Nothing", {}, {}}};
  return tree;
}

// main(t: Tree, xs: [(int, bool)], m: f32[2,2]) or main(t: Tree).
inline std::shared_ptr<const Signature> signature(bool tree_only) {
  TypeTable types;
  const TypeId tree = add_tree(&types);
  std::vector<TypeId> params = {tree};
  if (!tree_only) {
    params.push_back(types.list(types.tuple({types.integer(), types.boolean()})));
    params.push_back(types.tensor({2, 2}));
  }
  const TypeId result = types.tensor({});
  return std::make_shared<const Signature>(types, params, result);
}

// Bad input may be refused as the caller's mistake, and in no other way.
template <class F>
void refuses_or_takes(F&& read) {
  try {
    read();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::Usage && e.what()[0] != '\0') return;
    std::fprintf(stderr, "%s error: %s\n", name(e.kind()), e.what());
    std::abort();
  }
}

}  // namespace rondo::fuzz
