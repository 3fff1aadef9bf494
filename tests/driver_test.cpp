#include "message_of.h"
#include "rondo/driver/driver.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "rondo/base/options.h"
#include "rondo/driver/cupti.h"
#include "rondo/driver/nvrtc.h"

namespace rondo::driver {
namespace {

namespace fs = std::filesystem;

using test::message_of;

class Found : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rondo_driver_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    use("RONDO_LIBCUDA", "");
    use("RONDO_LIBNVRTC", "");
    use("RONDO_LIBCUPTI", "");
    fs::remove_all(folder_);
  }
  static void use(const char* variable, const std::string& path) {
    path.empty() ? unsetenv(variable) : setenv(variable, path.c_str(), 1);
    reload_options();
  }
  // A shared library of this text, loaded from its own path.
  std::string build(const std::string& name, const std::string& text) {
    const std::string source = folder_ / (name + ".cpp"), library = folder_ / (name + ".so");
    std::ofstream(source) << text;
    EXPECT_EQ(std::system(("c++ -shared -fPIC -o " + library + " " + source).c_str()), 0);
    return library;
  }
  // A libcuda that has every function of versions up to its own, but for `missing`.
  std::string fake_libcuda(const std::string& name, int version, const std::string& missing = "") {
    return build(
        name,
        "#include <string.h>\n"
        "static const int version = " +
            std::to_string(version) +
            ";\n"
            "extern \"C\" int cuDriverGetVersion(int* v) { *v = version; return 0; }\n"
            "static int text(int, const char** t) { *t = \"a text\"; return 0; }\n"
            "static int fine() { return 0; }\n"
            "extern \"C\" int cuGetProcAddress_v2(const char* name, void** f, int v, unsigned long long, "
            "int* s) {\n"
            "  *f = 0; *s = 1;\n"
            "  if (!strcmp(name, \"" +
            missing +
            "\")) return 500;\n"
            "  if (v > version) { *s = 2; return 0; }\n"
            "  *s = 0; *f = strncmp(name, \"cuGetError\", 10) ? (void*)fine : (void*)text; return 0;\n"
            "}\n");
  }
  fs::path folder_;
};

TEST_F(Found, AMissingLibraryIsNamedWithTheReasonAndWhatToDo) {
  use("RONDO_LIBCUDA", "/nowhere/libcuda.so.1");
  EXPECT_EQ(
      message_of([] { load_driver(); }, ErrorKind::Unavailable),
      "CUDA is not available: cannot open /nowhere/libcuda.so.1 (No such file or directory). RONDO_LIBCUDA "
      "must "
      "be the path of a libcuda.so: correct it, unset it to look in the usual places, or use --device cpu.");
}

TEST_F(Found, WithoutADriverTheMessageSaysHowToGoOn) {
  if (void* real = dlopen("libcuda.so.1", RTLD_NOW)) {
    dlclose(real);
    GTEST_SKIP() << "this machine has a libcuda";
  }
  EXPECT_EQ(
      message_of([] { load_driver(); }, ErrorKind::Unavailable),
      "CUDA is not available: cannot open libcuda.so.1 (No such file or directory). Set RONDO_LIBCUDA to its "
      "path, or use --device cpu.");
}

TEST_F(Found, ALibraryThatIsNoDriverIsRefused) {
  const std::string path = build("other", "extern \"C\" void f() {}");
  use("RONDO_LIBCUDA", path);
  EXPECT_EQ(message_of([] { load_driver(); }, ErrorKind::Unavailable),
            "CUDA is not available: " + path +
                " has no cuDriverGetVersion. RONDO_LIBCUDA must be the path of a libcuda.so.");
}

TEST_F(Found, ADriverBeforeCuda12IsTooOld) {
  const std::string path = fake_libcuda("old", 11080);
  use("RONDO_LIBCUDA", path);
  EXPECT_EQ(message_of([] { load_driver(); }, ErrorKind::Unavailable),
            "CUDA is not available: " + path +
                " is driver older than R525 (CUDA 11.8), needed is R525 (CUDA 12.0) or newer. Update the "
                "driver, or "
                "use --device cpu.");
}

TEST_F(Found, EveryFunctionOfANewDriverIsFound) {
  use("RONDO_LIBCUDA", fake_libcuda("new", 13000));
  const auto d = load_driver();
  EXPECT_EQ(d->name(), "R580 (CUDA 13.0)");
  EXPECT_EQ(d->where, folder_ / "new.so");
#define RONDO_EXPECT(name, version, need) EXPECT_TRUE(static_cast<bool>(d->name)) << #name;
  RONDO_DRIVER_FUNCTIONS(RONDO_EXPECT)
#undef RONDO_EXPECT
}

TEST_F(Found, AMissingRequiredFunctionIsNamed) {
  const std::string path = fake_libcuda("part", 12040, "cuGraphLaunch");
  use("RONDO_LIBCUDA", path);
  EXPECT_EQ(
      message_of([] { load_driver(); }, ErrorKind::Unavailable),
      "CUDA is not available: " + path +
          " (R550 (CUDA 12.4)) does not have cuGraphLaunch. Set RONDO_LIBCUDA to a complete driver, or use "
          "--device cpu.");
}

