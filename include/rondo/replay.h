// GPU work recorded once and replayed as a CUDA graph with this call's arguments, kept only where it pays.
//
//     replay::Region step("step", [&](CUstream s, const float* x, float* y, int n, float a) {
//       scale<<<(n + 255) / 256, 256, 0, s>>>(x, y, n, a);        // own kernels, cuBLAS, anything on a
//       stream
//     });
//     step(stream, replay::in(x, n), replay::out(y, n), n, replay::live(a));    // as often as needed
//
// The work is a function of its arguments: what changes from call to call is an argument, and so is every
// buffer that it writes. What it captures by reference must stay where it is (weights) and may not change
// what the work launches. It puts all of its work into the stream that it is given (or into streams forked
// from it by events and joined again), synchronises nothing, and is a proper function: while it is recorded
// it is called with other addresses, twice and where something is not explained some times more, and nothing
// of that is executed.
//
// A signature (kinds, sizes and alignment of the buffers, values of plain scalars, the context and with it
// the device) is recorded when it comes again: twice at addresses that share nothing; what differs is where
// the arguments sit; the recording is proved on fresh buffers against a plain run, with the recorded ones
// poisoned; and from there on plain and graph are timed in turns on live calls until it is clear which one is
// faster. Signatures that come once are plain; where there are many of them, their calls are captured one by
// one and launched through one executable graph, if that is faster (Options::recapture). Whatever fails on
// this way leaves the call done plainly, and the reason in the report.
//
// Calls of a region may come from several threads and on several streams: they are put into their streams one
// after the other. A region that is called while its stream is being captured runs plainly, into the capture.
// Errors: only those that the work itself throws in a plain run, and Error(Usage) for arguments that are
// none.
#pragma once
#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rondo/error.h"

namespace rondo::replay {

// ---------------------------------------------------------------- arguments
enum class Kind : uint32_t {
  In,     // a buffer that the work reads
  Out,    // ... writes all of: what was in it does not matter
  InOut,  // ... reads and writes, or writes in part
  Live,   // a scalar that may be another one at every call of the same recording
  Fixed,  // a scalar that belongs to the signature: another value is another recording
  Made,   // a buffer that the work allocates and writes all of (replay_work.h); value 0: make() gives it
};

// What a buffer holds, for comparing with a tolerance.
enum class Element : uint32_t { Bytes, F16, BF16, F32, F64 };

// An argument without its type: 32 bytes, compared as such.
struct Argument {
  uint64_t value = 0;  // an address, or the bits of a scalar, zero-extended
  uint64_t bytes = 0;  // of the buffer, of the scalar
  Kind kind = Kind::Fixed;
  Element element = Element::Bytes;
  uint64_t reserved = 0;
  bool buffer() const noexcept { return kind <= Kind::InOut || kind == Kind::Made; }
  bool written() const noexcept { return kind == Kind::Out || kind == Kind::InOut || kind == Kind::Made; }
  bool operator==(const Argument&) const noexcept = default;
};
static_assert(sizeof(Argument) == 32);

template <class T>
struct Buffer {
  T* data;
  size_t count;
  Kind kind;
};
struct AddressBuffer {
  CUdeviceptr data;
  size_t bytes;
  Kind kind;
};
template <class T>
struct LiveScalar {
  T value;
};

// Device memory, or page-locked host memory, of `count` elements.
template <class T>
Buffer<const T> in(const T* data, size_t count) noexcept {
  return {data, count, Kind::In};
}
template <class T>
Buffer<T> out(T* data, size_t count) noexcept {
  return {data, count, Kind::Out};
}
template <class T>
Buffer<T> inout(T* data, size_t count) noexcept {
  return {data, count, Kind::InOut};
}
inline AddressBuffer in(CUdeviceptr data, size_t bytes) noexcept { return {data, bytes, Kind::In}; }
inline AddressBuffer out(CUdeviceptr data, size_t bytes) noexcept { return {data, bytes, Kind::Out}; }
inline AddressBuffer inout(CUdeviceptr data, size_t bytes) noexcept { return {data, bytes, Kind::InOut}; }
// A scalar that the kernels take as it is (a learning rate, an alpha). One that is computed with on the way
// (n * 4), or that decides what is launched, is found to be so and becomes part of the signature. 0, 1, -1
// and what is not finite have recordings of their own, because libraries treat them specially. An integer
// costs a capture more.
template <class T>
LiveScalar<T> live(const T& value) noexcept {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "a live scalar is a number of 4 or 8 bytes");
  return {value};
}

