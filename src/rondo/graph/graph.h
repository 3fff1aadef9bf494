// CUDA graphs as owning C++ values: capture a stream, instantiate, launch, update.
//
// In: work on a stream. Out: a Graph, and from it (the only way) a GraphExec. Both are move-only; destructors
// never throw. Errors are Error(Device) with the driver's words; a failed capture leaves the stream usable.
// Contexts are the caller's: the one that the stream belongs to is current in every call.
#pragma once
#include <cuda.h>

#include <functional>
#include <string>
#include <utility>

#include "rondo/driver/driver.h"

namespace rondo::graph {

class Graph {
 public:
  Graph(const driver::Driver& d, CUgraph graph) : driver_(&d), graph_(graph) {}
  Graph(Graph&& other) noexcept : driver_(other.driver_), graph_(std::exchange(other.graph_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  CUgraph get() const { return graph_; }
  CUgraph release() { return std::exchange(graph_, nullptr); }
  const driver::Driver& driver() const { return *driver_; }
  size_t node_count() const;

 private:
  const driver::Driver* driver_;
  CUgraph graph_;
};

// Captures what `work` puts on `stream` (non-blocking, not capturing), in thread-local mode: calls of other
// threads are not disturbed and do not disturb. What `work` throws is thrown again after the capture is
// ended; its message names the call that broke the capture.
Graph capture(const driver::Driver& d, CUstream stream, const std::function<void()>& work);

struct [[nodiscard]] Updated {
  bool ok = false;
  std::string reason;  // when not ok: the driver's words; the exec is as it was
};

class GraphExec {
 public:
  GraphExec(const driver::Driver& d, CUgraphExec exec) : driver_(&d), exec_(exec) {}
  GraphExec(GraphExec&& other) noexcept
      : driver_(other.driver_), exec_(std::exchange(other.exec_, nullptr)) {}
  GraphExec& operator=(GraphExec&& other) noexcept;
  ~GraphExec();

  CUgraphExec get() const { return exec_; }
  CUgraphExec release() { return std::exchange(exec_, nullptr); }
  void upload(CUstream stream) const;
  void launch(CUstream stream) const;
  // To the parameters of a graph of the same topology. Attributes of kernel nodes are not compared.
  Updated update(const Graph& graph);

 private:
  const driver::Driver* driver_;
  CUgraphExec exec_;
};

// The failing node is named in the error.
GraphExec instantiate(const Graph& graph);

// "kernel node encode_Node_0", "memcpy node": for messages.
std::string describe_node(const driver::Driver& d, CUgraphNode node);

}  // namespace rondo::graph
