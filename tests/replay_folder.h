// A folder that goes with the test, and the cache's place in it.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "rondo/base/options.h"

namespace rondo::test {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rondo_replay_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

inline std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
inline void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// RONDO_CACHE_DIR while it lives.
class CacheDir {
 public:
  explicit CacheDir(const std::string& value) {
    if (const char* old = std::getenv("RONDO_CACHE_DIR")) old_ = old, had_ = true;
    setenv("RONDO_CACHE_DIR", value.c_str(), 1);
    reload_options();
  }
  ~CacheDir() {
    had_ ? setenv("RONDO_CACHE_DIR", old_.c_str(), 1) : unsetenv("RONDO_CACHE_DIR");
    reload_options();
  }
  CacheDir(const CacheDir&) = delete;
  CacheDir& operator=(const CacheDir&) = delete;

 private:
  std::string old_;
  bool had_ = false;
};

}  // namespace rondo::test
