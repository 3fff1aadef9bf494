#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "message_of.h"
#include "rondo/base/options.h"
#include "rondo/base/trace.h"
#include "rondo/driver/nvrtc.h"
#include "rondo/error.h"
#include "rondo/kernel/host_compiler.h"
#include "rondo/kernel/kernel_cache.h"
#include "rondo/kernel/nvrtc.h"

namespace rondo::kernel {
namespace {

namespace fs = std::filesystem;
using From = Outcome::From;

using test::message_of;

class Kernels : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rondo_kernel_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    for (const char* name : {"RONDO_CXX", "RONDO_LIBNVRTC"}) unsetenv(name);
    reload_options();
    fs::remove_all(folder_);
  }
  static void use(const char* variable, const std::string& value) {
    setenv(variable, value.c_str(), 1);
    reload_options();
  }
  std::vector<fs::path> files(const std::string& extension) const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() == extension) out.push_back(entry.path());
    return out;
  }
  fs::path folder_;
};

std::string get(KernelCache& cache, const std::string& text, int* compiled, Outcome* outcome = nullptr) {
  const Hash128 key = make_key({"test", "c", "f", "a", text});
  return cache
      .get(
          key, "k", ".bin", ".txt", text, [&] { return ++*compiled, "made of " + text; }, outcome)
      ->bytes;
}

// ---------------------------------------------------------------- the cache

TEST_F(Kernels, EveryPartOfTheKeyCounts) {
  const KeyParts base{"so", "gcc 12", "-O3", "native", "int x;"};
  const Hash128 key = make_key(base);
  EXPECT_EQ(key, make_key(base));
  for (auto part :
       {&KeyParts::kind, &KeyParts::compiler, &KeyParts::flags, &KeyParts::architecture, &KeyParts::text}) {
    KeyParts other = base;
    other.*part = "different";
    EXPECT_NE(key, make_key(other));
  }
  EXPECT_NE(make_key({"so", "ab", "c", "", ""}), make_key({"so", "a", "bc", "", ""}));
}

TEST_F(Kernels, AThingIsCompiledOnceThenFromMemoryThenFromDisk) {
  int compiled = 0;
  Outcome outcome;
  {
    KernelCache cache(folder_);
    EXPECT_EQ(get(cache, "x", &compiled, &outcome), "made of x");
    EXPECT_EQ(outcome.from, From::Compiled);
    EXPECT_EQ(get(cache, "x", &compiled, &outcome), "made of x");
    EXPECT_EQ(outcome.from, From::Memory);
    cache.forget();
    EXPECT_EQ(get(cache, "x", &compiled, &outcome), "made of x");
    EXPECT_EQ(outcome.from, From::Disk);
  }
  KernelCache next(folder_);
  EXPECT_EQ(get(next, "x", &compiled, &outcome), "made of x");
  EXPECT_EQ(outcome.from, From::Disk);
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(files(".txt").size(), 1u);
  EXPECT_TRUE(files(".tmp").empty());
}

TEST_F(Kernels, TheTraceTellsWhereAThingCameFrom) {
  auto sink = std::make_shared<trace::MemorySink>();
  const auto attached = trace::attach(sink);
  KernelCache cache(folder_);
  int compiled = 0;
  get(cache, "x", &compiled);
  get(cache, "x", &compiled);
  ASSERT_EQ(sink->events("kernel.compiled").size(), 1u);
  EXPECT_EQ(sink->events("kernel.compiled")[0].text, "k");
  EXPECT_EQ(sink->events("kernel.memory").size(), 1u);
}