#if CUDA_VERSION >= 12030
TEST_F(Found, AnOptionalFunctionThatIsTooNewAnswersAtTheCall) {
  use("RONDO_LIBCUDA", fake_libcuda("r535", 12020));
  const auto d = load_driver();
  EXPECT_FALSE(d->cuFuncGetName);
  const char* name = nullptr;
  EXPECT_EQ(message_of([&] { d->cuFuncGetName(&name, nullptr); }, ErrorKind::Unavailable),
            "cuFuncGetName needs driver R545 (CUDA 12.3), this is R535 (CUDA 12.2)");
}
#endif

TEST(DriverName, IsTheFirstBranchOfTheCudaVersion) {
  EXPECT_EQ(driver_name(12000), "R525 (CUDA 12.0)");
  EXPECT_EQ(driver_name(12060), "R560 (CUDA 12.6)");
  EXPECT_EQ(driver_name(13090), "newer than R590 (CUDA 13.9)");
  EXPECT_EQ(driver_name(11040), "older than R525 (CUDA 11.4)");
}

TEST(Check, AFailureSaysCallCodeTextAndContext) {
  Driver d;
  d.cuGetErrorName.set(
      +[](CUresult, const char** t) { return *t = "CUDA_ERROR_INVALID_VALUE", CUDA_SUCCESS; }, 13000);
  d.cuGetErrorString.set(
      +[](CUresult, const char** t) { return *t = "invalid argument", CUDA_SUCCESS; }, 13000);
  d.cuMemFree.set(
      +[](CUdeviceptr) { return CUDA_ERROR_INVALID_VALUE; }, 13000);
  EXPECT_EQ(message_of([&] { RONDO_CU(d, cuMemFree(0)); }, ErrorKind::Device),
            "cuMemFree failed: CUDA_ERROR_INVALID_VALUE (1): invalid argument");
  EXPECT_EQ(message_of([&] { RONDO_CU_WITH(d, cuMemFree(0), "kernel k, grid 1"); }, ErrorKind::Device),
            "cuMemFree failed: CUDA_ERROR_INVALID_VALUE (1): invalid argument [kernel k, grid 1]");
}

TEST_F(Found, AMissingNvrtcIsNamedWithWhatToInstall) {
  use("RONDO_LIBNVRTC", "/nowhere/libnvrtc.so");
  EXPECT_EQ(
      message_of([] { load_nvrtc(); }, ErrorKind::Unavailable),
      "NVRTC, which compiles CUDA kernels, is not available: cannot open /nowhere/libnvrtc.so (No such file "
      "or "
      "directory). Install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`, or set RONDO_LIBNVRTC to the "
      "path of libnvrtc.so");
}

#if RONDO_HAS_CUPTI
TEST_F(Found, AMissingCuptiIsNamedWithWhatToInstall) {
  use("RONDO_LIBCUPTI", "/nowhere/libcupti.so");
  EXPECT_EQ(message_of([] { load_cupti(); }, ErrorKind::Unavailable),
            "CUPTI, which tells who makes a call, is not available: cannot open /nowhere/libcupti.so (No such file "
            "or directory). Install the CUDA toolkit or `pip install nvidia-cuda-cupti`, or set RONDO_LIBCUPTI to "
            "the path of libcupti.so");
}

TEST_F(Found, ALibraryThatIsNoCuptiIsRefusedWithWhatItLacks) {
  use("RONDO_LIBCUPTI", build("other", "extern \"C\" int cuptiGetVersion(unsigned*) { return 0; }"));
  const std::string text = message_of([] { load_cupti(); }, ErrorKind::Unavailable);
  EXPECT_NE(text.find("other.so does not have cuptiGetResultString, cuptiSubscribe"), text.npos) << text;
}

TEST_F(Found, TheRealCuptiHasEveryFunction) {
  std::unique_ptr<Cupti> real;
  try {
    real = load_cupti();
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  EXPECT_NE(real->version, 0u) << real->where;
  const char* text = nullptr;
  EXPECT_EQ(real->cuptiGetResultString(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, &text), CUPTI_SUCCESS);
  EXPECT_STREQ(text, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
}

TEST_F(Found, CuptiInPlaceOfTheRealOneIsUsed) {
  Cupti mine;
  const Cupti* before = set_cupti_for_tests(&mine);
  EXPECT_EQ(&cupti(), &mine);
  set_cupti_for_tests(before);
}
#else
TEST_F(Found, ABuildWithoutTheHeadersOfCuptiSaysSo) {
  EXPECT_EQ(message_of([] { load_cupti(); }, ErrorKind::Unavailable),
            "CUPTI, which tells who makes a call, is not available: this build of Rondo was made without its headers. "
            "Build it where cupti_callbacks.h lies beside cuda.h (tools/setup.sh fetches both)");
}
#endif

TEST_F(Found, ALibraryThatIsNoNvrtcIsRefusedWithWhatItLacks) {
  use("RONDO_LIBNVRTC", build("other", "extern \"C\" int nvrtcVersion(int*, int*) { return 0; }"));
  const std::string text = message_of([] { load_nvrtc(); }, ErrorKind::Unavailable);
  EXPECT_NE(text.find("other.so does not have nvrtcGetErrorString, nvrtcCreateProgram"), text.npos) << text;
}

}  // namespace
}  // namespace rondo::driver
