// What the tests of recordings share: the fake driver with a context, a stream and kernels to order;
// captures.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "fake_driver.h"
#include "message_of.h"
#include "rondo/error.h"
#include "rondo/graph.h"
#include "rondo/replay.h"
#include "rondo/replay/image.h"

namespace rondo::replay {

using test::message_of;

inline Argument buffer(CUdeviceptr base, size_t bytes, Kind kind = Kind::InOut) {
  return {base, bytes, kind, Element::Bytes, 0};
}
template <class T>
Argument scalar(Kind kind, T value) {
  Argument a{0, sizeof value, kind, Element::Bytes, 0};
  std::memcpy(&a.value, &value, sizeof value);
  return a;
}

// Everything that it makes is gone with it; leaks() says what is left of others.
class Machine {
 public:
  explicit Machine(int version = 13000) : fake(version), d(fake.table()) {
    RONDO_CU(d, cuDevicePrimaryCtxRetain(&context, 0));
    RONDO_CU(d, cuCtxPushCurrent(context));
    RONDO_CU(d, cuModuleLoadDataEx(&module, "x", 0, nullptr, nullptr));
    RONDO_CU(d, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  // "" when everything that others made is gone. The machine is done with then.
  std::string close() {
    CUcontext ignored = nullptr;
    for (CUdeviceptr p : memory_) (void)d.cuMemFree(p);
    for (void* p : host_) (void)d.cuMemFreeHost(p);
    (void)d.cuStreamDestroy(stream);
    (void)d.cuModuleUnload(module);
    (void)d.cuCtxPopCurrent(&ignored);
    (void)d.cuDevicePrimaryCtxRelease(0);
    return fake.leaks();
  }

  // A kernel that takes parameters of these sizes, each aligned to its size.
  CUfunction kernel(const std::string& name, std::vector<size_t> sizes) {
    fake.kernels.push_back(name);
    fake.parameter_bytes[name] = std::move(sizes);
    CUfunction f = nullptr;
    RONDO_CU(d, cuModuleGetFunction(&f, module, name.c_str()));
    return f;
  }
  // Device memory, zero.
  CUdeviceptr memory(size_t bytes) {
    CUdeviceptr p = 0;
    RONDO_CU(d, cuMemAlloc(&p, bytes));
    std::memset(reinterpret_cast<void*>(p), 0, bytes);
    memory_.push_back(p);
    return p;
  }
  template <class T>
  T* page_locked(size_t count) {
    void* p = nullptr;
    RONDO_CU(d, cuMemHostAlloc(&p, count * sizeof(T), 0));
    std::memset(p, 0, count * sizeof(T));
    host_.push_back(p);
    return static_cast<T*>(p);
  }
  Argument argument(size_t bytes) { return buffer(memory(bytes), bytes); }

  template <class Work>
  graph::Graph capture(Work&& work) {
    return graph::capture(stream, [&](graph::Capture&) { work(); });
  }
  template <class... Args>
  void launch(CUfunction f, const Args&... args) {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&args))..., nullptr};
    RONDO_CU(d, cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, pointers, nullptr));
  }
  void launch_packed(CUfunction f, std::vector<uint8_t> block) {
    size_t bytes = block.size();
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    RONDO_CU(d, cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, extra));
  }

  fake::FakeDriver fake;
  const driver::Driver& d;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUstream stream = nullptr;

 private:
  std::vector<CUdeviceptr> memory_;
  std::vector<void*> host_;
};

template <class T>
T at(const std::vector<uint8_t>& bytes, size_t offset) {
  T value{};
  EXPECT_LE(offset + sizeof value, bytes.size());
  if (offset + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}
template <class T>
void put(std::vector<uint8_t>* bytes, size_t offset, const T& value) {
  if (bytes->size() < offset + sizeof value) bytes->resize(offset + sizeof value);
  std::memcpy(bytes->data() + offset, &value, sizeof value);
}
inline CUDA_MEMCPY3D copy_of(const NodeImage& n) { return at<CUDA_MEMCPY3D>(n.bytes, 0); }

inline std::vector<Span64> spans(const std::vector<Argument>& arguments) {
  std::vector<Span64> out;
  for (const Argument& a : arguments)
    if (a.buffer()) out.push_back({a.value, a.bytes});
  return out;
}

}  // namespace rondo::replay
