// A driver without a GPU: a table of functions over a model of libcuda, with faults to order.
//
// It keeps what exists (memory, streams, events, modules, graphs, execs, user objects, references to the
// context), knows the rules of stream capture (codes 900 to 908, per stream, event and thread), of
// instantiation and of update, moves bytes (device memory is host memory), and runs a launched graph in the
// order of its edges, conditional bodies included; a kernel does something when it is given a body. Calls are
// counted in order: fail(k) makes the k-th from now fail without doing its work, except releases and the end
// of a capture, which do it and then report the failure, as the real ones may. Functions newer than the
// version it is made with are not there.
//
// fake_driver.cpp: the machine, memory, modules. fake_driver_capture.cpp: streams, events, capture.
// fake_driver_graph.cpp and fake_driver_nodes.cpp: graphs and nodes. fake_driver_exec.cpp: instantiate,
// launch. fake_driver_update.cpp: updates.
#pragma once
#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rondo/driver/driver.h"

namespace rondo::fake {

struct Model;

struct Launched {
  std::string kernel;
  uint32_t grid = 0, block = 0, shared_bytes = 0;
  bool dependent = false;
  std::vector<unsigned char> params;
  bool in_graph = false;
  uint32_t cluster = 0;  // the first of its dimension
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
  size_t exec_bytes = 0;  // of device memory, that each executable graph takes from here on
  bool free_needs_context = false;  // memory is freed only while a context is current
  std::vector<std::string> kernels = {"k", "first", "second"};         // of every module
  std::map<std::string, std::function<void(const Launched&)>> bodies;  // what a kernel does
  std::map<std::string, std::vector<size_t>> parameter_bytes;  // of kernels whose arguments come as pointers
  // Attributes that a whole-graph update says it takes, and does not: the old value stays.
  std::vector<int> kept_attributes = {4, 11};

  // Faults.
  void fail(long call, CUresult code = CUDA_ERROR_UNKNOWN);
  void fail_function(std::string name, CUresult code);
  void no_faults();
  long calls() const;
  const std::string& failed() const;  // the function that was made to fail last

  // What a kernel's body does with a condition: cudaGraphSetConditional.
  void set_condition(uint64_t handle, unsigned value);

  // What happened, what is left.
  std::vector<Launched> launches;
  std::vector<std::string> log;  // names of the calls
  size_t count(const std::string& function) const;
  std::string leaks() const;  // "" or what is still alive
  size_t used_bytes() const;
  // How often two threads were in one exec at a time.
  int overlaps() const;
  // How often an exec was made of, or updated to, a graph, or a node was given a copy, with an address in
  // page-locked memory that was freed: on the real driver an update may never come back (R580). leaks() says it
  // too.
  int given_freed() const;
  // Attributes of the n-th kernel node of an exec: what a launch would use.
  int exec_attribute_cluster_x(CUgraphExec exec, size_t node) const;

 private:
  driver::Driver table_;
  const driver::Driver* before_ = nullptr;
  std::unique_ptr<Model> model_;
};

}  // namespace rondo::fake
