// What the tests of regions share: the fake driver with kernels over floats, buffers, and work to wrap.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "fake_driver.h"
#include "message_of.h"
#include "rondo/graph.h"
#include "rondo/replay.h"

namespace rondo::replay {

using test::message_of;

// A context that is current, a stream, and kernels: axpy(x, y, n, a): y = a x + y; scale(x, y, n, a): y = a
// x.
struct World {
  explicit World(int version = 13000) : fake(version), d(fake.table()) {
    fake.kernels = {"axpy", "scale", "twice", "half"};
    fake.parameter_bytes = {
        {"axpy", {8, 8, 4, 4}}, {"scale", {8, 8, 4, 4}}, {"twice", {8, 4}}, {"half", {8, 8, 4}}};
    fake.bodies["axpy"] = [](const fake::Launched& l) {
      for (int i = 0; i < number<int>(l, 16); ++i) at(l, 8)[i] += number<float>(l, 20) * at(l, 0)[i];
    };
    fake.bodies["scale"] = [](const fake::Launched& l) {
      for (int i = 0; i < number<int>(l, 16); ++i) at(l, 8)[i] = number<float>(l, 20) * at(l, 0)[i];
    };
    fake.bodies["twice"] = [](const fake::Launched& l) {
      for (int i = 0; i < number<int>(l, 8); ++i) at(l, 0)[i] *= 2;
    };
    fake.bodies["half"] = [](const fake::Launched& l) {  // writes the first half only
      for (int i = 0; i < number<int>(l, 16) / 2; ++i) at(l, 8)[i] = at(l, 0)[i] / 2;
    };
    RONDO_CU(d, cuDevicePrimaryCtxRetain(&context, 0));
    RONDO_CU(d, cuCtxPushCurrent(context));
    RONDO_CU(d, cuModuleLoadDataEx(&module, "x", 0, nullptr, nullptr));
    RONDO_CU(d, cuModuleGetFunction(&axpy, module, "axpy"));
    RONDO_CU(d, cuModuleGetFunction(&scale, module, "scale"));
    RONDO_CU(d, cuModuleGetFunction(&twice, module, "twice"));
    RONDO_CU(d, cuModuleGetFunction(&half, module, "half"));
    RONDO_CU(d, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  // "" when everything that was made is gone.
  std::string close() {
    CUcontext ignored = nullptr;
    (void)d.cuStreamDestroy(stream);
    (void)d.cuModuleUnload(module);
    (void)d.cuCtxPopCurrent(&ignored);
    (void)d.cuDevicePrimaryCtxRelease(0);
    return fake.leaks();
  }

  void launch(CUstream s, CUfunction f, std::vector<void*> arguments) const {
    RONDO_CU(d, cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, arguments.data(), nullptr));
  }
  void do_axpy(CUstream s, const float* x, float* y, int n, float a) const {
    launch(s, axpy, {&x, &y, &n, &a});
  }
  void do_scale(CUstream s, const float* x, float* y, int n, float a) const {
    launch(s, scale, {&x, &y, &n, &a});
  }
  void do_twice(CUstream s, float* x, int n) const { launch(s, twice, {&x, &n}); }
  void do_half(CUstream s, const float* x, float* y, int n) const { launch(s, half, {&x, &y, &n}); }

  template <class T>
  static T number(const fake::Launched& l, size_t offset) {
    T v;
    std::memcpy(&v, l.params.data() + offset, sizeof v);
    return v;
  }
  static float* at(const fake::Launched& l, size_t offset) {
    return reinterpret_cast<float*>(number<uint64_t>(l, offset));
  }

  fake::FakeDriver fake;
  const driver::Driver& d;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction axpy = nullptr, scale = nullptr, twice = nullptr, half = nullptr;
  CUstream stream = nullptr;
};

// Floats in device memory, which the fake keeps on the host.
class Floats {
 public:
  Floats(const World& w, int n, float first = 1, int skip = 0) : d_(w.d), n_(n) {
    RONDO_CU(d_, cuMemAlloc(&base_, 4 * static_cast<size_t>(n + skip) + 4));
    data_ = reinterpret_cast<float*>(base_) + skip;
    for (int i = 0; i < n; ++i) data_[i] = first + static_cast<float>(i);
  }
  ~Floats() { (void)d_.cuMemFree(base_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data() const { return data_; }
  float& operator[](int i) const { return data_[i]; }
  int size() const { return n_; }

 private:
  const driver::Driver& d_;
  CUdeviceptr base_ = 0;
  float* data_;
  int n_;
};

inline CUdeviceptr address(const Floats& f) { return reinterpret_cast<CUdeviceptr>(f.data()); }

// Calls by what was done with them: as many as there were.
inline uint64_t sum_of_ways(const RegionReport& r) { return r.plain_calls + r.replays + r.recaptures; }

// Two kernels: y = 3x, z = z + 2y.
inline auto two_kernels(const World& w) {
  return [&w](CUstream s, const float* x, float* y, float* z, int n) {
    w.do_scale(s, x, y, n, 3);
    w.do_axpy(s, y, z, n, 2);
  };
}

class Regions : public testing::Test {
 protected:
  Regions() { quiet_.remember = false; }
  void TearDown() override { EXPECT_EQ(w_.fake.given_freed(), 0); }
  World w_;
  Options quiet_;  // nothing on disk
  Options always() const {
    Options o = quiet_;
    o.policy = Policy::always;
    return o;
  }
  static const RecordingReport& only(const RegionReport& r) {
    EXPECT_EQ(r.recordings.size(), 1u);
    return r.recordings.at(0);
  }
};

}  // namespace rondo::replay
