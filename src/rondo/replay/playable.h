// A recording with what is copied for it: what a region launches instead of the work.
//
// Comes in: a call's arguments. Goes out: its work in the call's stream.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rondo/replay/arena.h"
#include "rondo/replay/recording.h"
#include "rondo/replay/shadow.h"
#include "rondo/replay_work.h"

namespace rondo::replay {

// Some of what the caller owns is written and some is not, so that the call can neither be taken as done nor
// be done again. It goes to the caller.
struct PartlyDone : Error {
  using Error::Error;
};

// A buffer is now in another kind of memory than the recording was made for: this call is plain, and nothing
// has failed.
struct OtherMemory : Error {
  using Error::Error;
};

// What a recording of a Work keeps besides its graph.
struct Kept {
  std::shared_ptr<const void> owner;
  bool stateful = false;
  Arena* arena = nullptr;
};

class Playable {
 public:
  // `staged`: arguments whose data is copied to and from `recorded`, where the recording expects it.
  Playable(std::unique_ptr<Recording> recording, Shadow recorded, std::vector<Memory> memory,
           std::vector<bool> staged, Kept kept = {});

  // How many nodes were patched. Errors: Device, before anything of the caller's is written; OtherMemory;
  // PartlyDone.
  unsigned play(std::span<const Argument> arguments, CUstream stream);
  // The same, where only the arguments of these numbers differ from those of the last play.
  unsigned play(std::span<const Argument> arguments, std::span<const uint16_t> changed, CUstream stream) {
    if (copies_ || asks_) [[unlikely]]
      return play(arguments, stream);
    const unsigned patched = recording_->patch(arguments, changed, stream);
    launch(stream);
    return patched;
  }
  const Recording& recording() const noexcept { return *recording_; }
  // What a play of the same arguments launches, where that is all that it does; else null.
  const graph::GraphExec* exec() const noexcept {
    return copies_ || kept_.stateful || kept_.arena ? nullptr : recording_->exec();
  }
  bool stateful() const noexcept { return kept_.stateful; }
  bool share(Playable& other) { return recording_->share(*other.recording_); }
  bool copies() const noexcept { return copies_; }
  uint64_t copied_bytes() const noexcept { return copied_bytes_; }  // a call
  uint64_t staged_bytes() const noexcept { return recorded_.bytes(); }
  size_t staged_count() const noexcept;
  // Frees what it was recorded on, but for what is staged and page-locked memory.
  void leave_shadows();
  Shadow& recorded() noexcept { return recorded_; }

 private:
  void launch(CUstream stream) {
    if (kept_.arena)
      kept_.arena->use(stream, [&] { recording_->launch(stream); });
    else
      recording_->launch(stream);
  }
  Kept kept_;  // goes last: the graph works in what it owns
  std::unique_ptr<Recording> recording_;
  Shadow recorded_;
  std::vector<Memory> memory_;
  std::vector<bool> staged_;
  std::vector<Argument> put_;  // with the recorded addresses of what is staged
  // Page-locked memory is read when the graph runs, which ordinary memory in its place may not be, and a copy
  // depends on the kind: where an address is another one, the driver is asked. The addresses that are known
  // to be right.
  std::vector<uint64_t> known_;
  bool asks_ = false;
  void check_memory(std::span<const Argument> arguments);
  bool copies_ = false;
  uint64_t copied_bytes_ = 0;
  std::optional<graph::Event> done_;  // of the last play with copies: the next one waits for it
  void copy_back(std::span<const Argument> arguments, CUstream stream);
};

}  // namespace rondo::replay