// ---------------------------------------------------------------- how
enum class Policy {
  auto_,   // what is faster
  always,  // the graph wherever one can be made
  never,   // plain
};
enum class Goal {
  both,     // calls back to back; where these are equal, a single call with a wait
  period,   // calls back to back only
  latency,  // a single call with a wait only
};
// How a recording is proved equal to plain execution.
enum class Proof {
  exact,      // bit for bit
  tolerance,  // elements within Options::tolerance of the largest magnitude of the buffer; bytes bit for bit
  off,        // not at all: for work that must not be done twice. Nothing is executed on recorded addresses
  auto_,      // bit for bit where two replays of the same agree so; else (atomic additions) as tolerance, with what
              // sums in another order differ by at least: 1e-4 of the largest magnitude for F32, 4e-3 for F16, 2e-2
              // for BF16, 1e-9 for F64. Costs two replays more when a recording is made
};
// Where a changed address goes: into the nodes that hold it, or the data is copied to and from where the
// recording expects it.
enum class Staging { auto_, always, never };

struct Options {
  Policy policy = Policy::auto_;  // RONDO_REPLAY=never (or always) in the environment overrides it everywhere
  Goal goal = Goal::both;
  Proof proof = Proof::exact;
  double tolerance = 1e-5;
  Staging staging = Staging::auto_;
  // Ordinary host memory that the work copies from (a table of pointers that it fills, say) is still there
  // and unchanged when the work returns. Such a table is then found, kept and patched. Without this promise
  // only static and page-locked memory is read, as reading what is freed by then would make pointers of
  // anything.
  bool host_tables = false;
  // Calls whose signature does not come again are captured one by one and launched through one executable
  // graph, where that is faster than plain: sizes that follow the data, grids that follow sizes. One of them
  // is recorded and proved first.
  bool recapture = true;
  unsigned plain_calls = 1;                   // of a signature before it is recorded
  unsigned most_recordings = 64;              // that the region keeps
  uint64_t most_bytes = uint64_t{256} << 20;  // of device memory for them, as the driver reports it
  unsigned most_failures = 3;                 // then a signature stays plain
  // Called before each launch of a recording, with the stream: for state that plain calls advance on the
  // host, such as the offset of a random generator. As the work itself, by several threads at a time if these
  // call the region.
  std::function<void(CUstream)> before_replay;
  // Kept as long as the region: library handles, workspaces, weights.
  std::vector<std::shared_ptr<const void>> keep;
  // Every call asks the driver whether the buffers still exist (also: RONDO_REPLAY_CHECK=1).
  bool check_arguments = false;
  // Decisions are kept in RONDO_CACHE_DIR/replay under the region's name, the recording, device and driver.
  bool remember = true;
};

