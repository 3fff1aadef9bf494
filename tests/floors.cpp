// The floors of the house: which room may include which, who may see <cuda.h>, who may read the environment. Examples
// and benchmarks are programs of users, who may do both.
// The table below is design.md section 2 as data. Real sources are read from the source tree; each rule is also tried
// on a made-up file that breaks it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace fs = std::filesystem;

namespace {

// Room -> rooms that it may include, besides itself, base and the public headers.
const std::map<std::string, std::set<std::string>> kFloors = {
    // compiler tower
    {"base", {}},
    {"ir", {}},
    {"lang", {"ir"}},
    {"analysis", {"ir"}},
    {"plan", {"ir", "analysis"}},
    {"codegen", {"ir", "plan"}},
    // run-time tower
    {"driver", {}},
    {"graph", {"driver"}},
    {"device", {"driver", "graph"}},
    {"kernel", {"driver"}},
    {"io", {}},
    {"replay", {"driver", "graph", "device", "kernel"}},
    {"batch", {"driver", "graph", "device", "kernel", "io", "replay"}},
};

// Headers that are data and may be seen across towers: where the two meet.
const std::map<std::string, std::set<std::string>> kMeeting = {
    {"rondo/plan/plan.h", {"batch"}},
    {"rondo/batch/abi.h", {"codegen", "device", "io"}},
};

bool starts_with(const std::string& text, const std::string& head) { return text.rfind(head, 0) == 0; }

// "lang" of "src/rondo/lang/parser.cpp"; "" for what stands on top (session, rondo_c) and outside src/rondo.
std::string room_of(const std::string& path) {
  static const std::regex kRoom("^(?:src/)?rondo/([a-z_]+)/.*");
  std::smatch m;
  return std::regex_match(path, m, kRoom) ? m[1].str() : "";
}

bool may_see_cuda(const std::string& path) {
  for (const char* head : {"include/rondo/graph", "include/rondo/replay", "include/rondo/cuda_compat.h", "src/rondo/driver/", "src/rondo/graph/",
                           "src/rondo/replay/", "src/rondo/device/cuda", "src/rondo/kernel/nvrtc", "examples/", "bench/"}) {
    if (starts_with(path, head)) return true;
  }
  return false;
}

// One line for each broken rule: "path:line: text: why".
std::vector<std::string> broken_rules(const std::string& path, const std::string& text) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)re");
  std::vector<std::string> found;
  const std::string room = room_of(path);
  const bool is_public = starts_with(path, "include/");
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    auto report = [&](const std::string& why) {
      found.push_back(path + ":" + std::to_string(number) + ": " + line + ": " + why);
    };
    static const std::regex kGetenv(R"(\b(secure_)?getenv\s*\()");
    if (std::regex_search(line, kGetenv) && path != "src/rondo/base/options.cpp" && !starts_with(path, "examples/") &&
        !starts_with(path, "bench/")) {
      report("the environment is read in src/rondo/base/options.cpp only");
    }
    std::smatch m;
    if (!std::regex_match(line, m, kInclude)) continue;
    const std::string header = m[2];
    if ((header == "cuda.h" || header == "nvrtc.h" || header == "cuda_runtime.h" || starts_with(header, "cupti")) &&
        !may_see_cuda(path)) {
      report("only driver/, graph/, replay/, device/cuda* and kernel/nvrtc* may see CUDA headers");
    }
    if (!starts_with(header, "rondo/")) continue;
    if (starts_with(path, "python/") && header != "rondo/rondo_c.h")
      report("Python stands on the C ABI only: rondo/rondo_c.h");
    const std::string to = room_of(header);
    if (to.empty()) {  // a public header, or session.h
      if (header == "rondo/session.h" && !room.empty()) report("session stands on top: no room may include it");
      continue;
    }
    if (is_public) {
      report("a public header includes public headers only");
      continue;
    }
    if (room.empty() || to == room || to == "base") continue;
    const auto meeting = kMeeting.find(header);
    if (meeting != kMeeting.end() && meeting->second.count(room)) continue;
    const auto floor = kFloors.find(room);
    if (floor == kFloors.end()) {
      report("room " + room + " is not in the table of tests/floors.cpp");
    } else if (!floor->second.count(to)) {
      report(room + " may not include " + to);
    }
  }
  return found;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<fs::path> sources() {
  std::vector<fs::path> found;
  const fs::path root(RONDO_SOURCE_DIR);
  for (const char* top : {"include", "src", "tools", "examples", "bench", "python"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (extension == ".h" || extension == ".cpp") found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(Floors, NoSourceIncludesARoomAboveIt) {
  int files = 0;
  for (const fs::path& path : sources()) {
    ++files;
    const std::string shown = fs::relative(path, RONDO_SOURCE_DIR).generic_string();
    for (const std::string& line : broken_rules(shown, read(path))) ADD_FAILURE() << line;
  }
  EXPECT_GT(files, 20) << "the sources were not found under " RONDO_SOURCE_DIR;
}

TEST(Floors, EveryRoomOfTheTreeIsInTheTable) {
  for (const auto& entry : fs::directory_iterator(fs::path(RONDO_SOURCE_DIR) / "src/rondo")) {
    if (!entry.is_directory()) continue;
    EXPECT_TRUE(kFloors.count(entry.path().filename())) << entry.path() << " is a room without a floor";
  }
}

struct Broken {
  const char* path;
  const char* text;
  const char* why;
};
class FloorsBroken : public testing::TestWithParam<Broken> {};

TEST_P(FloorsBroken, IsReportedWithItsLine) {
  const auto found = broken_rules(GetParam().path, std::string("// head\n") + GetParam().text + "\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], std::string(GetParam().path) + ":2: " + GetParam().text + ": " + GetParam().why);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, FloorsBroken,
    testing::Values(
        Broken{"src/rondo/ir/a.cpp", "#include \"rondo/lang/lang.h\"", "ir may not include lang"},
        Broken{"src/rondo/lang/a.h", "#include \"rondo/driver/driver.h\"", "lang may not include driver"},
        Broken{"src/rondo/device/a.cpp", "  # include \"rondo/plan/plan.h\"  // why", "device may not include plan"},
        Broken{"src/rondo/batch/a.cpp", "#include \"rondo/plan/lower.h\"", "batch may not include plan"},
        Broken{"src/rondo/cellar/a.cpp", "#include \"rondo/ir/ir.h\"", "room cellar is not in the table of tests/floors.cpp"},
        Broken{"include/rondo/a.h", "#include \"rondo/ir/ir.h\"", "a public header includes public headers only"},
        Broken{"src/rondo/lang/a.cpp", "#include \"rondo/session.h\"", "session stands on top: no room may include it"},
        Broken{"python/rondo/_core.cpp", "#include \"rondo/replay.h\"",
               "Python stands on the C ABI only: rondo/rondo_c.h"},
        Broken{"src/rondo/device/cpu.cpp", "#include <cuda.h>",
               "only driver/, graph/, replay/, device/cuda* and kernel/nvrtc* may see CUDA headers"},
        Broken{"tools/rondo/a.cpp", "const char* p = std::getenv(\"HOME\");",
               "the environment is read in src/rondo/base/options.cpp only"}));

TEST(Floors, WhatIsAllowedIsNotReported) {
  EXPECT_TRUE(broken_rules("src/rondo/lang/a.cpp", "#include \"rondo/ir/ir.h\"\n#include \"rondo/base/hash.h\"\n").empty());
  EXPECT_TRUE(broken_rules("src/rondo/batch/a.cpp", "#include \"rondo/plan/plan.h\"\n").empty());
  EXPECT_TRUE(broken_rules("src/rondo/device/cuda_device.cpp", "#include <cuda.h>\n").empty());
  EXPECT_TRUE(broken_rules("src/rondo/session.cpp", "#include \"rondo/codegen/codegen.h\"\n").empty());
  EXPECT_TRUE(broken_rules("src/rondo/rondo_c.cpp", "#include \"rondo/driver/driver.h\"\n").empty());
  EXPECT_TRUE(broken_rules("python/rondo/_core.cpp", "#include \"rondo/rondo_c.h\"\n").empty());
  EXPECT_TRUE(broken_rules("src/rondo/base/options.cpp", "return getenv(name);\n").empty());
  EXPECT_TRUE(broken_rules("examples/gpu.h", "#include <cuda.h>\nreturn getenv(name);\n").empty());
}

}  // namespace
