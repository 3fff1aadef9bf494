#include "rondo/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>

#include "rondo/analysis/facts.h"
#include "rondo/analysis/reuse.h"
#include "rondo/base/memory.h"
#include "rondo/base/trace.h"
#include "rondo/batch/pack_weights.h"
#include "rondo/codegen/codegen.h"
#include "rondo/device/cpu_device.h"
#include "rondo/error.h"
#include "rondo/kernel/host_compiler.h"
#include "rondo/kernel/nvrtc.h"
#include "rondo/lang/lang.h"
#include "rondo/plan/lower.h"
#include "rondo/plan/specialise.h"

namespace rondo::session {
namespace {

double since_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Times stages, and keeps the text of the one that is wanted. Stages may be timed on two threads at once.
class Stages {
 public:
  explicit Stages(std::string file, std::string wanted = "") : file_(std::move(file)), wanted_(std::move(wanted)) {}

  template <class F>
  auto timed(const char* name, F&& stage) {
    const trace::Span span("session.stage", name);
    const auto start = std::chrono::steady_clock::now();
    auto result = naming_memory([&] { return fmt::format("in stage '{}' of compiling {}", name, file_); }, stage);
    note({name, since_ms(start), ""});
    return result;
  }
  void note(StageReport report) {
    const std::lock_guard lock(mutex_);
    reports_.push_back(std::move(report));
  }
  bool wants(const char* stage) const { return wanted_ == stage; }
  // For `return stages->show(..)`: nothing further is to be made.
  Session show(std::string text) {
    text_ = std::move(text);
    return {};
  }
  const std::string& text() const { return text_; }
  std::vector<StageReport> reports() const { return reports_; }

