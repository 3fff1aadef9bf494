#include "rondo/kernel/host_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <list>
#include <sstream>
#include <vector>

#include "rondo/base/options.h"
#include "rondo/base/temporary.h"
#include "rondo/error.h"

extern char** environ;

namespace rondo::kernel {
namespace {

namespace fs = std::filesystem;

// -fno-math-errno -fno-trapping-math: so that loops with sqrtf and comparisons vectorise. Neither changes a
// value.
const std::vector<std::string> kFlags = {"-O3",
                                         "-march=native",
                                         "-fPIC",
                                         "-shared",
                                         "-std=c++17",
                                         "-fno-math-errno",
                                         "-fno-trapping-math",
                                         "-ffp-contract=fast",
                                         "-w"};

constexpr std::string_view kElf =
    "\x7f"
    "ELF";  // a shared object starts with it

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

// A folder for one compilation, and the files in it.
class Scratch {
 public:
  Scratch() {
    static std::atomic<unsigned> counter{0};
    int code = 0;
    do {
      path_ = fmt::format("{}/rondo-{}-{}", options().temp_dir, static_cast<long>(::getpid()), ++counter);
      listed_.clear();
      listed_.emplace_back(path_);
      code = ::mkdir(path_.c_str(), 0700) == 0 ? 0 : errno;
    } while (code == EEXIST);  // left by an earlier process of this number
    if (code != 0)
      throw Error(
          ErrorKind::Unavailable,
          fmt::format("cannot make a folder in {} ({}): expected room for temporary files. Set TMPDIR to a "
                      "folder that can be written",
                      options().temp_dir, std::strerror(code)));
  }
  ~Scratch() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  fs::path file(const char* name) {
    listed_.emplace_back(path_ / name);
    return path_ / name;
  }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  std::list<Temporary> listed_;
  bool kept_ = false;
};

// Waits for it; what it prints goes to `log`. The exit status, 128 + signal, or -errno when it does not
// start.
int execute(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int code = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) return -code;
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// "" when there is no such program on `path`.
std::string find_program(const std::string& name, const std::string& path) {
  const auto runs = [](const std::string& p) {
    struct stat info {};
    return ::stat(p.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(p.c_str(), X_OK) == 0;
  };
  if (name.find('/') != name.npos) return runs(name) ? name : "";
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string p = (folder.empty() ? "." : folder) + "/" + name; runs(p)) return p;
  return "";
}

// What decides the instructions that -march=native may use: the first processor's name, numbers and features.
std::string read_cpu() {
  std::ifstream file("/proc/cpuinfo");
  std::string out;
  for (std::string line; std::getline(file, line) && !line.empty();)
    for (const char* field : {"vendor_id", "cpu family", "model", "stepping", "flags", "CPU implementer",
                              "CPU part", "CPU variant", "Features", "isa", "cpu\t"})
      if (line.rfind(field, 0) == 0) {
        out += line + "\n";
        break;
      }
  return fmt::format("native-{}", hash(out).hex());
}
const std::string& cpu() {
  static const std::string name = read_cpu();
  return name;
}

std::string find_compiler(const Options& o) {
  if (!o.cxx.empty()) {
    if (const std::string path = find_program(o.cxx, o.path); !path.empty()) return path;
    throw Error(ErrorKind::Unavailable,
                fmt::format("RONDO_CXX is '{}': expected the name or path of a C++ compiler "
                            "that can be run. Correct or unset it",
                            o.cxx));
  }
  for (const char* name : {"g++", "c++", "clang++"})
    if (const std::string path = find_program(name, o.path); !path.empty()) return path;
  throw Error(
      ErrorKind::Unavailable,
      "no C++ compiler is on the PATH (looked for g++, c++, clang++): one is needed to compile the host "
      "side of a model. Install one (apt install g++), or set RONDO_CXX to its path");
}

// The first line of `--version`. `file` is the compiler's path, size and time: while they stay, so does the
// answer, and a warm start does without a process.
std::string version_of(const std::string& path, const std::string& file, KernelCache& cache) {
  const Hash128 key = make_key({"version", file, "--version", "", ""});
  if (const auto known = cache.find(key, "compiler", ".version")) return known->bytes;
  Scratch scratch;
  const fs::path log = scratch.file("version");
  if (const int status = execute({path, "--version"}, log); status != 0)
    throw Error(ErrorKind::Unavailable,
                fmt::format("{} --version ended with {}: expected a C++ compiler. Set RONDO_CXX "
                            "to another one",
                            path, status));
  std::string version = read_file(log);
  version.resize(std::min(version.size(), version.find('\n')));
  cache.put(key, "compiler", ".version", version);
  return version;
}

// As much of a compiler's log as a message can carry.
std::string head(const std::string& log) {
  constexpr size_t kLongest = 2000;
  return log.size() <= kLongest ? log : log.substr(0, kLongest) + "\n...";
}

std::string run_compiler(const HostCompiler& compiler, KernelCache& cache, Hash128 key, std::string_view name,
                         std::string_view text) {
  Scratch scratch;
  fs::path source = scratch.file("source.cpp");
  const fs::path library = scratch.file("library.so"), log = scratch.file("log");
  if (!(std::ofstream(source, std::ios::binary) << text).flush())
    throw Error(ErrorKind::Unavailable,
                fmt::format("cannot write {}: expected room for temporary files", source.string()));
  std::vector<std::string> words = {compiler.path};
  words.insert(words.end(), kFlags.begin(), kFlags.end());
  words.insert(words.end(), {"-o", library.string(), source.string()});
  const int status = execute(words, log);
  if (status == 0) {
    std::string made = read_file(library);
    if (made.compare(0, kElf.size(), kElf) == 0) return made;
    throw Error(
        ErrorKind::Unavailable,
        fmt::format("{} ended well and wrote {} for {}: expected a shared object. Set RONDO_CXX to a "
                    "C++ compiler",
                    compiler.path,
                    made.empty() ? "nothing" : fmt::format("{} bytes that are none", made.size()), name));
  }
  if (const fs::path kept = cache.keep_source(key, name, ".cpp", text); !kept.empty())
    source = kept;
  else
    scratch.keep();
  throw Error(ErrorKind::Internal,
              fmt::format("{} did not compile {} (exit status {}): the text is {}\n{}", compiler.path, name,
                          status, source.string(), head(read_file(log))));
}

std::shared_ptr<HostLibrary> open_library(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = ::dlerror();
    throw Error(ErrorKind::Internal,
                fmt::format("cannot load the compiled {}: {}", path, reason ? reason : "no reason given"));
  }
  return std::make_shared<HostLibrary>(handle, path);
}

}  // namespace

