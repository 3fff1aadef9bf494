// From program text to the text of an analysis.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "rondo/analysis/facts.h"
#include "rondo/analysis/reuse.h"
#include "rondo/lang/lang.h"
#include "rondo/plan/specialise.h"

namespace rondo::testing {

inline std::string reuse_text(const std::string& text) {
  const ir::Program program = lang::parse_program(text, "t.rondo");
  return analysis::print(analysis::find_reuse(program), program);
}
inline ir::Program specialised(const std::string& text) {
  const ir::Program program = lang::parse_program(text, "t.rondo");
  return plan::specialise(program, analysis::find_reuse(program));
}
inline std::string facts_text(const std::string& text) {
  const ir::Program program = specialised(text);
  return analysis::print(analysis::find_facts(program), program);
}

inline ::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in\n" << text;
}
inline ::testing::AssertionResult lacks(const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "there is \"" << part << "\" in\n" << text;
}
inline size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Pieces that many programs share.
inline const char* const kTree =
    "type Tree { Leaf(word: int), Node(left: Tree, right: Tree) }\n"
    "weight embed: f32[10, 4]; weight w: f32[4, 4]; weight u: f32[4, 4]; weight b: f32[4];\n";
inline const char* const kSmallTree =
    "fn encode(t: Tree) -> (f32[4], f32[4]) {\n"
    "  match t {\n"
    "    Leaf(word) => { let h = tanh(w @ embed[word] + b); (h, h * b) },\n"
    "    Node(l, r) => {\n"
    "      let ((hl, cl), (hr, cr)) = (encode(l), encode(r));\n"
    "      let c = sigmoid(w @ hl + u @ hr) * (cl + cr);\n"
    "      (tanh(c), c)\n"
    "    }\n"
    "  }\n"
    "}\n";

}  // namespace rondo::testing
