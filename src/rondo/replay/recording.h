// A graph that can be launched with other arguments than it was captured with.
//
// Comes in: a graph, its image, its slots. Goes out: an exec that is patched, node by node, where an argument
// changed since the last launch. Others rely on: patch() allocates nothing, touches only nodes of changed
// arguments, and leaves the exec usable when it throws (the next patch() then writes every node).
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "rondo/replay.h"
#include "rondo/replay/slots.h"

namespace rondo::replay {

class Recording {
 public:
  // Instantiates and uploads. `arguments`: those it was captured with. Errors: Device.
  Recording(graph::Graph graph, Image image, std::vector<Slot> slots, std::span<const Argument> arguments,
            CUstream upload_to);
  ~Recording();

  // To these arguments (same signature). How many nodes were set. The launch that follows goes into `stream`:
  // tables that the graph's copies read on the host are not rewritten before the launch that reads them is
  // done. Errors: Device.
  unsigned patch(std::span<const Argument> arguments, CUstream stream);
  // The same, where only the arguments of these numbers differ from those of the last patch().
  unsigned patch(std::span<const Argument> arguments, std::span<const uint16_t> changed, CUstream stream);
  // Errors: Device.
  void launch(CUstream stream);
  // What launch() launches, where that is all that it does; null: there are tables to look after.
  const graph::GraphExec* exec() const noexcept;

  // From here on the exec of `other` serves both, updated to the one that is launched, and this one's own is
  // gone. False, and nothing is changed, where the two graphs differ in more than an update can do.
  bool share(Recording& other);
  // The same number for recordings that share an exec.
  uint64_t exec_number() const noexcept;

  size_t nodes() const noexcept;
  size_t kernels() const noexcept;
  size_t slot_count() const noexcept;
  size_t nodes_of(size_t argument) const noexcept;  // that hold this argument
  bool has_tables() const noexcept;
  // Of what is launched whatever the arguments: kinds, functions, shapes, edges, sizes of parameters; the
  // same in every process of the same program on the same driver.
  uint64_t structure() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rondo::replay
