// What a kind of work is for bench_replay_discovery, the one program that includes this and the kinds: its
// arguments, how they may be drawn, what it launches, and what is expected to become of it.
#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "replay_bench.h"

namespace replay = rondo::replay;
using bench::Type;
using replay::Argument;
using replay::Kind;

namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // From first to last, both included.
  int between(int first, int last) {
    return first + static_cast<int>(engine_() % static_cast<uint64_t>(last - first + 1));
  }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1.0p-53 < p; }
  float number() { return static_cast<float>(between(-4096, 4096)) / 1024.0f; }
  uint32_t bits() { return static_cast<uint32_t>(engine_() >> 32); }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[static_cast<size_t>(between(0, static_cast<int>(all.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

// One argument: a buffer, or a scalar that a trial may change.
struct Spec {
  Kind kind = Kind::In;
  Type type = Type::F32;
  size_t count = 0;      // of elements; a scalar has none
  size_t alignment = 4;  // that the work needs
  uint32_t range = 1;    // of Type::Index
  bool host = false;     // page-locked host memory
  int same_as = -1;      // may be given the same address as this argument
  bool integer = false;  // a scalar: its value is 1 to `most`, else any float
  int most = 0;
  bool buffer() const { return kind <= Kind::InOut; }
  size_t bytes() const { return count * bench::size_of(type); }
};
Spec input(Type t, size_t n, size_t alignment = 4) {
  return {Kind::In, t, n, std::max(alignment, bench::size_of(t))};
}
Spec output(Type t, size_t n, size_t alignment = 4) {
  return {Kind::Out, t, n, std::max(alignment, bench::size_of(t))};
}
Spec changed(Type t, size_t n, size_t alignment = 4) {
  return {Kind::InOut, t, n, std::max(alignment, bench::size_of(t))};
}
Spec live_float() { return {Kind::Live}; }
Spec live_int(int most) {
  Spec s{Kind::Live};
  s.integer = true, s.most = most;
  return s;
}
Spec fixed_int(int most) {
  Spec s = live_int(most);
  s.kind = Kind::Fixed;
  return s;
}

using Work = std::function<void(cudaStream_t, const Argument*)>;
struct Made {
  std::vector<Spec> specs;
  Work work;
  std::string sizes;
  replay::Proof proof = replay::Proof::exact;
  bool alone = false;  // a call is waited for before the next one
  bool host_tables = false;
};

enum class Outcome { Found, Staged, Refused, Plain };
const char* name(Outcome o) {
  const char* const names[] = {"found", "staged", "refused", "plain"};
  return names[static_cast<int>(o)];
}

enum class Needs { Nothing, Blas, BlasLt, Dnn };
struct Family {
  const char* name;
  std::vector<Outcome> expected;
  Needs needs;
  std::function<Made(Random&)> make;
  bool in_trials = true;  // false: the work breaks the contract, so that only a refusal is right
};

template <class T>
T* pointer(const Argument& a) {
  return reinterpret_cast<T*>(a.value);
}
template <class T>
T scalar(const Argument& a) {
  T value;
  std::memcpy(&value, &a.value, sizeof value);
  return value;
}
int blocks_for(size_t n) { return static_cast<int>((n + 255) / 256); }
template <class... T>
std::string sizes(const T&... n) {
  std::string text;
  ((text += (text.empty() ? "" : " x ") + std::to_string(n)), ...);
  return text;
}

// Device memory that the work keeps (weights, temporary memory, tables): the same in every call.
class Kept {
 public:
  explicit Kept(size_t bytes) { MUST(cudaMalloc(&data_, std::max<size_t>(bytes, 1))); }
  ~Kept() { (void)cudaFree(data_); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};
std::shared_ptr<Kept> keep(size_t bytes) { return std::make_shared<Kept>(bytes); }

// Host memory of the work's own, for tables that it copies to the device. A recording takes a copy of what
// lies in static and page-locked memory; memory from the heap may be gone when it looks, so that must be
// refused unless Options::host_tables promises that it is not.
enum class Host { Heap, HeapPromised, Static, PageLocked };
alignas(16) char static_tables[2][16384];
class Table {
 public:
  Table(Host where, size_t bytes, int which = 0) : where_(where) {
    if (where == Host::Static) {
      if (bytes > sizeof static_tables[0])
        throw rondo::Error(rondo::ErrorKind::Internal, "a static table is too small");
      data_ = static_tables[which];
    } else if (where == Host::PageLocked) {
      MUST(cudaMallocHost(&data_, bytes));
    } else {
      heap_.resize(bytes);
      data_ = heap_.data();
    }
  }
  ~Table() {
    if (where_ == Host::PageLocked) (void)cudaFreeHost(data_);
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Host where_;
  void* data_ = nullptr;
  std::vector<char> heap_;
};

}  // namespace