HostLibrary::~HostLibrary() { ::dlclose(handle_); }

void* HostLibrary::symbol(const char* name) const {
  if (void* address = ::dlsym(handle_, name)) return address;
  throw Error(ErrorKind::Internal, fmt::format("{} does not export {}", path_, name));
}

HostCompiler host_compiler(KernelCache& cache) {
  HostCompiler c;
  c.path = find_compiler(options());
  std::error_code ignored;
  const fs::path real = fs::canonical(c.path, ignored);
  struct stat info {};
  ::stat(c.path.c_str(), &info);
  const std::string file = fmt::format("{} {} {}.{}", real.string(), static_cast<long long>(info.st_size),
                                       static_cast<long long>(info.st_mtim.tv_sec), info.st_mtim.tv_nsec);
  c.identity = file + " " + version_of(c.path, file, cache);
  c.architecture = cpu();
  return c;
}

namespace {

std::shared_ptr<const Artifact> compile(std::string_view name, std::string_view text, Outcome* outcome,
                                        KernelCache& cache) {
  std::string flags;
  for (const std::string& f : kFlags) flags += f + " ";
  // The same text by any compiler: for machines that have none.
  const Hash128 any_key = make_key({"so", "any compiler", flags, cpu(), text});
  HostCompiler compiler;
  try {
    compiler = host_compiler(cache);
  } catch (const Error& e) {
    return cache.instead_of(e, any_key, name, ".so", outcome);
  }
  const Hash128 key = make_key({"so", compiler.identity, flags, compiler.architecture, text});
  Outcome mine;
  auto artifact = cache.get(
      key, name, ".so", ".cpp", text, [&] { return run_compiler(compiler, cache, key, name, text); }, &mine);
  if (mine.from == Outcome::From::Compiled) cache.also(*artifact, any_key, name, ".so");
  if (outcome) *outcome = mine;
  return artifact;
}

}  // namespace

std::shared_ptr<HostLibrary> compile_host(std::string_view name, std::string_view text, Outcome* outcome,
                                          KernelCache& cache) {
  const auto artifact = compile(name, text, outcome, cache);
  // Somebody may have emptied the folder since.
  if (!artifact->file.empty() && ::access(artifact->file.c_str(), R_OK) == 0)
    return open_library(artifact->file);
  Scratch scratch;
  const fs::path file = scratch.file("library.so");
  if (!(std::ofstream(file, std::ios::binary) << artifact->bytes).flush())
    throw Error(ErrorKind::Unavailable,
                fmt::format("cannot write {}: expected room for temporary files", file.string()));
  return open_library(file);
}

}  // namespace rondo::kernel
