// Owner of an abi::Recorder: what one thread of walking writes into. Grows as needed, keeps its memory over reset(), and
// turns the faults of generated code into Error(Usage) with instance, source line and values.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rondo/batch/abi.h"
#include "rondo/error.h"
#include "rondo/plan/plan.h"
#include "rondo/value.h"

namespace rondo::batch {

// Thrown instead of an Error when the stack is used up, so that the walk can be done again on a larger one.
struct StackUsedUp {
  std::string message;
};

class Recorder {
 public:
  // `file`: of the program, for messages.
  Recorder(const plan::Plan& plan, std::string file);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void reset();                                   // forgets records and values
  abi::Recorder* abi() { return &abi_; }
  void set_instance(size_t i) { instance_ = i; }  // for messages

  uint32_t phases() const { return phases_; }
  uint32_t deepest(uint32_t phase) const { return abi_.deepest[phase]; }
  // Records of each bucket, [depth << S | block]; has room for depths up to deepest().
  const uint32_t* counts(uint32_t phase) const { return abi_.count[phase]; }
  const abi::Log& log(size_t block) const { return logs_[block]; }

 private:
  static void grow_depths(abi::Recorder* r, uint32_t phase, uint32_t depth);
  static void grow_log(abi::Recorder* r, uint32_t block, uint32_t words);
  static void* grow_arena(abi::Recorder* r, uint64_t bytes);
  Error no_memory(const std::string& wanted) const;
  [[noreturn]] static void fault(abi::Recorder* r, abi::Fault fault, int32_t line, int64_t a, int64_t b);

  abi::Recorder abi_{};
  uint32_t phases_, block_bits_;
  std::string file_;
  size_t instance_ = 0;
  std::vector<abi::Log> logs_;
  std::vector<std::unique_ptr<char[]>> chunks_;
  std::vector<size_t> chunk_bytes_;
  size_t chunks_used_ = 0;
};

}  // namespace rondo::batch
