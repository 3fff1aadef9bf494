// What making a recording (record.cpp) and proving it (record_prove.cpp) share.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "rondo/replay/record.h"

namespace rondo::replay {

// What keeps the work from being a recording, in words.
struct Refused {
  std::string reason;
  bool once_more = false;  // what the first capture found new, the next one finds there
};

// The work plainly on the call's arguments, the recording replayed on `fresh`: the results must agree, and
// nothing else may be touched. Results that the work allocates are compared where its plain run has them,
// which `real` says then. Throws Refused; what the work throws in its plain run, from where on out->called is
// true.
void prove(const detail::WorkRef& work, std::vector<Argument>& real, CUstream stream,
           const RecordOptions& options, const std::vector<bool>& staged, Shadow* fresh, Playable* playable,
           Recorded* out);

}  // namespace rondo::replay