TEST_F(Kernels, ADamagedFileIsDeletedAndMadeAgainWhereverTheDamageIs) {
  trace::set_log_level(trace::Level::Off);
  int compiled = 0;
  {
    KernelCache cache(folder_);
    get(cache, "x", &compiled);
  }
  const fs::path file = files(".bin").at(0);
  std::ifstream in(file, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  auto sink = std::make_shared<trace::MemorySink>();
  const auto attached = trace::attach(sink);
  int expected = 1;
  for (size_t at = 0; at <= good.size(); ++at) {
    std::string bad = good.substr(0, at);                      // cut off
    if (at < good.size() && at % 2) bad = good, bad[at] ^= 1;  // or one bit turned
    if (at == good.size()) bad += "x";                         // or longer
    std::ofstream(file, std::ios::binary) << bad;
    KernelCache cache(folder_);
    ASSERT_EQ(get(cache, "x", &compiled), "made of x") << at;
    ASSERT_EQ(compiled, ++expected) << at;
  }
  EXPECT_EQ(sink->events("kernel.cache").at(0).text,
            file.string() + " is damaged: deleted, and compiled again");
  KernelCache cache(folder_);
  get(cache, "x", &compiled);
  EXPECT_EQ(compiled, expected);
  trace::set_log_level(trace::Level::Warn);
}

TEST_F(Kernels, APipeInPlaceOfAFileIsReplacedAndNotWaitedFor) {
  trace::set_log_level(trace::Level::Off);
  int compiled = 0;
  {
    KernelCache cache(folder_);
    get(cache, "x", &compiled);
  }
  const fs::path file = files(".bin").at(0);
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  KernelCache cache(folder_);
  EXPECT_EQ(get(cache, "x", &compiled), "made of x");
  EXPECT_EQ(compiled, 2);
  EXPECT_TRUE(fs::is_regular_file(file));
  trace::set_log_level(trace::Level::Warn);
}

TEST_F(Kernels, AFolderThatCannotBeWrittenCostsOneNoteAndNothingElse) {
  trace::set_log_level(trace::Level::Off);
  auto sink = std::make_shared<trace::MemorySink>();
  const auto attached = trace::attach(sink);
  std::ofstream(folder_ / "file") << "in the way";
  const fs::path folder = folder_ / "file" / "cache";
  KernelCache cache(folder);
  int compiled = 0;
  EXPECT_EQ(get(cache, "x", &compiled), "made of x");
  EXPECT_EQ(get(cache, "y", &compiled), "made of y");
  EXPECT_EQ(get(cache, "x", &compiled), "made of x");
  EXPECT_EQ(compiled, 2);
  const auto notes = sink->events("kernel.cache");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].text.find(
                "(Not a directory): compiled kernels are kept in memory only. Set RONDO_CACHE_DIR to a "
                "folder that can be written, or to off"),
            std::string::npos)
      << notes[0].text;
  trace::set_log_level(trace::Level::Warn);
}

