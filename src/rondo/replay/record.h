// Work becomes a recording that is proved, or a reason why not.
//
// Comes in: the work and the arguments of a call. Goes out: a Playable, or words. On every way the call is
// done plainly exactly once (see Recorded::called), the stream is clean, and what the work throws in its
// plain run comes out.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rondo/replay/costs.h"
#include "rondo/replay/playable.h"

namespace rondo::replay {

struct RecordOptions {
  Proof proof = Proof::exact;
  double tolerance = 0;
  Staging staging = Staging::auto_;
  bool host_tables = false;
  std::vector<bool> fixed;    // live scalars known to belong to the signature
  std::vector<bool> changes;  // buffers whose address was another one at the last call
};

struct Recorded {
  std::unique_ptr<Playable> playable;  // null: `reason` says why
  std::string reason;
  bool for_now = false;     // it may go well another time (memory)
  bool called = false;      // the work has been done plainly, on the call's arguments
  std::vector<bool> fixed;  // live scalars that turned out to belong to the signature
  uint64_t device_bytes = 0;
  std::string note;  // of a recording: what is staged and why
};

// `stream` does not capture. Errors: what the work throws in its plain run.
Recorded record(const detail::WorkRef& work, std::span<const Argument> arguments, CUstream stream,
                const RecordOptions& options);

}  // namespace rondo::replay
