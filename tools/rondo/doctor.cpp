// rondo doctor: what this machine has, what it lacks, and what to do about it. Everything is tried, not looked up: a
// program is compiled and called, a kernel is compiled, a device is opened.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <unistd.h>

#include "rondo/base/options.h"
#include "rondo/device/device.h"
#include "rondo/graph/self_test.h"
#include "rondo/kernel/host_compiler.h"
#include "rondo/kernel/nvrtc.h"
#include "verbs.h"

namespace rondo::tool {
namespace {

struct Arguments {
  std::string device = "cpu";
};

// Prints "ok  what  particulars", or "missing  what" and the reason with what to do. Returns whether it is there.
bool examine(const char* what, const std::function<std::string()>& check) {
  try {
    fmt::print("{:<8} {:<14} {}\n", "ok", what, check());
    return true;
  } catch (const Error& e) {
    fmt::print("{:<8} {:<14} {}\n", "missing", what, e.what());
    return false;
  }
}

std::string host_compiler_works() {
  // No cache: an old answer would say nothing about the compiler of today.
  kernel::KernelCache none("");
  const auto library = kernel::compile_host("doctor", "extern \"C\" int rondo_doctor() { return 42; }\n", nullptr, none);
  if (library->function<int()>("rondo_doctor")() != 42) {
    throw Error(ErrorKind::Unavailable, "the host compiler makes wrong code: set RONDO_CXX to another one");
  }
  return kernel::host_compiler(none).path + ", used to compile the host side of models and the cpu kernels";
}

std::string nvrtc_works() {
  kernel::KernelCache none("");
  const auto cubin = kernel::compile_cuda("doctor", "extern \"C\" __global__ void rondo_doctor(int* p) { *p = 42; }\n", "sm_90",
                                          nullptr, none);
  return fmt::format("compiles for sm_90 ({} bytes)", cubin->bytes.size());
}

std::string gpu_works() {
  const auto gpu = device::Device::open("cuda");
  const auto buffer = gpu->allocate(256);
  gpu->fill_zero(buffer, 0, 256);
  uint32_t word = 1;
  gpu->download(&word, buffer, 0, 4);
  gpu->synchronize();
  if (word != 0) throw Error(ErrorKind::Device, "the GPU answers, but memory that was cleared is not zero");
  const auto memory = gpu->memory();
  return fmt::format("{}, {} multiprocessors, {:.1f} of {:.1f} GiB free", gpu->description(), gpu->units(),
                     static_cast<double>(memory.free_bytes) / (1u << 30), static_cast<double>(memory.total_bytes) / (1u << 30));
}

// A line a step and GPU. Returns whether graphs work on all of them.
bool graphs_work() {
  bool all = true;
  try {
    for (const graph::SelfTest& test : graph::self_tests()) {
      fmt::print("{}", graph::report(test));
      all &= test.ok();
    }
  } catch (const Error& e) {
    fmt::print("{:<8} {:<14} {}\n", "failed", "graph", e.what());
    return false;
  }
  return all;
}

std::string cpu_features() {
  std::string found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) found += " avx2";
  if (__builtin_cpu_supports("fma")) found += " fma";
  if (__builtin_cpu_supports("avx512f")) found += " avx512f";
#endif
  const int asked = options().threads;
  return fmt::format("{} hardware threads{};{}", std::thread::hardware_concurrency(),
                     asked ? fmt::format(", RONDO_THREADS={}", asked) : "", found.empty() ? " no wide vectors" : found);
}

std::string cache_works() {
  const std::filesystem::path folder = options().cache_dir;
  if (folder.empty()) {
    throw Error(ErrorKind::Unavailable, "compiled kernels are not kept (RONDO_CACHE_DIR=off, or no home folder): every process "
                                        "compiles anew. Set RONDO_CACHE_DIR to a folder.");
  }
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  const std::filesystem::path probe = folder / fmt::format("doctor.{}", getpid());
  const bool written = static_cast<bool>(std::ofstream(probe) << "ok" << std::flush);
  std::filesystem::remove(probe, code);
  if (!written) {
    throw Error(ErrorKind::Unavailable, fmt::format("{} cannot be written: every process compiles anew. Set RONDO_CACHE_DIR to a "
                                                    "folder that can.", folder.string()));
  }
  uint64_t files = 0, bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (!entry.is_regular_file(code)) continue;
    ++files;
    bytes += entry.file_size(code);
  }
  return fmt::format("{}, {} files, {:.1f} MiB", folder.string(), files, static_cast<double>(bytes) / (1u << 20));
}

void doctor(const Arguments& a) {
  options();  // a variable with a nonsensical value is the caller's fault, not something that the machine lacks
  if (a.device != "cpu" && a.device != "cuda") {
    throw Error(ErrorKind::Usage, fmt::format("--device {}: expected cpu or cuda", a.device));
  }
  fmt::print("{:<8} {:<14} {}\n", "ok", "rondo", RONDO_VERSION);
  const bool compiler = examine("host compiler", host_compiler_works);
  examine("cpu", cpu_features);
  examine("cache", cache_works);
  const bool nvrtc = examine("nvrtc", nvrtc_works);
  const bool gpu = examine("gpu", gpu_works);
  const bool graphs = gpu && graphs_work();
  if (gpu) examine("graph watch", graph::describe_call_watch);
  const bool cuda = compiler && nvrtc && gpu && graphs;
  fmt::print("\nModels run on: {}.\n", !compiler ? "nothing" : cuda ? "cpu, cuda" : "cpu");
  if (!compiler) throw Error(ErrorKind::Unavailable, "models need a host compiler: see above");
  if (a.device == "cuda" && !cuda) throw Error(ErrorKind::Unavailable, "cuda was asked for: see above for what it lacks");
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("doctor", "What this machine has and lacks, and what to do about it");
  auto a = std::make_shared<Arguments>();
  verb->add_option("--device", a->device, "What must work for exit code 0: cpu or cuda (else 3)")->capture_default_str();
  verb->callback([a] { doctor(*a); });
}

}  // namespace rondo::tool
