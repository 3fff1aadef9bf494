// Where the arguments sit in a graph, found by comparing two captures at addresses that share nothing.
//
// Comes in: two images of the same work and what it was called with each time. Goes out: slots, or what could
// not be explained. Pure: no driver. Others rely on: when `problems` is empty, writing slot by slot gives the
// graph of any other arguments of the same signature, as far as the work is a function of its arguments (the
// proof tries).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "rondo/replay.h"
#include "rondo/replay/image.h"

namespace rondo::replay {

// `width` bytes at `offset` of a node's bytes (or of its table) are argument + addend, or the scalar's bits.
struct Slot {
  uint32_t node = 0;
  uint32_t offset = 0;
  uint16_t argument = 0;
  uint8_t width = 8;
  bool in_table = false;
  int64_t addend = 0;
};

struct Problem {
  uint32_t node = 0;
  int argument = -1;  // the one that it is about; -1: none in particular
  std::string text;   // with the node's description
};

struct Discovery {
  std::vector<Slot> slots;        // by argument, then by node
  std::vector<Problem> problems;  // empty: everything is explained
  // Of live scalars: those that are not found as they are, so that their value must belong to the signature.
  std::vector<uint16_t> fixed;
  size_t meaningless = 0;  // words that differ and were taken to mean nothing
};

// Memory that the work has for itself, elsewhere in each capture.
struct Own {
  uint64_t first = 0, second = 0, bytes = 0;
};

// `first` and `second` were captured with `a` and `b`: same kinds and sizes, buffers that share no byte, live
// scalars that differ, everything else equal. `elsewhere`: addresses that must not be in either graph, those
// of the caller's own buffers and of earlier captures: a word in there means that the work remembers
// addresses. `own`: what the work allocated by itself, whose addresses stay those of the first capture;
// results of kind Made may be in there. `no_memory`: a framework's kernels have structs with gaps, in which
// any word may be that lay on the stack or the heap; a word of a kernel that differs, is nothing that is
// known, and is not an address of memory by this in both captures, is such a one, and stays as it was
// captured. Only where a proof follows, which finds it if it did mean something. Null: there are none.
Discovery discover(const Image& first, std::span<const Argument> a, const Image& second,
                   std::span<const Argument> b, std::span<const Span64> elsewhere,
                   std::span<const Own> own = {}, bool (*no_memory)(uint64_t word) = nullptr);

}  // namespace rondo::replay