// ---------------------------------------------------------------- what came of it
struct Alternative {
  std::string name;       // "plain", "graph"
  double latency_us = 0;  // one call and a wait; 0: not measured
  double period_us = 0;   // a call, of several back to back
  unsigned samples = 0;
};
struct RecordingReport {
  std::string signature;  // "in 4096 B, out 4096 B, 1024"
  std::string state;      // "plain so far", "refused", "timing", "decided", "dropped"
  std::string choice;     // "plain", "graph"
  std::string reason;     // in words: why this choice, or why there is no recording
  size_t nodes = 0, kernels = 0, slots = 0;
  uint64_t patched_nodes = 0;        // in all replays so far
  uint64_t copied_bytes_a_call = 0;  // by staging
  uint64_t device_bytes = 0;         // as the driver reports, with what is staged
  double record_ms = 0;              // all of recording and proving
  double pays_after_calls = 0;       // recording, divided by what a call gains; 0: never
  bool remembered = false;           // the decision is from an earlier process
  uint64_t plain_calls = 0, replays = 0;
  std::vector<Alternative> alternatives;
};
struct RegionReport {
  std::string name;
  std::string policy;
  uint64_t calls = 0, plain_calls = 0, replays = 0, patched_nodes = 0, failures = 0, dropped = 0;
  uint64_t recaptures = 0;             // calls of new signatures that were captured and launched as a graph
  std::string recapture;               // how calls of new signatures are done, and why; "": there were few
  std::vector<std::string> fallbacks;  // in words, the last 16
  std::vector<RecordingReport> recordings;
};

// ---------------------------------------------------------------- events
// For work that waits for, or marks, what is outside of it: an event that a plain call and every replay waits
// for, or records anew. (In a capture that takes another call of the driver than outside.) Errors: Device.
void wait(CUevent event, CUstream stream);
void record(CUevent event, CUstream stream);

// Lines for people, one a region and one a recording.
std::string text(std::span<const RegionReport> regions);
std::string json(std::span<const RegionReport> regions);
std::vector<RegionReport> parse_reports(const std::string& json);  // throws Error(Usage)
// Of all regions of this process, in the order of their making.
std::vector<RegionReport> report();

// ---------------------------------------------------------------- the region
class Work;  // replay_work.h

namespace detail {
class PartsState;
class RegionState;

// The work, as something to call with arguments without types.
struct WorkRef {
  void* object;
  void (*invoke)(void* object, CUstream stream, const Argument* arguments);
  Work* own = nullptr;       // work that captures and allocates by itself, as which `object` is
  bool* replayed = nullptr;  // of such: set where the call was a replay
  void operator()(CUstream stream, const Argument* arguments) const { invoke(object, stream, arguments); }
};
}  // namespace detail

class RegionBase {
 public:
  RegionBase(std::string name, Options options);
  ~RegionBase();
  RegionBase(const RegionBase&) = delete;
  RegionBase& operator=(const RegionBase&) = delete;

  // The call without types. How often `work` is called:
  //   replay                                  not at all
  //   plain                                   once
  //   of a new signature, captured by itself  once, into the capture; once more where that fails, plainly
  //   recorded                                once plainly, and into captures: two where all is explained;
  //   one
  //                                           more for each time that live scalars turn out to belong to the
  //                                           signature; to find out which buffer is not explained, two and
  //                                           one a buffer. With Proof::off the plain one is left out where
  //                                           the recording is made: the call is its first replay
  void call(CUstream stream, std::span<const Argument> arguments, const detail::WorkRef& work);

  // Work that captures and allocates by itself. True: the call was a replay, and Made arguments are where its
  // results are; false: the work was run. It is run as often as above, and captured instead of called.
  bool call(CUstream stream, std::span<Argument> arguments, Work& work);

  RegionReport report() const;
  const std::string& name() const noexcept;
  // Waits for nothing; forgets recordings and decisions of this process.
  void reset();

 private:
  friend class Group;
  friend class detail::PartsState;
  std::unique_ptr<detail::RegionState> state_;
};

namespace detail {
template <class T>
constexpr Element element_of() noexcept {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) return Element::F32;
  if constexpr (std::is_same_v<U, double>) return Element::F64;
  return Element::Bytes;
}

