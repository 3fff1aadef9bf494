// Work that brings its own allocator and makes its own graphs: what a framework (PyTorch) gives to a region
// instead of a function that launches.
//
// A framework allocates results while it works, so their addresses are known only afterwards, and it captures
// by itself, because its allocator and its random numbers must know. Such results are arguments of kind Made:
//
//     struct Step : replay::Work { ... };
//     Argument a[] = {{x, bytes, Kind::In}, {0, bytes, Kind::Made}};
//     region.call(stream, a, step);      // replayed: a[1].value is memory of Step::make(), or what was given
//
// Results are patched like all other arguments, so that each call has results of its own, without a copy.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "rondo/replay.h"

namespace rondo::replay {

// The allocator's blocks are multiples of this, and memory for a result of kind Made has room up to the next
// multiple: an intermediate that lay in the same block before may move with the result.
constexpr uint64_t kMadeGranularity = 512;

struct Span {
  uint64_t address = 0, bytes = 0;
};

// What came of a capture.
struct CapturedWork {
  CUgraph graph = nullptr;  // the caller's: it is read and instantiated, never changed or destroyed
  std::shared_ptr<const void>
      owner;  // keeps the graph, and all memory that it works in, for as long as needed
  // All that was allocated during the capture, in the order of allocation, whether it was freed again or not:
  // the k-th of one capture is the k-th of another. Results of kind Made are among them.
  std::vector<Span> allocations;
  bool stateful = false;  // before_launch is to be called before each launch
  // What it allocated is shared with other captures of the same number and context: their launches are put
  // one after the other, on whatever streams. 0: it has memory of its own.
  uint64_t arena = 0;
};

class Work {
 public:
  virtual ~Work() = default;
  // The call, plainly, on these arguments. Results are the work's own affair: Made ones need not be filled
  // in. With `prove` it must fill them in, and a later before_launch(again) goes back to what the random
  // generators were before it.
  virtual void run(CUstream stream, Argument* arguments, bool prove) = 0;
  // A graph of the same work on these arguments, nothing of it executed. Fills in the addresses of Made
  // results, which stay where they are, and apart from those of later captures, as long as `owner` lives. A
  // result that is asked for as Out is written to the address that is given. The first capture is the one
  // that is replayed, and may use memory again as it goes; the others are compared with it: where these use
  // no memory twice, it can be seen in which nodes a result is, and not something that lay there before.
  virtual CapturedWork capture(Argument* arguments) = 0;
  // Memory for the Made results whose value is 0, for one replay.
  virtual void make(Argument* arguments) = 0;
  // Before each launch of a recording that is stateful, in the stream: what a plain call advances on the
  // host. `again`: as the plain call that went before it, to be compared with it.
  virtual void before_launch(CUstream stream, bool again) = 0;
};

}  // namespace rondo::replay
