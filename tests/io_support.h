// For tests of io and batch: signatures by hand, messages of errors, files that go away.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "rondo/error.h"
#include "rondo/value.h"

namespace rondo::test {

// type Tree { Leaf(word: int), Node(left: Tree, right: Tree) };  main(t: Tree) -> Tree
inline std::shared_ptr<const Signature> tree_signature() {
  TypeTable types;
  const TypeId integer = types.integer();
  types.adts.push_back({"Tree", {}});
  const TypeId tree = types.intern({TypeKind::Adt, {}, {}, 0});
  types.adts[0].constructors = {{"Leaf", {integer}, {"word"}}, {"Node", {tree, tree}, {"left", "right"}}};
  return std::make_shared<Signature>(types, std::vector<TypeId>{tree}, tree);
}

// What f throws: "kind: message"; "" when it throws nothing.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(name(e.kind())) + ": " + e.what();
  }
  return "";
}

class TempFile {
 public:
  explicit TempFile(const std::string& suffix, const std::string& content = "") {
    static int number = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("rondo_test_" + std::to_string(getpid()) + "_" + std::to_string(number++) + suffix)).string();
    if (!content.empty()) std::ofstream(path_, std::ios::binary) << content;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  std::string read() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::string path_;
};

}  // namespace rondo::test