// How an argument of the caller's becomes Arguments, and these become what the work takes.
template <class T>
struct Traits {  // a plain scalar or struct: by value, in words of 8 bytes
  static_assert(std::is_trivially_copyable_v<T>, "a plain argument is copied byte by byte");
  static_assert(!std::is_pointer_v<T>,
                "say how the work uses a pointer: replay::in(p, n), out(p, n) or inout(p, n)");
  static constexpr size_t kWords = (sizeof(T) + 7) / 8;
  static void pack(const T& from, Argument* to) noexcept {
    alignas(T) char raw[sizeof(T)];
    std::memcpy(raw, &from, sizeof(T));
    // What lies between members is no value: it would make a signature of each call.
#if defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_clear_padding)
    if constexpr (!std::has_unique_object_representations_v<T>)
      __builtin_clear_padding(reinterpret_cast<T*>(raw));
#endif
#endif
    for (size_t w = 0; w < kWords; ++w) {
      const size_t bytes = sizeof(T) - 8 * w < 8 ? sizeof(T) - 8 * w : 8;
      to[w] = {0, bytes, Kind::Fixed, Element::Bytes, 0};
      std::memcpy(&to[w].value, raw + 8 * w, bytes);
    }
  }
  static T unpack(const Argument* from) noexcept {
    alignas(T) char raw[sizeof(T)];
    for (size_t w = 0; w < kWords; ++w) std::memcpy(raw + 8 * w, &from[w].value, from[w].bytes);
    T value;
    std::memcpy(&value, raw, sizeof(T));
    return value;
  }
};
template <class T>
struct Traits<Buffer<T>> {
  static constexpr size_t kWords = 1;
  static void pack(const Buffer<T>& from, Argument* to) noexcept {
    *to = {reinterpret_cast<uint64_t>(from.data), from.count * sizeof(T), from.kind, element_of<T>(), 0};
  }
  static T* unpack(const Argument* from) noexcept { return reinterpret_cast<T*>(from->value); }
};
template <>
struct Traits<AddressBuffer> {
  static constexpr size_t kWords = 1;
  static void pack(const AddressBuffer& from, Argument* to) noexcept {
    *to = {from.data, from.bytes, from.kind, Element::Bytes, 0};
  }
  static CUdeviceptr unpack(const Argument* from) noexcept { return from->value; }
};
template <class T>
struct Traits<LiveScalar<T>> {
  static constexpr size_t kWords = 1;
  static void pack(const LiveScalar<T>& from, Argument* to) noexcept {
    *to = {0, sizeof(T), Kind::Live, std::is_floating_point_v<T> ? element_of<T>() : Element::Bytes, 0};
    std::memcpy(&to->value, &from.value, sizeof(T));
  }
  static T unpack(const Argument* from) noexcept {
    T value;
    std::memcpy(&value, &from->value, sizeof(T));
    return value;
  }
};
}  // namespace detail

namespace detail {
template <class... Args>
auto pack(const Args&... args) noexcept {
  std::array<Argument, (Traits<Args>::kWords + ... + 0)> packed;
  [[maybe_unused]] size_t at = 0;
  ((Traits<Args>::pack(args, packed.data() + at), at += Traits<Args>::kWords), ...);
  return packed;
}

// Calls `work` with the stream and what the Arguments are of Args.
template <class... Args, class Work>
WorkRef work_ref(Work& work) noexcept {
  return {const_cast<void*>(static_cast<const void*>(&work)),
          [](void* object, CUstream stream, const Argument* a) {
            [[maybe_unused]] size_t next = 0;
            // In braces the order of evaluation is the order of writing.
            std::tuple<CUstream, decltype(Traits<Args>::unpack(a))...> all{
                stream, Traits<Args>::unpack(a + std::exchange(next, next + Traits<Args>::kWords))...};
            std::apply(*static_cast<Work*>(object), all);
          }};
}
}  // namespace detail

template <class Work>
class Region : public RegionBase {
 public:
  Region(std::string name, Work work, Options options = {})
      : RegionBase(std::move(name), std::move(options)), work_(std::move(work)) {}

  // Work(CUstream, ...): buffers as pointers (CUdeviceptr for those given so), scalars by value.
  template <class... Args>
  void operator()(CUstream stream, const Args&... args) {
    call(stream, detail::pack(args...), detail::work_ref<Args...>(work_));
  }

 private:
  Work work_;
};

}  // namespace rondo::replay
