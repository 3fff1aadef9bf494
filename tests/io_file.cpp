// Files are replaced as a whole; links and devices are written through.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "io_support.h"
#include "rondo/error.h"
#include "rondo/io/file.h"

namespace rondo::io {
namespace {

using test::error_of;

class File : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("rondo_file_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string at(const char* name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

void write(const std::string& path, const std::string& text) {
  FileWriter file(path);
  file.write(text);
  file.finish();
}

TEST_F(File, IsReplacedAsAWhole) {
  write(at("a"), "one");
  {
    FileWriter unfinished(at("a"));
    unfinished.write("half");
    EXPECT_EQ(read_file(at("a")), "one");
  }
  EXPECT_EQ(read_file(at("a")), "one");
  write(at("a"), "two");
  EXPECT_EQ(read_file(at("a")), "two");
}

// Renaming over a link destroyed /dev/stdout once: it is a link, and leads to a regular file when output is redirected.
TEST_F(File, LinkIsWrittenThroughAndStaysALink) {
  write(at("target"), "old");
  std::filesystem::create_symlink(at("target"), at("link"));
  write(at("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(at("link")));
  EXPECT_EQ(read_file(at("target")), "new");
}

TEST_F(File, DeviceIsWrittenAsItIs) {
  write("/dev/null", "x");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

// ---------------------------------------------------------------- reading

TEST_F(File, OnlyARegularFileHasBytesAndNothingElseIsWaitedFor) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { read_file(at("pipe")); }), "usage: cannot read " + at("pipe") + ": it is a pipe; expected a file");
  EXPECT_EQ(error_of([&] { read_file("/dev/zero"); }), "usage: cannot read /dev/zero: it is a device; expected a file");
  EXPECT_EQ(error_of([&] { read_file(folder_); }), "usage: cannot read " + folder_.string() + ": it is a folder");
  EXPECT_EQ(error_of([&] { read_file(at("none")); }), "usage: cannot read " + at("none") + ": No such file or directory");
  write(at("long"), std::string(300'000, 'x'));
  EXPECT_EQ(read_file(at("long")), std::string(300'000, 'x'));
}

TEST_F(File, AFileLargerThanMemoryIsNamedWithItsSize) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the program where memory does";
#endif
  write(at("large"), "");
  std::filesystem::resize_file(at("large"), uint64_t{1} << 42);
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  struct rlimit less = before;
  less.rlim_cur = rlim_t{1} << 41;  // or a machine that promises what it has not would start to read
  ASSERT_EQ(setrlimit(RLIMIT_AS, &less), 0);
  const std::string message = error_of([&] { read_file(at("large")); });
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(message.rfind("device: out of host memory while reading " + at("large") + ", of 4398046511104 bytes: this process holds ", 0), 0u)
      << message;
}

TEST_F(File, ATextMayComeThroughAPipeButHasToEnd) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(at("pipe")) << "through"; });
  EXPECT_EQ(read_text(at("pipe")), "through");
  writer.join();
  EXPECT_EQ(error_of([] { read_text("/dev/zero", From::Stream, 100'000); }),
            "usage: cannot read /dev/zero: it has not ended after 100000 bytes; expected a text of at most so many, or a file");
  EXPECT_EQ(read_text("/dev/null"), "");
  EXPECT_EQ(error_of([] { read_text("-"); }), "usage: cannot read -: No such file or directory");
}

TEST_F(File, AByteOrderMarkBelongsToNoText) {
  write(at("marked"), "\xef\xbb\xbftext");
  EXPECT_EQ(read_text(at("marked")), "text");
  EXPECT_EQ(read_file(at("marked")), "\xef\xbb\xbftext");
  EXPECT_EQ(without_mark("\xef\xbb"), "\xef\xbb");
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  LineReader reader(path);
  while (const auto line = reader.next()) lines.emplace_back(*line);
  EXPECT_EQ(reader.number(), lines.size());
  return lines;
}

TEST_F(File, IsReadLineByLineWhateverItsEnd) {
  using Lines = std::vector<std::string>;
  const std::string longer(200'000, 'y');
  for (const auto& [text, lines] : std::vector<std::pair<std::string, Lines>>{{"", {}},
                                                                             {"\n", {""}},
                                                                             {"a", {"a"}},
                                                                             {"a\n\nb\n", {"a", "", "b"}},
                                                                             {"\xef\xbb\xbf" "a\nb", {"a", "b"}},
                                                                             {"a\n" + longer + "\n" + longer, {"a", longer, longer}}}) {
    write(at("lines"), text);
    EXPECT_EQ(lines_of(at("lines")), lines) << text.substr(0, 20);
  }
  LineReader endless("/dev/zero", 100'000);
  EXPECT_EQ(error_of([&] { endless.next(); }),
            "usage: cannot read /dev/zero: line 1 has more than 100000 bytes; expected an instance a line");
}

}  // namespace
}  // namespace rondo::io
