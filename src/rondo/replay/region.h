// A region's state: its recordings by signature, and what each call does.
#pragma once
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "rondo/driver/driver.h"
#include "rondo/replay/recapture.h"
#include "rondo/replay/record.h"
#include "rondo/replay/report.h"
#include "rondo/replay/selector.h"
#include "rondo/replay/signature.h"

namespace rondo::replay::detail {

// A block of calls that is being timed, by one thread on one stream.
struct Block {
  bool open = false;
  std::thread::id thread;
  CUstream stream = nullptr;
  std::chrono::steady_clock::time_point start;
  unsigned foreign = 0;  // calls of others meanwhile
};

// What is known of one signature.
struct Entry {
  enum class State { Plain, Refused, Timing, Decided };
  Entry(Key k, std::string words, SelectorOptions options)
      : key(std::move(k)), signature(std::move(words)), selector(2, options) {}

  Key key;
  std::string signature;
  State state = State::Plain;
  bool busy = false;         // being recorded, outside of the lock
  bool replays_now = false;  // decided for the graph, or asked for: the fast path
  bool plain_now = false;    // refused or decided for plain
  std::unique_ptr<Playable> play;
  Selector selector;
  std::vector<Argument> last;  // of the last call
  bool in_place = false;       // `play` was last launched with these
  std::vector<bool> changes, fixed;
  uint64_t used = 0;  // when last
  uint64_t calls = 0, plain_calls = 0, replays = 0, patched = 0, record_at = 0;
  unsigned failures = 0, drops = 0;
  std::string reason, note;
  double record_us = 0;
  uint64_t device_bytes = 0;
  bool remembered = false;

  Block block;

  // 0: the arguments of the last call, 1: others that fit, -1: another signature, or memory that is shared.
  // Fills which_changed.
  int match(std::span<const Argument> arguments) noexcept;
  std::vector<uint16_t> which_changed;
  std::vector<const Argument*> scratch;
};

class RegionState {
 public:
  RegionState(std::string name, Options options);
  ~RegionState();

  void call(CUstream stream, std::span<const Argument> arguments, const WorkRef& work);
  bool call(CUstream stream, std::span<Argument> arguments, Work& work);
  RegionReport report();
  void reset();

  // ---- in a group: which way calls go, -1: as the region itself finds. False: it is steered already.
  bool join() noexcept;
  void leave() noexcept;
  void steer(int way) noexcept;
  enum class Readiness { Ready, Refused, NotYet };  // of the signature of the last call
  Readiness ready() const noexcept;
  uint64_t made() const noexcept;  // recordings so far, and calls that did not go the way they were told

  const std::string name;

 private:
  // All that a call with the arguments of the last one needs, on two lines of the cache. Counts go to their
  // places when something else happens.
  struct alignas(64) Fast {
    mutable graph::detail::SpinLock lock;  // of all of the region's state
    bool ready = false;
    uint32_t count = 0;              // of arguments
    const Argument* last = nullptr;  // of the current entry
    const graph::GraphExec* exec = nullptr;
    CUcontext context = nullptr;
    uint64_t until_check = 0;  // calls
    uint64_t replays = 0;      // since it was armed
    CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus*) = nullptr;
    CUresult (*current_context)(CUcontext*) = nullptr;
  };
  using Lock = std::unique_lock<graph::detail::SpinLock>;
  using EntryPtr = std::shared_ptr<Entry>;

