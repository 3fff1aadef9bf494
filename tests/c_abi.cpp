// The C ABI: codes and texts, used from C (tests/c_abi_c11.c) and from C++, with every kind of exception
// inside.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "fake_driver.h"
#include "rondo/rondo_c.h"

extern "C" int c_abi_steps(char* out, size_t room, uint64_t address);

namespace {

using rondo::fake::FakeDriver;

struct World {
  World() {
    CUcontext context = nullptr;
    RONDO_CU(d, cuDevicePrimaryCtxRetain(&context, 0));
    RONDO_CU(d, cuCtxPushCurrent(context));
    RONDO_CU(d, cuMemAlloc(&x, 16));
  }
  std::string close() {
    CUcontext ignored = nullptr;
    (void)d.cuMemFree(x);
    (void)d.cuCtxPopCurrent(&ignored);
    (void)d.cuDevicePrimaryCtxRelease(0);
    return fake.leaks();
  }
  FakeDriver fake;
  const rondo::driver::Driver& d = fake.table();
  CUdeviceptr x = 0;
};

TEST(CAbi, IsUsedFromC) {
  World world;
  char out[4096] = "";
  c_abi_steps(out, sizeof out, world.x);
  EXPECT_STREQ(out,
               "1 0 0\n"
               "0 0 1 1\n"    // plain: not replayed, run once, with the address
               "0 0 2 1 1\n"  // recorded: captured once, what it held is released, run plainly
               "5 the disk is full\n"
               "5 run() of the work failed without a reason (rondo_fail)\n"
               "1 rondo_region_call: run, capture, make and release of a rondo_work must be given: one of "
               "them is NULL\n"
               "1 rondo_region_call: region is NULL\n"
               "1 option \"policy\" is 3: expected \"auto\", \"always\" or \"never\"\n"
               "0 1\n");
  EXPECT_EQ(world.close(), "");
}

// Work that does nothing; the second of its callbacks to be called fails where it should.
struct Idle {
  rondo_work work = {this, run, capture, make, nullptr, release};
  int runs = 0;
  const char* why = nullptr;
  static int run(void* object, void*, rondo_argument*, int) {
    auto* const self = static_cast<Idle*>(object);
    ++self->runs;
    if (!self->why) return 0;
    rondo_fail(self->why);
    return 3;
  }
  static int capture(void*, rondo_argument*, rondo_captured*) { return 1; }
  static int make(void*, rondo_argument*) { return 0; }
  static void release(void*) {}
};

TEST(CAbi, AFailureIsAKindOfTheCallersAndATextOfTheThread) {
  World world;
  rondo_region* region = nullptr;
  ASSERT_EQ(rondo_region_create("r", nullptr, &region), RONDO_OK);
  Idle idle;
  idle.why = "no room";
  rondo_argument a = {world.x, 16, RONDO_IN, RONDO_F32, 0};
  EXPECT_EQ(rondo_region_call(region, nullptr, &a, 1, &idle.work, nullptr), RONDO_ERROR_WORK);
  EXPECT_STREQ(rondo_error_text(), "no room");
  std::thread([] { EXPECT_STREQ(rondo_error_text(), ""); }).join();
  a.kind = 77;
  EXPECT_EQ(rondo_region_call(region, nullptr, &a, 1, &idle.work, nullptr), RONDO_ERROR_USAGE);
  EXPECT_NE(std::strstr(rondo_error_text(), "argument 0 is of kind 77"), nullptr) << rondo_error_text();
  rondo_region_destroy(region);
  EXPECT_EQ(world.close(), "");
}

TEST(CAbi, AReasonIsOfTheCallbackThatLeftIt) {
  World world;
  rondo_region* region = nullptr;
  ASSERT_EQ(rondo_region_create("r", "{\"policy\": \"always\"}", &region), RONDO_OK);
  Idle idle;
  rondo_argument a = {world.x, 16, RONDO_IN, RONDO_F32, 0};
  rondo_fail("left by somebody before");
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(rondo_region_call(region, nullptr, &a, 1, &idle.work, nullptr), RONDO_OK);
  EXPECT_EQ(idle.runs, 3);
  char* text = nullptr;
  ASSERT_EQ(rondo_report_text(region, &text), RONDO_OK);
  EXPECT_NE(std::strstr(text, "capture() of the work failed without a reason (rondo_fail)"), nullptr) << text;
  rondo_free(text);
  rondo_region_destroy(region);
  EXPECT_EQ(world.close(), "");
}

TEST(CAbi, NullPointersAreTheCallersMistake) {
  World world;
  rondo_region* region = nullptr;
  char* text = nullptr;
  Idle idle;
  EXPECT_EQ(rondo_region_create(nullptr, nullptr, &region), RONDO_ERROR_USAGE);
  EXPECT_STREQ(rondo_error_text(), "rondo_region_create: name is NULL");
  EXPECT_EQ(rondo_region_create("r", nullptr, nullptr), RONDO_ERROR_USAGE);
  EXPECT_EQ(rondo_region_reset(nullptr), RONDO_ERROR_USAGE);
  EXPECT_EQ(rondo_report_json(nullptr, nullptr), RONDO_ERROR_USAGE);
  ASSERT_EQ(rondo_region_create("r", "", &region), RONDO_OK);
  EXPECT_EQ(rondo_region_call(region, nullptr, nullptr, 1, &idle.work, nullptr), RONDO_ERROR_USAGE);
  EXPECT_EQ(rondo_region_call(region, nullptr, nullptr, 0, nullptr, nullptr), RONDO_ERROR_USAGE);
  EXPECT_EQ(rondo_region_call(region, nullptr, nullptr, 0, &idle.work, nullptr), RONDO_OK);
  EXPECT_EQ(rondo_region_reset(region), RONDO_OK);
  ASSERT_EQ(rondo_report_json(region, &text), RONDO_OK);
  rondo_free(text);
  rondo_free(nullptr);
  rondo_region_destroy(nullptr);
  rondo_region_destroy(region);
  EXPECT_EQ(world.close(), "");
}

TEST(CAbi, SaysWhyThereIsNoGpu) {
  FakeDriver fake;
  EXPECT_EQ(rondo_available(), RONDO_OK);
  fake.fail_function("cuInit", CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(rondo_available(), RONDO_ERROR_UNAVAILABLE);
  EXPECT_NE(std::strstr(rondo_error_text(), "CUDA is not available: cuInit failed: CUDA_ERROR_UNKNOWN"),
            nullptr)
      << rondo_error_text();
  fake.no_faults();
  fake.gpus = 0;
  EXPECT_EQ(rondo_available(), RONDO_ERROR_UNAVAILABLE);
}

}  // namespace
