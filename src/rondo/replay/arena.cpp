#include "rondo/replay/arena.h"

#include <map>
#include <memory>

#include "rondo/driver/driver.h"

namespace rondo::replay {

Arena& Arena::of(CUcontext context, uint64_t number) {
  // Never destroyed: recordings may be static.
  static auto* const all = new std::map<std::pair<CUcontext, uint64_t>, std::unique_ptr<Arena>>;
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<Arena>& arena = (*all)[{context, number}];
  if (!arena) arena = std::make_unique<Arena>();
  return *arena;
}

void Arena::order(CUstream stream) {
  const graph::Event done = graph::Event::create();  // one that is kept would outlive its context
  try {
    done.record(last_);
  } catch (const Error&) {
    // The stream is gone or captures; what was launched into it may still run.
    const graph::RelaxedScope relaxed;
    RONDO_CU(driver::driver(), cuCtxSynchronize());
    return;
  }
  done.wait_in(stream);
}

}  // namespace rondo::replay
