// A strict subset of LLVM's FileCheck, for golden programs that carry their own expectations in comments:
//
//   // RUN: rondo dump --stage ir %s          the output of this command ...
//   // CHECK: fn main(%0: {{.*}})             ... has a line with this, after the previous match
//   // CHECK-NEXT: matmul                     the line right after the previous match has this
//   // CHECK-SAME: f32[4]                     so has the rest of the line of the previous match
//   // CHECK-NOT: softmax                     no line between the matches before and after has this
//
// %s is the file. `not rondo ...` expects an exit code above 0. {{ }} hold a regular expression (ECMAScript); runs of
// blanks are equal. Output is stdout followed by stderr, of all RUN lines in order. What passes here passes LLVM's
// FileCheck. Stricter than LLVM: a file without a RUN or a CHECK line, and a comment that looks like a directive
// (`// SOMETHING:`) but is not one of these, are errors.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

namespace rondo::golden {

enum class Kind { Check, Next, Same, Not };
struct Check {
  Kind kind = Kind::Check;
  std::string pattern;  // as written
  int line = 0;         // of the golden file
};
struct Run {
  bool expect_failure = false;
  std::vector<std::string> words;  // after `rondo`; %s not yet replaced
  int line = 0;
};
struct Golden {
  std::vector<Run> runs;
  std::vector<Check> checks;
};

// Throws std::runtime_error "file:line: why".
Golden parse(const std::string& text, const std::string& file);

// "" when the output is as the checks say; else what failed, with the check and the line of output from which it was sought.
std::string mismatch(const std::vector<Check>& checks, const std::string& output, const std::string& file);

}  // namespace rondo::golden
