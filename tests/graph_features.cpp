// docs/graph_features.md: every cell of Rondo's column names a test, and every test that it names exists.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "graph_support.h"

namespace rondo::graph {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// "Suite.Name" of every test of the tree: those of this program and of the others.
std::set<std::string> all_tests() {
  static const std::regex kTest(R"(^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\))");
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(fs::path(RONDO_SOURCE_DIR) / "tests")) {
    if (entry.path().extension() != ".cpp") continue;
    std::istringstream in(read(entry.path()));
    std::smatch m;
    for (std::string line; std::getline(in, line);)
      if (std::regex_search(line, m, kTest)) found.insert(m[1].str() + "." + m[2].str());
  }
  return found;
}

struct Row {
  std::string feature, rondo;
  size_t cells = 0;
};

// Of the tables whose second column is Rondo.
std::vector<Row> rows(const std::string& text) {
  std::vector<Row> found;
  std::istringstream in(text);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream parts(line);
    for (std::string cell; std::getline(parts, cell, '|');) cells.push_back(cell);
    if (line.rfind("| feature | Rondo |", 0) == 0)
      inside = true;
    else if (line.rfind('|', 0) != 0)
      inside = false;
    else if (inside && line.rfind("|--", 0) != 0 && cells.size() > 2)
      found.push_back({cells[1], cells[2], cells.size() - 1});
  }
  return found;
}

std::vector<std::string> tests_in(const std::string& text) {
  static const std::regex kName(R"(`(\w+\.\w+)`)");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), kName), end; at != end; ++at)
    found.push_back((*at)[1]);
  return found;
}

// "" or what is wrong with a row.
std::string fault(const Row& row, const std::set<std::string>& tests) {
  const std::vector<std::string> named = tests_in(row.rondo);
  const std::string yes = " y", partly = " p", no = " –";
  if (row.rondo.rfind(no, 0) == 0) {
    if (row.rondo.size() < no.size() + 4) return "says no and not why";
    return named.empty() ? "" : "says no and names a test";
  }
  if (row.rondo.rfind(yes, 0) != 0 && row.rondo.rfind(partly, 0) != 0) return "says neither y nor p nor –";
  if (named.empty()) return "names no test";
  for (const std::string& name : named)
    if (!tests.count(name)) return "names " + name + ", which is no test";
  return "";
}

TEST(Features, EveryCellNamesATestThatExists) {
  if (!fs::exists(RONDO_SOURCE_DIR)) GTEST_SKIP() << "the sources are not on this machine: " RONDO_SOURCE_DIR;
  const std::vector<Row> found = rows(read(fs::path(RONDO_SOURCE_DIR) / "docs/graph_features.md"));
  const std::set<std::string> tests = all_tests();
  EXPECT_GT(tests.size(), 100u);
  size_t with_peers = 0;
  for (const Row& row : found) {
    EXPECT_EQ(fault(row, tests), "") << row.feature << "|" << row.rondo;
    EXPECT_TRUE(row.cells == 16 || row.cells == 2) << row.feature << ": " << row.cells << " cells";
    with_peers += row.cells == 16;
  }
  EXPECT_EQ(with_peers, 32u) << "the reference's table has 32 rows";
}

TEST(Features, AnEmptyClaimIsFound) {
  const std::set<std::string> tests = {"A.B"};
  EXPECT_EQ(fault({"x", " y `A.B` "}, tests), "");
  EXPECT_EQ(fault({"x", " p, in part `A.B` "}, tests), "");
  EXPECT_EQ(fault({"x", " – not yet "}, tests), "");
  EXPECT_EQ(fault({"x", " y "}, tests), "names no test");
  EXPECT_EQ(fault({"x", " y `A.C` "}, tests), "names A.C, which is no test");
  EXPECT_EQ(fault({"x", " – "}, tests), "says no and not why");
  EXPECT_EQ(fault({"x", " – `A.B` "}, tests), "says no and names a test");
  EXPECT_EQ(fault({"x", " maybe `A.B` "}, tests), "says neither y nor p nor –");
}

// What no other test holds by its name.
TEST(Features, AnExecIsUploadedBeforeItsFirstLaunch) {
  Machine m;
  Graph g;
  g.add(kernel(m.store, 1, 1, 0, m.word(0), 5u));
  const GraphExec exec = g.instantiate();
  exec.upload(m.stream);
  EXPECT_EQ(m.fake.count("cuGraphUpload"), 1u);
  EXPECT_EQ(m.words()[0], 0u) << "an upload runs nothing";
  exec.launch(m.stream);
  EXPECT_EQ(m.words()[0], 5u);
  const Graph again = g.clone();
  (void)again.instantiate({.upload_to = m.stream});
  EXPECT_EQ(m.fake.count("cuGraphUpload"), 1u) << "in the same call as the instantiation";
}

}  // namespace
}  // namespace rondo::graph