TEST_F(Kernels, ThreadsThatAskForOneKeyCompileItOnce) {
  KernelCache cache(folder_);
  std::atomic<int> compiled{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      const auto artifact = cache.get(hash("one"), "k", ".bin", ".txt", "", [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ++compiled;
        return std::string("bytes");
      });
      EXPECT_EQ(artifact->bytes, "bytes");
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(compiled, 1);
}

TEST_F(Kernels, WhatFailsToCompileIsTriedAgain) {
  KernelCache cache(folder_);
  const auto fail = []() -> std::string { throw Error(ErrorKind::Internal, "no"); };
  EXPECT_EQ(message_of([&] { cache.get(hash("one"), "k", ".bin", ".txt", "", fail); }, ErrorKind::Internal),
            "no");
  EXPECT_EQ(cache.get(hash("one"), "k", ".bin", ".txt", "", [] { return std::string("now"); })->bytes, "now");
}

TEST_F(Kernels, ASecondKeyFindsTheSameFile) {
  int compiled = 0;
  KernelCache cache(folder_);
  const auto made =
      cache.get(hash("one"), "k", ".bin", ".txt", "", [&] { return ++compiled, std::string("bytes"); });
  for (int twice = 0; twice < 2; ++twice) cache.also(*made, hash("two"), "k", ".bin");
  KernelCache next(folder_);
  ASSERT_NE(next.find(hash("two"), "k", ".bin"), nullptr);
  EXPECT_EQ(next.find(hash("two"), "k", ".bin")->bytes, "bytes");
  EXPECT_EQ(next.find(hash("three"), "k", ".bin"), nullptr);
  EXPECT_TRUE(files(".tmp").empty());
}

// ---------------------------------------------------------------- the host compiler

TEST_F(Kernels, HostTextBecomesAFunction) {
  Outcome outcome;
  const std::string text = "extern \"C\" int twice(int x) { return 2 * x; }";
  {
    KernelCache cache(folder_);
    const auto library = compile_host("twice", text, &outcome, cache);
    EXPECT_EQ(outcome.from, From::Compiled);
    EXPECT_EQ(library->function<int(int)>("twice")(21), 42);
    EXPECT_EQ(fs::path(library->path()).parent_path(), folder_);
  }
  KernelCache cache(folder_);
  EXPECT_EQ(compile_host("twice", text, &outcome, cache)->function<int(int)>("twice")(4), 8);
  EXPECT_EQ(outcome.from, From::Disk);
  EXPECT_EQ(files(".cpp").size(), 1u);
}

TEST_F(Kernels, HostTextRunsWithoutACacheFolderToo) {
  KernelCache cache("");
  const std::string one = "extern \"C\" int one() { return 1; }",
                    two = "extern \"C\" int one() { return 2; }";
  const auto first = compile_host("one", one, nullptr, cache),
             second = compile_host("one", two, nullptr, cache);
  EXPECT_EQ(first->function<int()>("one")(), 1);
  EXPECT_EQ(second->function<int()>("one")(), 2);
}

TEST_F(Kernels, ALibraryWhoseFileWasDeletedIsLoadedFromMemory) {
  KernelCache cache(folder_);
  const std::string text = "extern \"C\" int three() { return 3; }";
  compile_host("three", text, nullptr, cache);
  for (const auto& file : files(".so")) fs::remove(file);
  Outcome outcome;
  EXPECT_EQ(compile_host("three", text, &outcome, cache)->function<int()>("three")(), 3);
  EXPECT_EQ(outcome.from, From::Memory);
}

TEST_F(Kernels, AMissingSymbolIsNamed) {
  KernelCache cache(folder_);
  const auto library = compile_host("one", "extern \"C\" int one() { return 1; }", nullptr, cache);
  EXPECT_EQ(message_of([&] { library->symbol("two"); }, ErrorKind::Internal),
            library->path() + " does not export two");
}

TEST_F(Kernels, HostTextThatDoesNotCompileIsKeptAndTheLogIsShown) {
  KernelCache cache(folder_);
  const std::string message = message_of(
      [&] { compile_host("bad", "int f( { return nonsense; }", nullptr, cache); }, ErrorKind::Internal);
  EXPECT_NE(message.find(" did not compile bad (exit status 1): the text is " + folder_.string() + "/bad-"),
            message.npos)
      << message;
  EXPECT_NE(message.find("error:"), message.npos) << message;
  ASSERT_EQ(files(".cpp").size(), 1u);
}

TEST_F(Kernels, WithoutACompilerTheMessageSaysWhatToInstall) {
  const std::string path = std::getenv("PATH");
  use("PATH", folder_);
  KernelCache cache(folder_);
  EXPECT_EQ(message_of([&] { host_compiler(cache); }, ErrorKind::Unavailable),
            "no C++ compiler is on the PATH (looked for g++, c++, clang++): one is needed to compile the "
            "host side of a "
            "model. Install one (apt install g++), or set RONDO_CXX to its path");
  use("PATH", path);
}

TEST_F(Kernels, AWrongCompilerIsNamed) {
  KernelCache cache(folder_);
  use("RONDO_CXX", "/nowhere/c++");
  EXPECT_EQ(message_of([&] { host_compiler(cache); }, ErrorKind::Unavailable),
            "RONDO_CXX is '/nowhere/c++': expected the name or path of a C++ compiler that can be run. "
            "Correct or unset "
            "it");
  use("RONDO_CXX", "/bin/false");
  EXPECT_EQ(message_of([&] { host_compiler(cache); }, ErrorKind::Unavailable),
            "/bin/false --version ended with 1: expected a C++ compiler. Set RONDO_CXX to another one");
}

// A compiler that is a script: the real one, which notes in `calls` that it ran; or other work.
struct ScriptCompiler {
  fs::path path, calls;
  explicit ScriptCompiler(const fs::path& folder) : path(folder / "script"), calls(folder / "calls") {
    KernelCache none("");
    write("exec " + host_compiler(none).path + " \"$@\"");
  }
  void write(const std::string& work) const {
    std::ofstream(path) << "#!/bin/sh\necho \"$1\" >>" << calls.string() << "\n" << work << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }
  size_t ran() const {
    std::ifstream in(calls);
    size_t count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
  }
};

TEST_F(Kernels, AWarmStartDoesNotRunTheCompiler) {
  const ScriptCompiler compiler(folder_);
  use("RONDO_CXX", compiler.path);
  const std::string text = "extern \"C\" int five() { return 5; }";
  for (const size_t ran : {2u, 2u}) {  // --version and the text, once
    KernelCache cache(folder_);
    EXPECT_EQ(compile_host("five", text, nullptr, cache)->function<int()>("five")(), 5);
    EXPECT_EQ(compiler.ran(), ran);
  }
}

TEST_F(Kernels, AnotherCompilerUnderTheSameNameIsAskedAgainAndCompilesAnew) {
  const ScriptCompiler compiler(folder_);
  use("RONDO_CXX", compiler.path);
  const std::string text = "extern \"C\" int six() { return 6; }";
  KernelCache cache(folder_);
  compile_host("six", text, nullptr, cache);
  std::ofstream(compiler.path, std::ios::app) << "# another size\n";
  Outcome outcome;
  compile_host("six", text, &outcome, cache);
  EXPECT_EQ(outcome.from, From::Compiled);
  EXPECT_EQ(compiler.ran(), 4u);
}

TEST_F(Kernels, ADamagedNoteOfTheVersionIsMadeAgain) {
  trace::set_log_level(trace::Level::Off);
  const ScriptCompiler compiler(folder_);
  use("RONDO_CXX", compiler.path);
  std::string first;
  {
    KernelCache cache(folder_);
    first = host_compiler(cache).identity;
  }
  std::ofstream(files(".version").at(0)) << "g++ 99";
  KernelCache cache(folder_);
  EXPECT_EQ(host_compiler(cache).identity, first);
  EXPECT_EQ(compiler.ran(), 2u);
  trace::set_log_level(trace::Level::Warn);
}

TEST_F(Kernels, WithoutACompilerWhatAnyCompilerMadeIsTakenFromTheCache) {
  const std::string path = std::getenv("PATH");
  const std::string text = "extern \"C\" int seven() { return 7; }";
  {
    KernelCache cache(folder_);
    compile_host("seven", text, nullptr, cache);
  }
  use("PATH", "/nowhere");
  KernelCache cache(folder_);
  auto sink = std::make_shared<trace::MemorySink>();
  const auto attached = trace::attach(sink);
  Outcome outcome;
  EXPECT_EQ(compile_host("seven", text, &outcome, cache)->function<int()>("seven")(), 7);
  EXPECT_EQ(outcome.from, From::Disk);
  EXPECT_EQ(sink->events("kernel.without_compiler").at(0).text.substr(0, 57),
            "seven is taken from the cache: no C++ compiler is on the ");
  EXPECT_EQ(message_of([&] { compile_host("eight", "int eight;", nullptr, cache); }, ErrorKind::Unavailable)
                .substr(0, 32),
            "no C++ compiler is on the PATH (");
  use("PATH", path);
}

TEST_F(Kernels, ACompilerThatEndsWellAndWritesNoSharedObjectIsNamedAndNothingIsKept) {
  const ScriptCompiler compiler(folder_);
  use("RONDO_CXX", compiler.path);
  const std::string head = compiler.path.string() + " ended well and wrote ",
                    tail = " for k: expected a shared object. Set RONDO_CXX to a C++ compiler";
  KernelCache cache(folder_);
  const auto message = [&] {
    return message_of([&] { compile_host("k", "int k;", nullptr, cache); }, ErrorKind::Unavailable);
  };
  compiler.write("exit 0");
  EXPECT_EQ(message(), head + "nothing" + tail);
  // The file after -o, empty and then with a text in it.
  compiler.write("while [ $# -gt 1 ]; do [ \"$1\" = -o ] && : >\"$2\"; shift; done");
  EXPECT_EQ(message(), head + "nothing" + tail);
  compiler.write("while [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo done >\"$2\"; shift; done");
  EXPECT_EQ(message(), head + "5 bytes that are none" + tail);
  EXPECT_TRUE(files(".so").empty());
  EXPECT_TRUE(files(".cpp").empty());
}

TEST_F(Kernels, TheCompilersIdentityHoldsItsVersionAndTheCpu) {
  KernelCache cache(folder_);
  const HostCompiler compiler = host_compiler(cache);
  EXPECT_NE(compiler.identity.find("/"), std::string::npos);
  EXPECT_NE(compiler.identity.find("."), std::string::npos);
  EXPECT_NE(compiler.architecture, "native-" + hash("").hex()) << "nothing was read from /proc/cpuinfo";
}

// ---------------------------------------------------------------- NVRTC

bool has_nvrtc(std::string* why) {
  try {
    driver::nvrtc();
    return true;
  } catch (const Error& e) {
    *why = e.what();
    return false;
  }
}

const char kCuda[] = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }";

