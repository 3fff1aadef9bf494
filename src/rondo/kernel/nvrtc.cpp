#include "rondo/kernel/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "rondo/driver/nvrtc.h"
#include "rondo/error.h"

namespace rondo::kernel {
namespace {

using driver::Nvrtc;

const char* const kFlags[] = {"--std=c++17", "--generate-line-info", "--disable-warnings"};

[[noreturn]] void fail(const Nvrtc& n, nvrtcResult code, const char* call) {
  throw Error(ErrorKind::Internal,
              fmt::format("{} failed: {} ({})", call, n.nvrtcGetErrorString(code), static_cast<int>(code)));
}
void check(const Nvrtc& n, nvrtcResult code, const char* call) {
  if (code != NVRTC_SUCCESS) fail(n, code, call);
}

class Program {
 public:
  Program(const Nvrtc& n, const std::string& text, const std::string& name) : n_(n) {
    check(n, n.nvrtcCreateProgram(&program_, text.c_str(), name.c_str(), 0, nullptr, nullptr),
          "nvrtcCreateProgram");
  }
  ~Program() { (void)n_.nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  nvrtcProgram get() const { return program_; }
  std::string log() const {
    size_t size = 0;
    if (n_.nvrtcGetProgramLogSize(program_, &size) != NVRTC_SUCCESS || size <= 1) return "";
    std::string out(size, '\0');
    if (n_.nvrtcGetProgramLog(program_, out.data()) != NVRTC_SUCCESS) return "";
    out.resize(size - 1);
    return out;
  }

 private:
  const Nvrtc& n_;
  nvrtcProgram program_ = nullptr;
};

void check_architecture(const Nvrtc& n, std::string_view architecture) {
  int count = 0;
  check(n, n.nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> known(static_cast<size_t>(count));
  check(n, n.nvrtcGetSupportedArchs(known.data()), "nvrtcGetSupportedArchs");
  const std::string digits(architecture.substr(0, 3) == "sm_" ? architecture.substr(3) : "");
  const int wanted = std::atoi(digits.c_str());
  if (known.empty() || std::find(known.begin(), known.end(), wanted) != known.end()) return;
  throw Error(
      ErrorKind::Unavailable,
      fmt::format(
          "NVRTC {}.{} ({}) does not compile for {}: expected sm_{} to sm_{}. Install another NVRTC, or "
          "set RONDO_LIBNVRTC to the path of one",
          n.major, n.minor, n.where, architecture, *std::min_element(known.begin(), known.end()),
          *std::max_element(known.begin(), known.end())));
}

std::string compile(const Nvrtc& n, KernelCache& cache, Hash128 key, std::string_view name,
                    std::string_view text, std::string_view architecture) {
  check_architecture(n, architecture);
  const Program program(n, std::string(text), fmt::format("{}.cu", name));
  const std::string target = fmt::format("--gpu-architecture={}", architecture);
  std::vector<const char*> flags(std::begin(kFlags), std::end(kFlags));
  flags.push_back(target.c_str());
  const nvrtcResult code = n.nvrtcCompileProgram(program.get(), static_cast<int>(flags.size()), flags.data());
  if (code != NVRTC_SUCCESS) {
    const std::filesystem::path kept = cache.keep_source(key, name, ".cu", text);
    std::string log = program.log();
    if (log.size() > 2000) log = log.substr(0, 2000) + "\n...";
    throw Error(ErrorKind::Internal, fmt::format("NVRTC {}.{} did not compile {} for {}: {}{}\n{}", n.major,
                                                 n.minor, name, architecture, n.nvrtcGetErrorString(code),
                                                 kept.empty() ? "" : ": the text is " + kept.string(), log));
  }
  size_t size = 0;
  check(n, n.nvrtcGetCUBINSize(program.get(), &size), "nvrtcGetCUBINSize");
  std::string cubin(size, '\0');
  check(n, n.nvrtcGetCUBIN(program.get(), cubin.data()), "nvrtcGetCUBIN");
  return cubin;
}

}  // namespace

std::shared_ptr<const Artifact> compile_cuda(std::string_view name, std::string_view text,
                                             std::string_view architecture, Outcome* outcome,
                                             KernelCache& cache) {
  std::string flags;
  for (const char* f : kFlags) flags += std::string(f) + " ";
  // The same text by any NVRTC: for machines that have none.
  const Hash128 any_key = make_key({"cubin", "any NVRTC", flags, architecture, text});
  const Nvrtc* n = nullptr;
  try {
    n = &driver::nvrtc();
  } catch (const Error& e) {
    return cache.instead_of(e, any_key, name, ".cubin", outcome);
  }
  const Hash128 key =
      make_key({"cubin", fmt::format("NVRTC {}.{}", n->major, n->minor), flags, architecture, text});
  Outcome mine;
  auto artifact = cache.get(
      key, name, ".cubin", ".cu", text, [&] { return compile(*n, cache, key, name, text, architecture); },
      &mine);
  if (mine.from == Outcome::From::Compiled) cache.also(*artifact, any_key, name, ".cubin");
  if (outcome) *outcome = mine;
  return artifact;
}

}  // namespace rondo::kernel
