// What a word that differs between two captures may mean: for slots.cpp.
//
// Comes in: the arguments of both captures, the memory that the graphs allocate. Goes out: for a pair of
// values, which address or scalar it is. Others rely on: a match is one only when it is the same in both
// captures.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "rondo/replay/slots.h"

namespace rondo::replay {

// "" or what is not the same and cannot be patched (slots_structure.cpp): of two graphs, with the node; of
// two nodes of one kind.
std::string other_graph(const Image& first, const Image& second, uint32_t* node);
std::string other_node(const NodeImage& first, const NodeImage& second);

// An address that is in the same memory at the same place in both captures.
struct Match {
  int count = 0;      // of candidates that are equally good; 0: none
  int argument = -1;  // -1: memory of the graph's own
  uint64_t addend = 0;
  bool end = false;  // just behind it
};

class Meanings {
 public:
  Meanings(const Image& first, std::span<const Argument> a, const Image& second, std::span<const Argument> b,
           std::span<const Own> own);

  // Arguments that differ between the captures: buffers, also empty ones, whose address is all there is; live
  // scalars.
  const std::vector<int>& buffers() const { return buffers_; }
  const std::vector<int>& scalars() const { return scalars_; }

  size_t width(int scalar) const { return bytes(scalar); }

  Match address(uint64_t x, uint64_t y) const;
  // Whether x is an address in something of the first capture, or y of the second.
  bool known(uint64_t x, uint64_t y) const;
  // How many bytes of the scalar, from its first, are the same in both captures.
  size_t same_bytes(int scalar) const;
  bool is(int scalar, uint64_t x, uint64_t y) const { return at(a_, scalar) == x && at(b_, scalar) == y; }

  // For people, and for who wants to do without patching an argument: what a word that is no match may be
  // made of, in words. The argument; -1 and no text: nobody knows.
  int guess(uint64_t x, uint64_t y, std::string* text) const;
  int guess_half(uint32_t x, uint32_t y, std::string* text) const;

 private:
  static uint64_t at(std::span<const Argument> arguments, int i) {
    return arguments[static_cast<size_t>(i)].value;
  }
  uint64_t bytes(int i) const { return a_[static_cast<size_t>(i)].bytes; }

  std::span<const Argument> a_, b_;
  std::vector<int> buffers_, scalars_;
  std::vector<Own> allocations_;
};

}  // namespace rondo::replay
