// Files are replaced as a whole; links and devices are written through.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "rondo/error.h"
#include "rondo/io/file.h"

namespace rondo::io {
namespace {

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

}  // namespace
}  // namespace rondo::io
