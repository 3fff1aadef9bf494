// Facts about CUDA graphs, each observed by the driver's own calls: which code a call answers, what a
// capture, an instantiation, an update does. ONE list, run on the fake driver in every test run, and on the
// real driver where there is one (else skipped, with the reason). A difference is a fault of the fake, or of
// what we believe: the test prints both.
//
// An observation is a line of numbers and words: codes in the order of the calls, results after a slash.
#include "graph_conformance.h"

#include <sys/wait.h>
#include <unistd.h>

namespace rondo::graph {
namespace {

// store, add, count_down and choose write through a pointer; the last two set a condition as well.
const char kKernels[] = R"(
.version 7.8
.target sm_80
.address_size 64
.visible .entry nop() { ret; }
.visible .entry store(.param .u64 p, .param .u32 v) {
  .reg .b32 %r<2>; .reg .b64 %a<3>;
  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; ld.param.u32 %r1, [v];
  st.global.u32 [%a2], %r1; ret;
}
.visible .entry add(.param .u64 p, .param .u32 v) {
  .reg .b32 %r<4>; .reg .b64 %a<3>;
  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; ld.param.u32 %r1, [v];
  ld.global.u32 %r2, [%a2]; add.u32 %r3, %r1, %r2; st.global.u32 [%a2], %r3; ret;
}
)";
const char kConditionKernels[] = R"(
.version 7.8
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
.visible .entry count_down(.param .u64 p, .param .u64 h) {
  .reg .pred %q; .reg .b32 %r<4>; .reg .b64 %a<4>;
  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; ld.param.u64 %a3, [h];
  ld.global.u32 %r1, [%a2]; sub.u32 %r2, %r1, 1; st.global.u32 [%a2], %r2;
  setp.ne.u32 %q, %r2, 0; selp.u32 %r3, 1, 0, %q;
  { .param .b64 x; .param .b32 y; st.param.b64 [x], %a3; st.param.b32 [y], %r3;
    call.uni cudaGraphSetConditional, (x, y); }
  ret;
}
.visible .entry choose(.param .u64 p, .param .u64 h) {
  .reg .b32 %r<2>; .reg .b64 %a<4>;
  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; ld.param.u64 %a3, [h];
  ld.global.u32 %r1, [%a2];
  { .param .b64 x; .param .b32 y; st.param.b64 [x], %a3; st.param.b32 [y], %r1;
    call.uni cudaGraphSetConditional, (x, y); }
  ret;
}
)";

// Writes how many blocks its cluster has.
const char kClusterKernels[] = R"(
.version 7.8
.target sm_90
.address_size 64
.visible .entry cluster_size(.param .u64 p) {
  .reg .b32 %r<2>; .reg .b64 %a<3>;
  ld.param.u64 %a1, [p]; cvta.to.global.u64 %a2, %a1; mov.u32 %r1, %cluster_nctaid.x;
  st.global.u32 [%a2], %r1; ret;
}
)";

class FakeWorld final : public World {
 public:
  FakeWorld() : FakeWorld(std::make_unique<Machine>()) {}
  ~FakeWorld() override { close_objects(); }

 private:
  explicit FakeWorld(std::unique_ptr<Machine> m) : World(m->d), machine_(std::move(m)) {
    nop = machine_->nop, store = machine_->store, add = machine_->add;
    count_down = machine_->count_down, choose = machine_->choose, cluster_size = machine_->cluster_size;
    open_objects();
  }
  std::unique_ptr<Machine> machine_;
};

class RealWorld final : public World {
 public:
  // Throws Error when there is no driver or no GPU.
  RealWorld() : World(driver::driver()) {
    if (const CUresult code = d.cuInit(0); code != CUDA_SUCCESS)
      throw Error(ErrorKind::Unavailable, "cuInit answers " + driver::describe(d, code));
    // Once for all facts: making a context takes a fifth of a second.
    static const CUcontext context = [this] {
      CUcontext c = nullptr;
      RONDO_CU(d, cuDevicePrimaryCtxRetain(&c, 0));
      return c;
    }();
    RONDO_CU(d, cuCtxPushCurrent(context));
    RONDO_CU(d, cuModuleLoadDataEx(&module_, kKernels, 0, nullptr, nullptr));
    RONDO_CU(d, cuModuleGetFunction(&nop, module_, "nop"));
    RONDO_CU(d, cuModuleGetFunction(&store, module_, "store"));
    RONDO_CU(d, cuModuleGetFunction(&add, module_, "add"));
    // Without them the facts about conditions or clusters fail, each with the reason.
    if (d.version >= 12030 && load(kConditionKernels, "kernels that set conditions", &conditions_)) {
      RONDO_CU(d, cuModuleGetFunction(&count_down, conditions_, "count_down"));
      RONDO_CU(d, cuModuleGetFunction(&choose, conditions_, "choose"));
    }
    if (load(kClusterKernels, "kernels in clusters", &clusters_))
      RONDO_CU(d, cuModuleGetFunction(&cluster_size, clusters_, "cluster_size"));
    image = kKernels;
    open_objects();
  }
  ~RealWorld() override {
    close_objects();
    CUcontext ignored = nullptr;
    (void)d.cuModuleUnload(module_);
    if (conditions_) (void)d.cuModuleUnload(conditions_);
    if (clusters_) (void)d.cuModuleUnload(clusters_);
    (void)d.cuCtxPopCurrent(&ignored);
  }

