// A driver without a GPU: a table of functions over a small model of libcuda, with faults to order.
//
// It keeps what exists (memory, streams, events, modules, graphs, references to the context), knows the rules
// of stream capture that our code can meet (900 for what is not allowed, 901 after it, an end that makes the
// stream usable again), moves bytes (device memory is host memory), and logs launches; a kernel runs when it
// is given a body. Calls are counted in order: fail(k) makes the k-th from now fail without doing its work,
// except releases, which release and then report the failure, as the real ones may.
#pragma once
#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rondo/driver/driver.h"

namespace rondo::fake {

struct Launched {
  std::string kernel;
  uint32_t grid = 0, block = 0, shared_bytes = 0;
  bool dependent = false;
  std::vector<unsigned char> params;
  bool in_graph = false;
  bool operator==(const Launched&) const = default;
};

class FakeDriver {
 public:
  // In place of the real driver from here to the destructor. One at a time.
  explicit FakeDriver(int version = 13000);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const driver::Driver& table() const { return table_; }

  // The machine.
  int gpus = 1;
  int major = 9, minor = 0;
  size_t total_bytes = size_t{1} << 30;
  std::vector<std::string> kernels = {"k", "first", "second"};         // of every module
  std::map<std::string, std::function<void(const Launched&)>> bodies;  // what a kernel does

  // Faults.
  void fail(long call, CUresult code = CUDA_ERROR_UNKNOWN) { fail_at_ = calls_ + call, fail_code_ = code; }
  void fail_function(std::string name, CUresult code) { fail_name_ = std::move(name), fail_code_ = code; }
  void no_faults() { fail_at_ = 0, fail_name_.clear(); }
  long calls() const { return calls_; }
  const std::string& failed() const { return failed_; }  // the function that was made to fail last

  // What happened, what is left.
  std::vector<Launched> launches;
  std::vector<std::string> log;  // names of the calls
  size_t count(const std::string& function) const;
  std::string leaks() const;  // "" or what is still alive
  size_t used_bytes() const { return used_; }

 private:
  friend struct Calls;
  struct Thing {
    std::string kind;
    size_t bytes = 0;
    std::vector<Launched> nodes;                // graph, exec; a capture in progress of a stream
    bool capturing = false, broken = false;     // stream
    double time = 0;                            // event
    std::string name;                           // function
    int dynamic_limit = 48 * 1024;              // function
    std::map<std::string, uint64_t> functions;  // module
    std::shared_ptr<char[]> memory;
  };
  CUresult enter(const char* function);
  Thing* find(const void* handle, const char* kind);
  void* make(const char* kind);
  bool erase(const void* handle, const char* kind);
  // 900 and a broken capture when any stream is capturing.
  CUresult forbidden_in_capture();

  driver::Driver table_;
  const driver::Driver* before_ = nullptr;
  std::map<uint64_t, Thing> things_;
  uint64_t next_ = 0x1000;
  size_t used_ = 0;
  int context_references_ = 0, context_depth_ = 0;
  double clock_ms_ = 0;
  long calls_ = 0, fail_at_ = 0;
  std::string fail_name_, failed_;
  CUresult fail_code_ = CUDA_SUCCESS;
  int version_;
};

}  // namespace rondo::fake
