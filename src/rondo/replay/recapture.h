// Work that is captured at every call and launched through one executable graph: for signatures that do not
// come again.
//
// Comes in: the work and the arguments of a call. Goes out: its work in the call's stream. The graph is this
// call's own, so nothing has to be found or proved; what is saved is the difference between launching a
// kernel (about 3.5 us) and capturing and updating it (0.6). Others rely on: when capture() or launch()
// returns false, nothing of the call has been done.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "rondo/graph.h"
#include "rondo/replay.h"

namespace rondo::replay {

class Recapture {
 public:
  // `stream` does not capture. The work is called once, into a capture of Rondo's own. Nothing is thrown,
  // also not what the work throws: it will do so again in the plain run.
  bool capture(const detail::WorkRef& work, std::span<const Argument> arguments);
  bool launch(CUstream stream);
  const std::string& why_not() const noexcept { return why_not_; }  // of the last false
  uint64_t instantiated() const noexcept { return instantiated_; }  // the graphs were not alike

 private:
  std::optional<graph::Stream> stream_;  // to capture on
  std::optional<graph::Graph> graph_;
  std::optional<graph::GraphExec> exec_;
  std::string why_not_;
  uint64_t instantiated_ = 0;
};

}  // namespace rondo::replay
