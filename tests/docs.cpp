// What the documentation shows is code that compiles: a fragment in docs/graphs.md and docs/replay.md names
// the example that it is taken from, and stands there word for word. The examples open with what they show
// and are all built.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = RONDO_SOURCE_DIR;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Fragment {
  int line;             // in the document, of its fence
  std::string example;  // "" when the fence names none
  std::vector<std::string> text;
};

// Fences that begin with ```cpp; the word after it is the example.
std::vector<Fragment> fragments_of(const std::vector<std::string>& document) {
  std::vector<Fragment> found;
  bool inside = false;
  for (size_t i = 0; i < document.size(); ++i) {
    const std::string& line = document[i];
    if (line.rfind("```", 0) != 0) {
      if (inside) found.back().text.push_back(line);
    } else if (inside) {
      inside = false;
    } else if (line.rfind("```cpp", 0) == 0) {
      inside = true;
      std::istringstream words(line.substr(6));
      found.push_back({static_cast<int>(i) + 1, "", {}});
      words >> found.back().example;
    }
  }
  return found;
}

// The lines without the indentation that all of them share.
std::vector<std::string> flush_left(std::vector<std::string> lines) {
  size_t indent = std::string::npos;
  for (const std::string& line : lines)
    if (const size_t at = line.find_first_not_of(' '); at != line.npos) indent = std::min(indent, at);
  for (std::string& line : lines) line = line.size() > indent ? line.substr(indent) : "";
  return lines;
}

bool stands_in(const std::vector<std::string>& fragment, const std::vector<std::string>& file) {
  for (size_t at = 0; !fragment.empty() && at + fragment.size() <= file.size(); ++at) {
    const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at);
    if (flush_left({begin, begin + static_cast<std::ptrdiff_t>(fragment.size())}) == flush_left(fragment))
      return true;
  }
  return false;
}

// The numbered files of examples/.
std::vector<fs::path> examples() {
  std::vector<fs::path> found;
  for (const fs::directory_entry& e : fs::directory_iterator(kRoot / "examples")) {
    const std::string ext = e.path().extension();
    if (e.is_regular_file() && (ext == ".cpp" || ext == ".cu")) found.push_back(e.path());
  }
  return found;
}

// At least `least` of them.
void expect_fragments_of_examples(const std::string& document, size_t least) {
  const std::vector<Fragment> fragments = fragments_of(lines_of(kRoot / document));
  EXPECT_GE(fragments.size(), least);
  for (const Fragment& f : fragments) {
    const std::string where = document + ":" + std::to_string(f.line) + ": ";
    ASSERT_FALSE(f.example.empty()) << where << "the fence names no example";
    const fs::path path = kRoot / "examples" / f.example;
    ASSERT_TRUE(fs::exists(path)) << where << "there is no example " << f.example;
    EXPECT_TRUE(stands_in(f.text, lines_of(path))) << where << "the fragment does not stand in " << f.example;
  }
}

}  // namespace

TEST(Docs, EveryFragmentOnGraphsStandsInTheExampleItNames) {
  expect_fragments_of_examples("docs/graphs.md", 6);
}

TEST(Docs, EveryFragmentOnReplayStandsInTheExampleItNames) {
  expect_fragments_of_examples("docs/replay.md", 4);
}

TEST(Docs, AFragmentIsFoundAtAnyIndentationAndNotWhenAWordDiffers) {
  const std::vector<std::string> file = {"{", "    a();", "      b();", "", "    c();", "}"};
  EXPECT_TRUE(stands_in({"a();", "  b();", "", "c();"}, file));
  EXPECT_FALSE(stands_in({"a();", "b();"}, file));
  EXPECT_FALSE(stands_in({"a();", "  x();"}, file));
  EXPECT_FALSE(stands_in({}, file));
}

TEST(Docs, EveryExampleOpensWithWhatItShowsAndIsBuilt) {
  std::ostringstream project;
  project << std::ifstream(kRoot / "examples/CMakeLists.txt").rdbuf();
  EXPECT_GE(examples().size(), 11u);
  for (const fs::path& path : examples()) {
    const std::vector<std::string> lines = lines_of(path);
    ASSERT_FALSE(lines.empty()) << path;
    EXPECT_EQ(lines[0].rfind("// ", 0), 0u) << path << " opens with no comment";
    EXPECT_NE(project.str().find(path.filename()), std::string::npos)
        << path << " is not in examples/CMakeLists.txt";
  }
}
