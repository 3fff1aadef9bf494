// Why a call on graphs failed, and what to do: a table from (code, phase, call, result) to a cause and a
// remedy.
//
// The rows are data, numbered as in docs/graph_diagnosis.md; the first that fits is taken, so special rows
// stand before general ones. What no status tells is advice: found by other means, or only said.
#pragma once
#include <cuda.h>

#include <span>
#include <string>
#include <string_view>

#include "rondo/driver/driver.h"

namespace rondo::graph {

enum class Phase { Capture, Build, Instantiate, Update, Launch };

struct Finding {
  const char* row;  // of the table: "3", "15b"
  CUresult code;
  Phase phase;
  bool any_phase;
  const char* calls;  // words of which one is part of the call's name, separated by |; "" = any call
  int result;         // CUgraphInstantiateResult or CUgraphExecUpdateResult; -1 = any
  const char* cause;
  const char* remedy;
};

struct Advice {
  const char* row;
  const char* symptom;
  const char* found;  // how Rondo finds it, or why it cannot
  const char* advice;
};

std::span<const Finding> findings();
std::span<const Advice> advice();

// Null when no row fits.
const Finding* diagnose(CUresult code, Phase phase, std::string_view call, int result = -1);

// ". <cause>. <remedy>", or "" when nothing is known.
std::string explain(CUresult code, Phase phase, std::string_view call, int result = -1);

// Throws Error(Device): the call, the driver's words, [context], cause and remedy, and what the driver's log
// says.
[[noreturn]] void fail(const driver::Driver& d, CUresult code, Phase phase, const char* call,
                       const std::string& context, int result = -1);

const char* describe(CUgraphInstantiateResult result);
const char* describe(CUgraphExecUpdateResult result);

}  // namespace rondo::graph

// Every status in this room is looked at by this; the context is made on failure.
#define RONDO_GRAPH_CHECK(d, phase, call, context)                                            \
  do {                                                                                        \
    if (const CUresult rondo_code_ = (d).call; rondo_code_ != CUDA_SUCCESS) [[unlikely]]      \
      ::rondo::graph::fail((d), rondo_code_, ::rondo::graph::Phase::phase, #call, (context)); \
  } while (0)
