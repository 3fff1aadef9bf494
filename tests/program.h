// Runs the program `rondo` that this build made, as a user would.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
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

// `before` goes in front of the program: "env RONDO_CXX=/nowhere", "cat file |". `out`: what stands in for standard output.
inline Finished run_program(const std::vector<std::string>& words, const std::string& before = "",
                            const std::string& out = scratch() / "out") {
  const std::string err = scratch() / "err", input = !before.empty() && before.back() == '|' ? "" : " </dev/null";
  std::string command = before + " '" RONDO_PROGRAM "'";
  for (const std::string& word : words) command += " '" + word + "'";
  const int status = std::system((command + " >'" + out + "' 2>'" + err + "'" + input).c_str());
  Finished finished{WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
                    std::filesystem::is_regular_file(out) ? read_file(out) : "", read_file(err)};
  // The shell reports a signal of its child as 128 + n.
  if (finished.status >= 128) finished.status = -(finished.status - 128);
  return finished;
}

// The program in a process group of its own, as a shell starts it: what a terminal's Ctrl-C reaches.
class Started {
 public:
  // `environment`: "NAME=value".
  explicit Started(std::vector<std::string> words, const std::vector<std::string>& environment = {}) {
    words.insert(words.begin(), RONDO_PROGRAM);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    group_ = fork();
    if (group_ != 0) {
      setpgid(group_, group_);  // as the child does: whoever comes first
      return;
    }
    setpgid(0, 0);
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    if (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr)) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Started() {
    if (group_ > 0) finish(SIGKILL);
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  // Sends the signal and waits; the signal that ended it, or 0.
  int finish(int signal) {
    int status = 0;
    kill(-group_, signal);
    waitpid(group_, &status, 0);
    group_ = 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t group_ = 0;
};

// True once `ready` is; false after twenty seconds.
template <class F>
bool wait_until(F ready) {
  for (int i = 0; i < 4000 && !ready(); ++i) usleep(5000);
  return ready();
}

}  // namespace rondo::testing
