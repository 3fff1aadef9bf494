#include "rondo/base/temporary.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace rondo {
namespace {

// A handler runs beside threads that add and take off paths. It reads a path only after taking its slot from Listed to
// Removing, and an owner writes one only after taking it from Free to Busy, so neither sees half of the other's work.
enum State { kFree, kBusy, kListed, kRemoving };
struct Slot {
  std::atomic<int> state{kFree};
  char path[Temporary::kLongest];
};
Slot slots[Temporary::kMost];
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait for a lock");

bool take(Slot& slot, int from, int to) { return slot.state.compare_exchange_strong(from, to); }

void remove_and_die(int signal) {
  remove_temporaries();
  ::raise(signal);  // its handler was reset when this one was entered
}

}  // namespace

Temporary::Temporary(const std::string& path) noexcept {
  if (path.size() >= kLongest) return;
  for (size_t i = 0; i < kMost; ++i) {
    if (!take(slots[i], kFree, kBusy)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].state.store(kListed);
    slot_ = static_cast<int>(i);
    return;
  }
}

// A slot that a handler has taken stays the handler's.
Temporary::~Temporary() {
  if (slot_ >= 0) take(slots[slot_], kListed, kFree);
}

void remove_temporaries() noexcept {
  const int error = errno;
  bool mine[Temporary::kMost];
  for (size_t i = 0; i < Temporary::kMost; ++i) mine[i] = take(slots[i], kListed, kRemoving);
  // A compiler that still runs may put a file into its folder between the two calls: once more, then.
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < Temporary::kMost; ++i)
      if (mine[i]) ::unlink(slots[i].path);
    for (size_t i = 0; i < Temporary::kMost; ++i)
      if (mine[i]) ::rmdir(slots[i].path);
  }
  errno = error;
}

void remove_temporaries_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    if (::sigaction(signal, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = remove_and_die;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace rondo
