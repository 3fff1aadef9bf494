// Every CUDA kernel of every golden program and example model is compiled for sm_90; NVRTC needs no GPU for that.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "rondo/analysis/facts.h"
#include "rondo/analysis/reuse.h"
#include "rondo/codegen/codegen.h"
#include "rondo/error.h"
#include "rondo/kernel/nvrtc.h"
#include "rondo/lang/lang.h"
#include "rondo/plan/lower.h"
#include "rondo/plan/specialise.h"

namespace rondo {
namespace {

std::vector<std::filesystem::path> programs() {
  std::vector<std::filesystem::path> all;
  for (const char* folder : {"/tests/golden", "/examples/models"})
    for (const auto& entry : std::filesystem::directory_iterator(std::string(RONDO_SOURCE_DIR) + folder))
      if (entry.path().extension() == ".rondo" && entry.path().filename().string().find("_error_") == std::string::npos)
        all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

std::string cuda_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const ir::Program program = lang::parse_program(text.str(), path.filename().string());
  const analysis::Reuse reuse = analysis::find_reuse(program);
  const ir::Program specialised = plan::specialise(program, reuse);
  const analysis::Facts facts = analysis::find_facts(specialised);
  return codegen::emit_cuda_kernels(plan::lower(specialised, facts).plan, codegen::gemm_shared_bytes("sm_90")).text;
}

TEST(CudaKernels, OfEveryGoldenProgramCompile) {
  const std::vector<std::filesystem::path> all = programs();
  ASSERT_GT(all.size(), 25u);
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::string failures, unavailable;
  const auto work = [&] {
    for (size_t i = next++; i < all.size(); i = next++) {
      std::string failure;
      try {
        if (kernel::compile_cuda(all[i].stem().string(), cuda_text(all[i]), "sm_90")->bytes.empty()) failure = "an empty cubin";
      } catch (const Error& e) {
        const std::lock_guard lock(mutex);
        if (e.kind() == ErrorKind::Unavailable) unavailable = e.what();
        else failure = e.what();
      }
      const std::lock_guard lock(mutex);
      if (!failure.empty()) failures += all[i].filename().string() + ": " + failure + "\n";
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(failures, "");
  if (!unavailable.empty()) GTEST_SKIP() << unavailable;
}

}  // namespace
}  // namespace rondo
