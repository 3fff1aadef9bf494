// What regions report, beyond the public functions of replay.h: to a file at the end of the process, and to
// the trace.
//
// All of this is off the hot path: a decision is told once, counts are told as differences now and then.
#pragma once
#include <span>
#include <string>

#include "rondo/replay.h"

namespace rondo::replay {

// The JSON of these regions, whole or not at all. Never throws: a file that cannot be written is a note in
// the trace.
void write_report(const std::string& path, std::span<const RegionReport> regions) noexcept;
// Of all regions of the process.
inline void write_report(const std::string& path) { write_report(path, report()); }

// The note "replay.decision" (Info): which way a recording goes and why; "replay.refused" when there is none.
// When it was recorded, when it is decided, when a check changes it.
void trace_decision(const RegionReport& region, const RecordingReport& recording);
// The note "replay.fallback" (Info), in the words that the report gets.
void trace_fallback(const std::string& region, const std::string& why);

// Counters "replay.calls", "replay.replays", "replay.plain_calls", "replay.patched_nodes",
// "replay.copied_bytes" and "replay.failures": what has come since the last time. Perfetto shows them as
// running sums. For each region: a member.
class TraceCounts {
 public:
  // When a decision falls, at a check, for a report and at the end: not at every call.
  void tell(const RegionReport& now);

 private:
  uint64_t told_[6] = {};
};

}  // namespace rondo::replay