 private:
  std::string file_, wanted_, text_;
  std::mutex mutex_;
  std::vector<StageReport> reports_;
};

constexpr unsigned kMostThreads = 1024;  // as RONDO_THREADS

batch::Replay replay_of(const std::string& name) {
  if (name == "auto") return batch::Replay::Auto;
  if (name == "graph") return batch::Replay::Graph;
  if (name == "stream") return batch::Replay::Stream;
  throw Error(ErrorKind::Usage, fmt::format("there is no replay '{}': expected auto, graph or stream", name));
}

std::shared_ptr<device::Device> open_device(const ModelOptions& options) {
  if (options.threads > kMostThreads)
    throw Error(ErrorKind::Usage, fmt::format("{} threads: expected 0 (all that the machine has) to {}", options.threads, kMostThreads));
  std::shared_ptr<device::Device> device = device::Device::open(options.device);
  if (device->kind() == device::Kind::Cpu && options.threads > 0) device = device::open_cpu(options.threads);
  return device;
}

struct Kernels {
  std::vector<batch::LaunchKernel> launches;
  const device::Kernel* copy_table = nullptr;
  std::vector<std::shared_ptr<const void>> keep;
};

std::shared_ptr<kernel::HostLibrary> compile_cpp(const char* stage, const std::string& name, const std::string& text,
                                                 Stages* stages) {
  kernel::Outcome outcome;
  auto library = kernel::compile_host(name, text, &outcome);
  stages->note({stage, outcome.ms, kernel::name(outcome.from)});
  return library;
}

Kernels compile_cpu_kernels(const plan::Plan& plan, const std::string& text, device::Device* device, Stages* stages) {
  Kernels out;
  const auto library = compile_cpp("kernels", plan.name + "_cpu", text, stages);
  const auto* module = library->function<const abi::CpuModule*()>("rondo_cpu_module")();
  out.keep.push_back(library);
  out.launches = batch::cpu_launches(plan, *module, device, &out.keep);
  return out;
}

Kernels compile_cuda_kernels(const plan::Plan& plan, const codegen::CudaSource& source, device::Device* device,
                             Stages* stages) {
  Kernels out;
  kernel::Outcome outcome;
  const auto cubin = kernel::compile_cuda(plan.name, source.text, device->architecture(), &outcome);
  stages->note({"kernels", outcome.ms, kernel::name(outcome.from)});
  std::shared_ptr<device::Module> module = device->load(cubin->bytes);
  for (const codegen::CudaLaunch& launch : source.launches)
    out.launches.push_back({module->kernel(launch.name), launch.threads, launch.shared_bytes});
  out.copy_table = module->kernel(source.copy_table.name);
  out.keep.push_back(std::move(module));
  return out;
}

// The path. A stage sees only what the stages above it made; each throws when what it made is not as its header says.
Session build(const std::string& text, const std::string& file, const Weights& weights, const ModelOptions& options,
              Stages* stages) {
  const ir::Program program =
      stages->timed("parse", [&] { return lang::parse_program(text, file, options.defines); });
  if (stages->wants("ir")) return stages->show(ir::print(program));

  // Which values are the same for every instance; a function used with two sets of weights has two contexts.
  const analysis::Reuse reuse = stages->timed("reuse", [&] { return analysis::find_reuse(program); });
  if (stages->wants("reuse")) return stages->show(analysis::print(reuse, program));

  // From here on calls are recursive only, and weights stand where they are used.
  const ir::Program specialised = stages->timed("specialise", [&] { return plan::specialise(program, reuse); });
  ir::verify(specialised, "specialise");
  if (stages->wants("specialised")) return stages->show(ir::print(specialised));

  const analysis::Facts facts = stages->timed("facts", [&] { return analysis::find_facts(specialised); });
  if (stages->wants("facts")) return stages->show(analysis::print(facts, specialised));

  // The two towers part here: the plan is data for the run-time, the host form becomes the program that records.
  const plan::Lowered lowered = stages->timed("plan", [&] { return plan::lower(specialised, facts, options.fused); });
  const plan::Plan& plan = lowered.plan;
  ir::verify(lowered.host, "lower");
  plan::verify(plan);
  if (stages->wants("host")) return stages->show(ir::print(lowered.host));
  if (stages->wants("plan")) return stages->show(plan::print(plan));

  const std::string cpp = stages->timed("emit host", [&] { return codegen::emit_host_program(plan, lowered.host); });
  if (stages->wants("cpp")) return stages->show(cpp);
  if (stages->wants("cpu")) return stages->show(codegen::emit_cpu_kernels(plan));
  if (stages->wants("cuda")) return stages->show(codegen::emit_cuda_kernels(plan, codegen::gemm_shared_bytes("sm_90")).text);

  // What may be wrong on the caller's side is said before anything is compiled.
  batch::check_weights(plan, weights);
  const batch::Replay replay = replay_of(options.replay);
  const std::shared_ptr<device::Device> device = stages->timed("device", [&] { return open_device(options); });

  // Kernels and host program compile side by side: each takes a compiler process or NVRTC most of a second when cold.
  auto kernels = std::async(std::launch::async, [&] {
    if (device->kind() == device::Kind::Cpu) {
      const std::string source = stages->timed("emit kernels", [&] { return codegen::emit_cpu_kernels(plan); });
      return compile_cpu_kernels(plan, source, device.get(), stages);
    }
    const auto source = stages->timed("emit kernels", [&] {
      return codegen::emit_cuda_kernels(plan, codegen::gemm_shared_bytes(device->architecture()));
    });
    return compile_cuda_kernels(plan, source, device.get(), stages);
  });
  const auto host = compile_cpp("host program", plan.name + "_host", cpp, stages);
  Kernels compiled = kernels.get();

  batch::RuntimeParts parts{plan,
                            file,
                            host->function<const abi::Program*()>("rondo_program")(),
                            device,
                            std::move(compiled.launches),
                            compiled.copy_table,
                            std::move(compiled.keep)};
  parts.keep.push_back(host);
  Session session;
  session.runtime = stages->timed("load", [&] {
    return std::make_unique<batch::Runtime>(std::move(parts), weights,
                                            batch::RuntimeOptions{replay, options.threads, options.profile, options.dependent});
  });
  return session;
}

}  // namespace

Session load(const std::string& text, const std::string& file, const Weights& weights, const ModelOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Stages stages(file);
  Session session = build(text, file, weights, options, &stages);
  session.report.program = file;
  session.report.stages = stages.reports();
  session.report.load_ms = since_ms(start);
  return session;
}

const std::vector<std::string>& stages() {
  static const std::vector<std::string> names = {"ir",   "reuse", "specialised", "facts", "host",
                                                 "plan", "cpp",   "cpu",         "cuda"};
  return names;
}

std::string dump(const std::string& text, const std::string& file, const std::string& stage,
                 const std::vector<std::pair<std::string, int64_t>>& defines) {
  if (std::find(session::stages().begin(), session::stages().end(), stage) == session::stages().end())
    throw Error(ErrorKind::Usage, fmt::format("there is no stage '{}': expected one of {}", stage,
                                              fmt::join(session::stages(), ", ")));
  Stages shown(file, stage);
  ModelOptions options;
  options.defines = defines;
  build(text, file, {}, options, &shown);
  return shown.text();
}

}  // namespace rondo::session
