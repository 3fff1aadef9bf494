#include "rondo/replay/playable.h"

#include <fmt/format.h>

#include <algorithm>

#include "rondo/driver/driver.h"
#include "rondo/replay/signature.h"

namespace rondo::replay {

Playable::Playable(std::unique_ptr<Recording> recording, Shadow recorded, std::vector<Memory> memory,
                   std::vector<bool> staged, Kept kept)
    : kept_(std::move(kept)),
      recording_(std::move(recording)),
      recorded_(std::move(recorded)),
      memory_(std::move(memory)),
      staged_(std::move(staged)),
      put_(recorded_.arguments().begin(), recorded_.arguments().end()),
      known_(memory_.size()) {
  for (size_t i = 0; i < staged_.size(); ++i) {
    if (!staged_[i]) continue;
    copies_ = true;
    copied_bytes_ += put_[i].bytes * (put_[i].kind == Kind::InOut ? 2 : 1);
  }
  asks_ = copies_ || std::find(memory_.begin(), memory_.end(), Memory::PageLocked) != memory_.end();
  if (copies_) done_ = graph::Event::create();
}

size_t Playable::staged_count() const noexcept {
  return static_cast<size_t>(std::count(staged_.begin(), staged_.end(), true));
}

void Playable::check_memory(std::span<const Argument> arguments) {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (memory_[i] == Memory::None || (memory_[i] != Memory::PageLocked && !staged_[i]) ||
        arguments[i].value == known_[i])
      continue;
    const Memory now = memory_of(arguments.subspan(i, 1))[0];
    if (now != memory_[i])
      throw OtherMemory(
          ErrorKind::Usage,
          fmt::format("{} is {} memory, and was {} memory when this was recorded: such calls are plain",
                      describe_argument(arguments, i), word(now), word(memory_[i])));
    known_[i] = arguments[i].value;
  }
}

void Playable::leave_shadows() {
  // The graph that the executable one was made from names them for good. Driver 580 never comes back from an
  // update by a graph, nor from a change of its node, where a copy names page-locked memory that was freed.
  std::vector<bool> kept = staged_;
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = kept[i] || memory_[i] == Memory::PageLocked;
  recorded_.keep_only(kept);
}

unsigned Playable::play(std::span<const Argument> arguments, CUstream stream) {
  if (asks_) check_memory(arguments);
  if (!copies_) {
    const unsigned patched = recording_->patch(arguments, stream);
    launch(stream);
    return patched;
  }
  const driver::Driver& d = driver::driver();
  for (size_t i = 0; i < put_.size(); ++i)
    if (!staged_[i]) put_[i] = arguments[i];
  const unsigned patched = recording_->patch(put_, stream);
  // The last play may still use what is copied to. Also on the same stream, as a new one may have an old
  // one's handle.
  done_->wait_in(stream);
  for (size_t i = 0; i < put_.size(); ++i)
    if (staged_[i] && arguments[i].kind != Kind::Out)
      copy(d, put_[i].value, memory_[i], arguments[i].value, memory_[i], arguments[i].bytes, stream);
  launch(stream);
  copy_back(arguments, stream);
  return patched;
}

void Playable::copy_back(std::span<const Argument> arguments, CUstream stream) {
  const driver::Driver& d = driver::driver();
  // Whether something of the caller's is written.
  bool any = false;
  for (size_t i = 0; i < put_.size(); ++i)
    any = any || (arguments[i].written() && arguments[i].bytes && !staged_[i]);
  for (size_t i = 0; i < put_.size(); ++i) {
    if (!staged_[i] || !arguments[i].written()) continue;
    for (int tries = 0;; ++tries) {
      try {
        copy(d, arguments[i].value, memory_[i], put_[i].value, memory_[i], arguments[i].bytes, stream);
        break;
      } catch (const Error& e) {
        if (!any) throw;
        if (tries)
          throw PartlyDone(e.kind(), fmt::format("results of a replay are lost, so what it writes is neither "
                                                 "old nor new; begin again from the inputs: {}",
                                                 e.what()));
      }
    }
    any = true;
  }
  try {
    done_->record(stream);
  } catch (const Error&) {  // the work is in the stream, so the call is done
    (void)d.cuStreamSynchronize(stream);
  }
}

}  // namespace rondo::replay