 private:
  bool load(const char* text, const char* what, CUmodule* module) {
    const CUresult code = d.cuModuleLoadDataEx(module, text, 0, nullptr, nullptr);
    if (code == CUDA_SUCCESS) return true;
    missing += std::string(" (") + what + " cannot be loaded: " + driver::describe(d, code) + ")";
    return false;
  }
  CUmodule module_ = nullptr, conditions_ = nullptr, clusters_ = nullptr;
};

std::vector<Fact> all_facts() {
  std::vector<Fact> all;
  for (auto* part : {capture_facts, node_facts, exec_facts, update_facts, library_facts})
    for (Fact& f : part()) all.push_back(std::move(f));
  return all;
}

// What the driver does, or "threw: ..." .
std::string observe(World& w, const Fact& f) {
  std::string observed;
  try {
    observed = f.observe(w);
  } catch (const Error& e) {
    observed = std::string("threw: ") + e.what();
  }
  if (observed != f.expected) observed += w.missing;
  return observed;
}

class Conformance : public testing::TestWithParam<Fact> {};

TEST_P(Conformance, OfTheFake) {
  FakeWorld world;
  EXPECT_EQ(observe(world, GetParam()), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Facts, Conformance, testing::ValuesIn(all_facts()),
                         [](const auto& info) { return std::string(info.param.name); });

// The fact of that name, in this program started again: what it prints, or how it ended.
std::string observe_elsewhere(const Fact& f) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0) return "cannot find this program";
  self[length] = 0;
  const std::string command = std::string("RONDO_FACT=") + f.name + " '" + self +
                              "' --gtest_filter=ConformanceOfTheRealDriver.OneFact 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "cannot be started again";
  std::string text;
  char part[512];
  for (size_t n = 0; (n = fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, n);
  const int status = pclose(pipe);
  const std::string before = "[ OBSERVED ] ";
  if (const size_t at = text.find(before); at != text.npos)
    return text.substr(at + before.size(), text.find('\n', at) - at - before.size());
  // A shell says 128 and the signal's number.
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
  return signal > 0 ? "ends the process by signal " + std::to_string(signal) : "said nothing: " + text;
}

// What observe_elsewhere() starts; nothing by itself.
TEST(ConformanceOfTheRealDriver, OneFact) {
  const char* name = std::getenv("RONDO_FACT");
  if (!name) GTEST_SKIP() << "RONDO_FACT names no fact";
  for (const Fact& f : all_facts()) {
    if (std::string(f.name) != name) continue;
    std::string observed;
    {
      RealWorld world;
      observed = observe(world, f);
    }  // what it left behind may end the process too
    std::printf("[ OBSERVED ] %s\n", observed.c_str());
    return;
  }
  FAIL() << "there is no fact " << name;
}

// One test, so that a machine without a GPU has one thing to skip; it says each fact before it tries it, in
// case that one ends the process.
TEST(ConformanceOfTheRealDriver, EveryFactHolds) {
  int held = 0, tried = 0;
  for (const Fact& f : all_facts()) {
    if (f.risk == Risk::EndsTheProcess) continue;
    std::unique_ptr<RealWorld> world;
    try {
      world = std::make_unique<RealWorld>();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::Unavailable) throw;
      GTEST_SKIP() << e.what();
    }
    if (world->d.version < f.since) continue;
    // Names of facts that are known to end the process, separated by commas: tools/gpu_suite.sh finds them.
    const char* skip = std::getenv("RONDO_SKIP_FACTS");
    if (skip && ("," + std::string(skip) + ",").find("," + std::string(f.name) + ",") != std::string::npos)
      continue;
    std::printf("[   FACT   ] %s: ", f.name);
    std::fflush(stdout);
    const std::string observed = f.risk == Risk::MayEndTheProcess ? observe_elsewhere(f) : observe(*world, f);
    std::printf("%s\n", observed.c_str());
    EXPECT_EQ(observed, f.expected) << "FACT " << f.name << " on " << world->d.name() << " ("
                                    << world->d.where << ")";
    ++tried, held += observed == f.expected;
  }
  std::printf("[   FACTS  ] %d of %d hold\n", held, tried);
}

}  // namespace
}  // namespace rondo::graph