  void other(Lock* lock, CUstream stream, std::span<const Argument> arguments, const WorkRef& work);
  void slow(Lock* lock, CUstream stream, std::span<const Argument> arguments, const WorkRef& work);
  void plain(Lock* lock, Entry* entry, CUstream stream, std::span<const Argument> arguments,
             const WorkRef& work);
  // False when it failed; the call is then still to be done.
  bool replay(Entry* entry, CUstream stream, std::span<const Argument> arguments, const WorkRef& work);
  // What a replay of a Work needs: memory for its results, and its state advanced. Throws what these throw.
  static void provide(std::span<const Argument> arguments, const WorkRef& work);
  static void advance(const Entry& entry, CUstream stream, const WorkRef& work);
  // The caller's, without the lock: `entry` may have lost its recording when it is back.
  void before_replay(Lock* lock, CUstream stream);
  void record_now(Lock* lock, const EntryPtr& entry, CUstream stream, std::span<const Argument> arguments,
                  const WorkRef& work);
  void time(Lock* lock, const EntryPtr& entry, CUstream stream, std::span<const Argument> arguments,
            const WorkRef& work);
  // A call of a signature that is not recorded yet; entry: null when it never came before.
  void fresh(Lock* lock, EntryPtr entry, CUstream stream, std::span<const Argument> arguments,
             const WorkRef& work);
  bool recapture(Lock* lock, CUstream stream, std::span<const Argument> arguments, const WorkRef& work);
  // One call of those that `selector` asks for, timed. ways(w) does it by way w, is called with the lock held
  // and returns so, false when the call was done another way.
  template <class Ways>
  void timed(Lock* lock, Block* block, Selector* selector, CUstream stream, const Ways& ways);
  // With a lock: also for later processes, and the lock is given up for that.
  void decided(Entry* entry, Lock* keep);
  void failed(Entry* entry, const std::string& why);
  void fall_back(const std::string& text);
  void tell(const Entry& entry);
  bool shared(Entry* newest, Entry* with);
  EntryPtr find(CUcontext context, std::span<const Argument> arguments);
  void make_room(Entry* newest);
  RecordingReport report_of(const Entry& entry) const;
  void drop(Entry* entry, const std::string& why);
  void check_memory(std::span<const Argument> arguments) const;

  void direct(Entry* entry) const noexcept;
  // The fast way on and off. settle() is called before anything is read or changed.
  void arm(Entry* entry) noexcept;
  void settle() noexcept;
  void again(Lock* lock) noexcept;
  bool checks() const noexcept { return policy_ != Policy::always && steered_ < 0; }

  Fast fast_;
  const Options options_;
  const Policy policy_;
  int steered_ = -1;
  bool in_group_ = false;
  uint64_t made_ = 0;
  const bool check_;
  // Signatures that came once. What comes again gets an entry; one that never does costs a look in here.
  struct Seen {
    uint64_t shape = 0, values = 0;
  };
  bool came_before(const CallHash& call, bool* changed);
  bool recorded_unfixed(CUcontext context, std::span<const Argument> arguments) const;
  std::vector<Seen> seen_;
  // By the hash of a shape: its entry, so that signatures in turns are found without making a key.
  std::unordered_map<uint64_t, EntryPtr> known_;
  std::unordered_map<Key, EntryPtr, KeyHash> entries_;
  EntryPtr current_;
  std::unordered_map<size_t, std::vector<bool>> fixed_;  // by number of arguments: live scalars that are none
  uint64_t clock_ = 0, calls_ = 0, plain_calls_ = 0, failures_ = 0, dropped_ = 0;
  uint64_t replays_ = 0, patched_ = 0;  // also of signatures that are forgotten
  // Calls of new signatures: way 0 plain, way 1 recapture_.
  struct Fresh {
    explicit Fresh(SelectorOptions options) : selector(2, options) {}
    uint64_t calls = 0, done = 0;
    unsigned failures = 0;
    bool busy = false;
    bool trusted = false;  // a replay was proved: the work is what it must be
    Selector selector;
    Block block;
    Recapture recapture;
    std::string why_not;
  } fresh_;
  std::deque<std::string> fallbacks_;
  TraceCounts told_;
  RegionReport summary() const;
};

SelectorOptions selector_options(const Options& options);
inline const std::vector<std::string> kWays = {"plain", "graph"};
constexpr uint64_t kFirstFreshCalls = 8;  // of new signatures are plain
// What a call gains by replay, by the measure that was taken; 0 when none was.
double gain_us(const std::vector<Alternative>& all);

// Of all regions there are and were.
std::vector<RegionReport> all_reports();

}  // namespace rondo::replay::detail
