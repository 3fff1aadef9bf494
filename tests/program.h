// Runs the program `rondo` that this build made, as a user would.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace rondo::testing {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// A folder of this process that goes when the process does.
inline const std::filesystem::path& scratch() {
  static const struct Folder {
    std::filesystem::path path;
    Folder() {
      std::string name = (std::filesystem::temp_directory_path() / "rondo_test_XXXXXX").string();
      path = mkdtemp(name.data());
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  } folder;
  return folder.path;
}

struct Finished {
  int status = 0;  // exit code; -signal
  std::string output, error;
};

// `before` goes in front of the program: "env RONDO_CXX=/nowhere".
inline Finished run_program(const std::vector<std::string>& words, const std::string& before = "") {
  const std::string out = scratch() / "out", err = scratch() / "err";
  std::string command = before + " '" RONDO_PROGRAM "'";
  for (const std::string& word : words) command += " '" + word + "'";
  const int status = std::system((command + " >'" + out + "' 2>'" + err + "' </dev/null").c_str());
  Finished finished{WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_file(out), read_file(err)};
  // The shell reports a signal of its child as 128 + n.
  if (finished.status >= 128) finished.status = -(finished.status - 128);
  return finished;
}

}  // namespace rondo::testing
