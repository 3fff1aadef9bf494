// The smallest proof that graphs work on a GPU: capture, instantiate, replay, compare, update, replay,
// compare. For `rondo doctor`: each step is ok, or says what is wrong and what to do.
//
// The captured work is one node of each common kind: a fill, a copy, a kernel (from PTX), a host function, a
// copy back. Each writes what the others do not, so a node that did not run shows.
#pragma once
#include <string>
#include <vector>

namespace rondo::graph {

struct SelfTestStep {
  std::string name;  // "capture"
  bool tried = false, ok = false;
  std::string text;  // particulars, or the error with cause and remedy
};

struct SelfTest {
  int gpu = 0;
  std::vector<SelfTestStep> steps;
  bool ok() const noexcept;
};

// Steps after one that failed are not tried. What fails is a step that is not ok, never an exception.
SelfTest self_test(int gpu);
// Of every GPU. Throws Error(Unavailable) where there is no driver, and Error(Device) where it does not
// start.
std::vector<SelfTest> self_tests();

// A line a step: "ok       graph, GPU 0   capture: 5 nodes, a fill, ...", "failed   ...", "skipped  ...".
std::string report(const SelfTest& test);

// What a capture that breaks can tell on this machine: "the driver's log, and callers through CUPTI 130001
// (path)".
std::string describe_call_watch();

}  // namespace rondo::graph
