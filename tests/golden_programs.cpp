// Runs every tests/golden/*.rondo by its own RUN: and CHECK: lines (golden_filecheck.h) against the real program, and
// tests that runner: each directive passes where it should and fails where it should.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "golden_filecheck.h"
#include "program.h"

namespace fs = std::filesystem;
using rondo::golden::Golden;
using rondo::golden::mismatch;
using rondo::golden::parse;
using rondo::testing::read_file;
using rondo::testing::run_program;

namespace {

std::vector<std::string> programs() {
  std::vector<std::string> found;
  const fs::path dir = fs::path(RONDO_SOURCE_DIR) / "tests/golden";
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().extension() == ".rondo") found.push_back(entry.path().filename());
  }
  std::sort(found.begin(), found.end());
  return found;
}

class GoldenProgram : public testing::TestWithParam<std::string> {};

TEST_P(GoldenProgram, DoesWhatItsChecksSay) {
  const std::string path = fs::path(RONDO_SOURCE_DIR) / "tests/golden" / GetParam();
  Golden golden;
  ASSERT_NO_THROW(golden = parse(read_file(path), GetParam()));
  std::string output;
  for (const auto& run : golden.runs) {
    std::vector<std::string> words = run.words;
    for (std::string& word : words) {
      for (size_t at; (at = word.find("%s")) != std::string::npos;) word.replace(at, 2, path);
    }
    const auto finished = run_program(words);
    ASSERT_GE(finished.status, 0) << GetParam() << ":" << run.line << ": died of signal " << -finished.status << "\n"
                                  << finished.output << finished.error;
    if (run.expect_failure) ASSERT_GT(finished.status, 0) << GetParam() << ":" << run.line << ": expected to fail\n"
                                                   << finished.output;
    else ASSERT_EQ(finished.status, 0) << GetParam() << ":" << run.line << ":\n" << finished.output << finished.error;
    output += finished.output + finished.error;
  }
  EXPECT_EQ(mismatch(golden.checks, output, GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenProgram, testing::ValuesIn(programs()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param.substr(0, info.param.rfind('.'));
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(GoldenRunner, ProgramsAreFound) { EXPECT_GE(programs().size(), 10u); }

// ---------------------------------------------------------------- the runner itself

const std::string kRun = "// RUN: rondo check %s\n";

std::string check(const std::string& checks, const std::string& output) {
  return mismatch(parse(kRun + checks, "t").checks, output, "t");
}
std::string parse_error(const std::string& text) {
  try {
    parse(text, "t");
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(GoldenRunner, CheckFindsSubstringsInOrder) {
  EXPECT_EQ(check("// CHECK: b\n// CHECK: d\n", "a\nxbx\nc\nd\n"), "");
  EXPECT_NE(check("// CHECK: d\n// CHECK: b\n", "a\nb\nc\nd\n"), "");
  EXPECT_EQ(check("// CHECK: a\n// CHECK: b\n", "a b\n"), "");
  EXPECT_NE(check("// CHECK: a\n// CHECK: a\n", "a\n"), "") << "one place was matched twice";
}

TEST(GoldenRunner, CheckReportsPatternAndPlace) {
  EXPECT_EQ(check("// CHECK: a\n// CHECK: zebra\n", "a\nb\n"),
            "t:3: CHECK: zebra: not found\n  from output line 1:\n  | a\n  | b");
}

TEST(GoldenRunner, NextMustBeTheNextLine) {
  EXPECT_EQ(check("// CHECK: a\n// CHECK-NEXT: b\n", "a\nb\n"), "");
  EXPECT_NE(check("// CHECK: a\n// CHECK-NEXT: c\n", "a\nb\nc\n").find("not on the next line"), std::string::npos);
  EXPECT_NE(check("// CHECK: a\n// CHECK-NEXT: b\n", "a b\n"), "");
}

TEST(GoldenRunner, SameMustBeTheRestOfTheLine) {
  EXPECT_EQ(check("// CHECK: a\n// CHECK-SAME: b\n", "a b\n"), "");
  EXPECT_NE(check("// CHECK: a\n// CHECK-SAME: b\n", "b a\n").find("not on the same line"), std::string::npos);
  EXPECT_NE(check("// CHECK: a\n// CHECK-SAME: b\n", "a\nb\n"), "");
}

TEST(GoldenRunner, NotCoversExactlyTheGap) {
  EXPECT_NE(check("// CHECK-NOT: x\n// CHECK: b\n", "x\nb\n").find("found in output line 1"), std::string::npos);
  EXPECT_EQ(check("// CHECK-NOT: x\n// CHECK: b\n", "a\nb\nx\n"), "");
  EXPECT_NE(check("// CHECK: a\n// CHECK-NOT: x\n", "a\nb\nx\n"), "");
  EXPECT_EQ(check("// CHECK: a\n// CHECK-NOT: x\n// CHECK: c\n", "x\na\nb\nc\nx\n"), "");
  EXPECT_NE(check("// CHECK: a\n// CHECK-NOT: x\n// CHECK: c\n", "a x c\n"), "");
}

TEST(GoldenRunner, RegularExpressionsStandInDoubleBraces) {
  EXPECT_EQ(check("// CHECK: fn {{[a-z]+}}(%{{[0-9]+}}: f32[4])\n", "fn main(%12: f32[4]) {\n"), "");
  EXPECT_NE(check("// CHECK: fn {{[a-z]+}}(\n", "fn 12(\n"), "");
  EXPECT_NE(check("// CHECK: a.c\n", "abc\n"), "") << "outside {{ }} a dot is a dot";
  EXPECT_EQ(parse_error(kRun + "// CHECK: {{a\n"), "t:2: {{ without }}");
  EXPECT_EQ(parse_error(kRun + "// CHECK: {{(}}\n"), "t:2: not a regular expression: {{(}}");
}

TEST(GoldenRunner, RunsOfBlanksAreEqual) { EXPECT_EQ(check("// CHECK: a   b\n", "a\tb\n"), ""); }

TEST(GoldenRunner, FilesThatCheckNothingAreErrors) {
  EXPECT_EQ(parse_error("// CHECK: a\n"), "t:1: no RUN: line");
  EXPECT_EQ(parse_error(kRun), "t:1: no CHECK: line");
  EXPECT_EQ(parse_error(kRun + "// CHECKS: a\n"), "t:2: unknown directive CHECKS:");
  EXPECT_EQ(parse_error(kRun + "// CHECK-DAG: a\n"), "t:2: unknown directive CHECK-DAG:");
  EXPECT_EQ(parse_error(kRun + "// CHECK:\n"), "t:2: CHECK: is empty");
  EXPECT_EQ(parse_error(kRun + "let x = 1; // CHECK: a\n"), "t:2: a directive stands alone on its line");
  EXPECT_EQ(parse_error(kRun + "// CHECK-NEXT: a\n"), "t:2: CHECK-NEXT: without a CHECK: before it");
  EXPECT_EQ(parse_error("// RUN: rondo dump %s | sort\n// CHECK: a\n"), "t:1: RUN: no shell here: |");
  EXPECT_EQ(parse_error("// RUN: cat %s\n// CHECK: a\n"), "t:1: RUN: expected `rondo ...` or `not rondo ...`");
}

TEST(GoldenRunner, NotExpectsFailure) {
  const Golden golden = parse("// RUN: not rondo check %s\n// CHECK: a\n", "t");
  ASSERT_EQ(golden.runs.size(), 1u);
  EXPECT_TRUE(golden.runs[0].expect_failure);
  EXPECT_EQ(golden.runs[0].words, (std::vector<std::string>{"check", "%s"}));
}

}  // namespace
