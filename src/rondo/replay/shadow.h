// Buffers like those of a call, at addresses of their own: to record with, and to prove a recording on.
//
// Comes in: the arguments of a call. Goes out: arguments of the same kinds, sizes, alignment and kind of
// memory, with guards before and behind. Errors of every call: Device, with the bytes asked for.
#pragma once
#include <cuda.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rondo/replay/memory.h"

namespace rondo::replay {

class Shadow {
 public:
  Shadow(std::span<const Argument> like, const std::vector<Memory>& memory);
  ~Shadow();
  Shadow(Shadow&&) noexcept;
  Shadow& operator=(Shadow&&) = delete;

  // Scalars are those of the call.
  std::span<const Argument> arguments() const noexcept { return arguments_; }
  Argument& argument(size_t i) noexcept { return arguments_[i]; }
  uint64_t bytes() const noexcept;  // of device memory, guards included
  // Frees all but the chosen ones.
  void keep_only(const std::vector<bool>& which);

  // In `stream`: what the work reads, from `real`.
  void fill(size_t i, const Argument& real, CUstream stream) const;
  // Other contents than the call's, guards included: numbers that no computation gives by chance; for bytes,
  // which may be indices that a kernel follows, the call's own bytes in another order.
  void poison(size_t i, const Argument& real, CUstream stream) const;
  // Only the guards.
  void poison_guards(size_t i, CUstream stream) const;
  // After a synchronise. "" or what is wrong: "3 of 4096 bytes differ, the first at 12: 0x3f against 0x00".
  std::string compare(size_t i, const Argument& real, Proof proof, double tolerance, CUstream stream) const;
  uint64_t hash(size_t i, CUstream stream) const;  // of all, guards included
  std::string guards_still(size_t i, CUstream stream) const;

 private:
  struct Block {
    uint64_t base = 0, bytes = 0;
    Memory memory = Memory::None;
  };
  void release(Block* block) noexcept;
  const driver::Driver* driver_;
  CUcontext context_ = nullptr;  // which memory is freed in, whatever is current then
  std::vector<Argument> arguments_;
  std::vector<Block> blocks_;
};

// A copy of `bytes` between memory of any kind, in `stream`.
void copy(const driver::Driver& d, uint64_t to, Memory to_memory, uint64_t from, Memory from_memory,
          uint64_t bytes, CUstream stream);

}  // namespace rondo::replay