TEST_F(Kernels, CudaTextBecomesACubinAndIsFoundAgain) {
  std::string why;
  if (!has_nvrtc(&why)) GTEST_SKIP() << why;
  Outcome outcome;
  std::string first;
  {
    KernelCache cache(folder_);
    first = compile_cuda("twice", kCuda, "sm_90", &outcome, cache)->bytes;
    EXPECT_EQ(outcome.from, From::Compiled);
    EXPECT_EQ(first.substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_NE(first.find("twice"), first.npos);
  }
  KernelCache cache(folder_);
  EXPECT_EQ(compile_cuda("twice", kCuda, "sm_90", &outcome, cache)->bytes, first);
  EXPECT_EQ(outcome.from, From::Disk);
  EXPECT_NE(compile_cuda("twice", kCuda, "sm_80", &outcome, cache)->bytes, first);
  EXPECT_EQ(outcome.from, From::Compiled);
}

TEST_F(Kernels, CudaTextThatDoesNotCompileIsKeptAndTheLogIsShown) {
  std::string why;
  if (!has_nvrtc(&why)) GTEST_SKIP() << why;
  KernelCache cache(folder_);
  const std::string message =
      message_of([&] { compile_cuda("bad", "__global__ void f() { nonsense; }", "sm_90", nullptr, cache); },
                 ErrorKind::Internal);
  EXPECT_NE(message.find(" did not compile bad for sm_90: NVRTC_ERROR_COMPILATION: the text is " +
                         folder_.string()),
            message.npos)
      << message;
  EXPECT_NE(message.find("identifier \"nonsense\" is undefined"), message.npos) << message;
  EXPECT_EQ(files(".cu").size(), 1u);
}

TEST_F(Kernels, AnArchitectureThatNvrtcDoesNotKnowIsRefused) {
  std::string why;
  if (!has_nvrtc(&why)) GTEST_SKIP() << why;
  KernelCache cache(folder_);
  const std::string message =
      message_of([&] { compile_cuda("k", kCuda, "sm_999", nullptr, cache); }, ErrorKind::Unavailable);
  EXPECT_NE(message.find(" does not compile for sm_999: expected sm_"), message.npos) << message;
  EXPECT_NE(message.find("Install another NVRTC, or set RONDO_LIBNVRTC to the path of one"), message.npos)
      << message;
}

// A table that stands for a machine's NVRTC: it makes a "cubin" of the text.
struct FakeNvrtc {
  static inline int compiled = 0;
  static nvrtcResult arch_count(int* n) { return *n = 1, NVRTC_SUCCESS; }
  static nvrtcResult archs(int* a) { return *a = 90, NVRTC_SUCCESS; }
  static nvrtcResult create(nvrtcProgram* p, const char*, const char*, int, const char* const*,
                            const char* const*) {
    return *p = nullptr, NVRTC_SUCCESS;
  }
  static nvrtcResult destroy(nvrtcProgram*) { return NVRTC_SUCCESS; }
  static nvrtcResult compile(nvrtcProgram, int, const char* const*) { return ++compiled, NVRTC_SUCCESS; }
  static nvrtcResult size(nvrtcProgram, size_t* n) { return *n = 5, NVRTC_SUCCESS; }
  static nvrtcResult cubin(nvrtcProgram, char* p) { return memcpy(p, "cubin", 5), NVRTC_SUCCESS; }
  static driver::Nvrtc table(int major, int minor) {
    driver::Nvrtc n;
    n.nvrtcGetNumSupportedArchs = arch_count;
    n.nvrtcGetSupportedArchs = archs;
    n.nvrtcCreateProgram = create;
    n.nvrtcDestroyProgram = destroy;
    n.nvrtcCompileProgram = compile;
    n.nvrtcGetCUBINSize = size;
    n.nvrtcGetCUBIN = cubin;
    n.major = major, n.minor = minor;
    return n;
  }
};

TEST_F(Kernels, AnotherNvrtcCompilesAnew) {
  FakeNvrtc::compiled = 0;
  KernelCache cache(folder_);
  for (const driver::Nvrtc& table :
       {FakeNvrtc::table(12, 4), FakeNvrtc::table(13, 0), FakeNvrtc::table(12, 4)}) {
    driver::set_nvrtc_for_tests(&table);
    EXPECT_EQ(compile_cuda("k", "text", "sm_90", nullptr, cache)->bytes, "cubin");
  }
  driver::set_nvrtc_for_tests(nullptr);
  EXPECT_EQ(FakeNvrtc::compiled, 2);
}

TEST_F(Kernels, WithoutNvrtcACubinOfAnyNvrtcIsTakenFromTheCache) {
  use("RONDO_LIBNVRTC", "/nowhere/libnvrtc.so");
  KernelCache cache(folder_);
  const driver::Nvrtc table = FakeNvrtc::table(12, 4);
  driver::set_nvrtc_for_tests(&table);
  compile_cuda("k", "text", "sm_90", nullptr, cache);
  driver::set_nvrtc_for_tests(nullptr);
  Outcome outcome;
  EXPECT_EQ(compile_cuda("k", "text", "sm_90", &outcome, cache)->bytes, "cubin");
  EXPECT_EQ(outcome.from, From::Disk);
  const std::string message =
      message_of([&] { compile_cuda("k", "another", "sm_90", nullptr, cache); }, ErrorKind::Unavailable);
  EXPECT_EQ(message.substr(0, 58), "NVRTC, which compiles CUDA kernels, is not available: cann") << message;
}

}  // namespace
}  // namespace rondo::kernel
