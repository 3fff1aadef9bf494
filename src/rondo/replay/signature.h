// What makes two calls the same recording, and which arguments cannot be replayed together.
//
// Comes in: arguments of a call. Goes out: a key (kinds, sizes, alignment, plain scalars, the context), words
// for it. Pure. Others rely on: equal keys may be served by one recording that is patched to the other's
// addresses and live scalars.
#pragma once
#include <cuda.h>

#include <span>
#include <string>
#include <vector>

#include "rondo/replay.h"

namespace rondo::replay {

struct Key {
  CUcontext context = nullptr;
  // As the arguments, but the value of a buffer is its alignment, and that of an ordinary live scalar is 0.
  std::vector<Argument> shape;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  size_t operator()(const Key& key) const noexcept;
};

// 0 to 8: aligned to 1, 2, .. 256 bytes or more; 9: null.
unsigned alignment_class(uint64_t address) noexcept;
// Zero, one, minus one, what is not finite: libraries launch other work for these.
bool special(const Argument& live) noexcept;

// `fixed`: live scalars whose value belongs to the signature all the same.
Key key_of(CUcontext context, std::span<const Argument> arguments, const std::vector<bool>& fixed);
// Numbers of what key_of makes equal, and of the addresses and live scalars that it leaves out. Allocate
// nothing.
struct CallHash {
  uint64_t shape, values;
};
CallHash hash_of(CUcontext context, std::span<const Argument> arguments,
                 const std::vector<bool>& fixed) noexcept;
// Whether an argument in place of another leaves the key as it is. Allocates nothing.
bool same_shape(const Argument& a, const Argument& b, bool fixed) noexcept;

// "in 4096 B, out 4096 B, 1024, live 4 B"
std::string describe(std::span<const Argument> shape);
std::string describe_argument(std::span<const Argument> arguments,
                              size_t which);  // "argument 2 (out, 4096 bytes)"

// The first buffer that shares bytes with buffer `which` although one of both is written; -1: none.
int overlapping(std::span<const Argument> arguments, size_t which) noexcept;
// "argument 0 (in, 32 bytes) and argument 1 (out, 32 bytes) share memory: pass it once, as inout"
std::string share_memory(std::span<const Argument> arguments, size_t which, int other);
// Whether any of the buffers `changed` does. Allocates nothing when `scratch` has been given room for all
// arguments.
bool any_overlapping(std::span<const Argument> arguments, std::span<const uint16_t> changed,
                     std::vector<const Argument*>* scratch);

// Throws Error(Usage) for a null buffer of more than 0 bytes, one that ends behind all memory, an unknown
// kind, a live scalar that is no number of 4 or 8 bytes.
void check(std::span<const Argument> arguments);

// Another value for the live scalar of this number: each of its bytes is another one, and no two scalars get
// the same value, so that a place holds one of them only if it follows it.
uint64_t perturbed(const Argument& live, size_t which) noexcept;
// Of a live integer, another one of about its size (as a signed number): where it is a count after all, work
// with it comes to an end. Too alike to find places with.
uint64_t nearby(const Argument& live, size_t which) noexcept;

}  // namespace rondo::replay
