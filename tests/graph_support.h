// What the tests of graphs share: the fake driver with a context, a stream and kernels; messages.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "fake_driver.h"
#include "message_of.h"
#include "rondo/error.h"
#include "rondo/graph.h"

namespace rondo::graph {

using test::message_of;

// A context that is current, and the kernels of a module: nop(), store(p, v), add(p, v), count_down(p,
// condition), choose(p, condition) and cluster_size(p).
struct Machine {
  explicit Machine(int version = 13000) : fake(version), d(fake.table()) {
    fake.kernels = {"nop", "store", "add", "count_down", "choose", "cluster_size"};
    fake.parameter_bytes = {{"nop", {}},        {"store", {8, 4}},    {"add", {8, 4}}, {"count_down", {8, 8}},
                            {"choose", {8, 8}}, {"cluster_size", {8}}};
    fake.bodies["store"] = [](const fake::Launched& l) { *target(l) = value(l); };
    fake.bodies["add"] = [](const fake::Launched& l) { *target(l) += value(l); };
    fake.bodies["count_down"] = [this](const fake::Launched& l) {
      *target(l) -= 1;
      fake.set_condition(handle(l), *target(l) != 0);
    };
    fake.bodies["cluster_size"] = [](const fake::Launched& l) { *target(l) = l.cluster; };
    fake.bodies["choose"] = [this](const fake::Launched& l) { fake.set_condition(handle(l), *target(l)); };
    CUcontext context = nullptr;
    RONDO_CU(d, cuDevicePrimaryCtxRetain(&context, 0));
    RONDO_CU(d, cuCtxPushCurrent(context));
    RONDO_CU(d, cuModuleLoadDataEx(&module, "x", 0, nullptr, nullptr));
    for (auto [name, function] : {std::pair{"nop", &nop},
                                  {"store", &store},
                                  {"add", &add},
                                  {"count_down", &count_down},
                                  {"choose", &choose},
                                  {"cluster_size", &cluster_size}})
      RONDO_CU(d, cuModuleGetFunction(function, module, name));
    RONDO_CU(d, cuMemAlloc(&memory, 1024));
    RONDO_CU(d, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    std::memset(words(), 0, 1024);
  }
  // "" when everything that was made is gone.
  std::string close() {
    CUcontext ignored = nullptr;
    (void)d.cuStreamDestroy(stream);
    (void)d.cuMemFree(memory);
    (void)d.cuModuleUnload(module);
    (void)d.cuCtxPopCurrent(&ignored);
    (void)d.cuDevicePrimaryCtxRelease(0);
    return fake.leaks();
  }
  uint32_t* words() const { return reinterpret_cast<uint32_t*>(memory); }
  CUdeviceptr word(size_t i) const { return memory + 4 * i; }

  static uint32_t* target(const fake::Launched& l) {
    uint64_t p;
    std::memcpy(&p, l.params.data(), 8);
    return reinterpret_cast<uint32_t*>(p);
  }
  static uint32_t value(const fake::Launched& l) {
    uint32_t v;
    std::memcpy(&v, l.params.data() + 8, 4);
    return v;
  }
  static uint64_t handle(const fake::Launched& l) {
    uint64_t h;
    std::memcpy(&h, l.params.data() + 8, 8);
    return h;
  }

  fake::FakeDriver fake;
  const driver::Driver& d;
  CUmodule module = nullptr;
  CUfunction nop = nullptr, store = nullptr, add = nullptr, count_down = nullptr, choose = nullptr,
             cluster_size = nullptr;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
};

class Graphs : public testing::Test {
 protected:
  Machine m_;
  driver::Driver const& d_ = m_.d;
  auto store(size_t word, uint32_t value) { return kernel(m_.store, 1, 1, 0, m_.word(word), value); }
  auto add(size_t word, uint32_t value) { return kernel(m_.add, 1, 1, 0, m_.word(word), value); }
  void launch(CUstream stream, CUfunction function, CUdeviceptr p, uint32_t v) {
    void* args[] = {&p, &v};
    RONDO_CU(d_, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr));
  }
  uint32_t word(size_t i) const { return m_.words()[i]; }
};

}  // namespace rondo::graph
