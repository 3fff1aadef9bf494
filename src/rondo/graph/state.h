// What an owned graph and its execs know beyond their handles: shared by the files of this room, seen by no
// other.
#pragma once
#include <cuda.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "rondo/driver/driver.h"
#include "rondo/graph.h"
#include "rondo/graph/diagnosis.h"

namespace rondo::graph::detail {

// What an update might keep silently (attributes.cpp says which attributes, and why no others), of every node
// in the order of nodes; children and known bodies are gone into.
struct AttributeRecord {
  static constexpr size_t kCompared = 4;
  using Values = std::array<std::array<unsigned, 3>, kCompared>;
  struct Row {
    CUgraphNode node = nullptr;
    NodeKind kind = NodeKind::Unknown;
    bool unreadable = false;  // an attribute that cannot be read may be set
    Values values{};          // of a kernel
    bool same(const Row& other) const noexcept {
      return kind == other.kind && unreadable == other.unreadable && values == other.values;
    }
  };
  std::vector<Row> rows;
  const Row* kernel = nullptr;  // the first one
  bool uniform = true;          // all kernels have its values
  // When not uniform: for each node how many it waits for, and which, as rows in the order of edges: the
  // driver pairs nodes by that.
  std::vector<uint32_t> order;
};

// How many states' memory a thread keeps for its next graphs. None where AddressSanitizer looks for uses of
// what is gone.
#if defined(__SANITIZE_ADDRESS__)
#define RONDO_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RONDO_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef RONDO_ADDRESS_SANITIZER
inline constexpr unsigned kKeptStates = 0;
#else
inline constexpr unsigned kKeptStates = 32;
#endif

// Made and held by StateShare only. It is all that a graph costs beside the driver's, so it is small, and its
// memory comes from what graphs before it have left (state.cpp).
struct GraphState final {
  GraphState(const driver::Driver& d, CUgraph g) noexcept : driver(d), graph(g) {}
  ~GraphState();
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;
  static void* operator new(size_t bytes);
  static void operator delete(void* block) noexcept;

  // Something about nodes or attributes is different from here on.
  void changed() noexcept {
    ++version;
    if (record || within) [[unlikely]]
      forget();
  }
  // `own` and `plain`, of it and of what was moved in: views of a child's nodes change the child's.
  bool all_own() const noexcept {
    bool all = own;
    if (rare)
      for (const auto& child : rare->moved_in) all = all && child->all_own();
    return all;
  }
  bool all_plain() const noexcept { return plain && (!rare || rare->all_plain()); }
  // A capture into it, or into a part of it, broke. The driver has destroyed what was captured into; of a
  // graph around that nobody knows what is left. So none of it is touched again, not even to destroy it.
  void lose() noexcept;

  const driver::Driver& driver;
  CUgraph graph;
  std::atomic<uint32_t> shares{1};
  bool owned = true;
  bool lost = false;
  // Every node and attribute came through Rondo one by one, and no attribute that cannot be read back.
  bool own = false;
  // And there is no attribute at all: nothing needs to be read.
  bool plain = false;
  // Execs that several threads use read the graph that they were made from when they are updated.
  SpinLock reading;
  uint64_t version = 0;
  std::shared_ptr<const AttributeRecord> record;  // when read since the last change
  GraphState* within = nullptr;                   // what it was moved into
  void forget() noexcept;                         // the rest of changed()
  // What few graphs have.
  struct Rare {
    std::unordered_map<CUgraphNode, Condition> conditions;
    std::vector<StateShare> moved_in;  // children: their nodes' views point to these
    bool all_plain() const noexcept;
  };
  std::unique_ptr<Rare> rare;
  Rare& make_rare() {
    if (!rare) rare = std::make_unique<Rare>();
    return *rare;
  }
  const Condition* condition(CUgraphNode node) const {
    if (!rare) return nullptr;
    const auto at = rare->conditions.find(node);
    return at == rare->conditions.end() ? nullptr : &at->second;
  }
};

[[noreturn]] void throw_lost();
inline void expect_not_lost(const GraphState* state) {
  if (state && state->lost) [[unlikely]]
    throw_lost();
}

// The graph that holds this one and everything beside it.
inline const GraphState* root_of(const GraphState* state) noexcept {
  while (state && state->within) state = state->within;
  return state;
}

struct ExecShared {
  StateShare source;  // null: an adopted exec
  InstantiateOptions options;
  uint64_t version = 0;                           // of source, when the attributes were those of the exec
  std::shared_ptr<const AttributeRecord> record;  // null: not read yet
};

// Reads what is not known yet. `like` is the record of a graph that is probably the same, or null: a node
// that is a kernel there is not asked for its kind.
std::shared_ptr<const AttributeRecord> read_attributes(const driver::Driver& d, CUgraph graph,
                                                       GraphState* state, const AttributeRecord* like);
// "" or what differs; `node` is then the node of `is`, where there is one.
std::string compare_attributes(const driver::Driver& d, const AttributeRecord& was, const AttributeRecord& is,
                               CUgraphNode* node);

// "kernel node encode", "memset node". Never fails.
std::string describe_node(const driver::Driver& d, CUgraphNode node);
std::string describe_stream(CUstream stream);

// The thread's capture mode as it was: tried twice, because a thread left relaxed would lose its protection
// silently.
inline void restore_mode(const driver::Driver& d, CUstreamCaptureMode mode) noexcept {
  if (d.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
    (void)d.cuThreadExchangeStreamCaptureMode(&mode);
}

// While it lives, calls on memory, events and what is to be destroyed are let through although this thread may be
// capturing, or another one in global mode, and disturb no capture; for calls that concern no captured stream. Never
// throws.
class LetThrough {
 public:
  explicit LetThrough(const driver::Driver& d) noexcept
      : d_(d), relaxed_(d.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  ~LetThrough() {
    if (relaxed_) restore_mode(d_, mode_);
  }
  LetThrough(const LetThrough&) = delete;
  LetThrough& operator=(const LetThrough&) = delete;

 private:
  const driver::Driver& d_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool relaxed_;
};
template <class Call>
void let_through(const driver::Driver& d, const Call& call) noexcept {
  const LetThrough scope(d);
  call();
}

// Dependencies in the form in which the driver takes them. Handles stay where they lie; nodes and lists are
// copied to `room`, or to the heap where there are more. There is room for the many, too, because glibc
// tidies up all its free memory, the driver's included, when it is asked for 1024 bytes or more
// (docs/decisions.md, on the smallest graph).
class Dependencies {
 public:
  Dependencies(const After& after, std::span<CUgraphNode> room);
  Dependencies(const Dependencies&) = delete;
  Dependencies& operator=(const Dependencies&) = delete;
  const CUgraphNode* nodes() const noexcept { return nodes_; }
  size_t count() const noexcept { return count_; }
  bool full() const noexcept { return full_; }  // no edge carries data
#if CUDA_VERSION >= 12030
  const CUgraphEdgeData* data() const noexcept { return data_.get(); }
#endif

 private:
  std::unique_ptr<CUgraphNode[]> many_;
  const CUgraphNode* nodes_;
  size_t count_;
  bool full_ = true;
#if CUDA_VERSION >= 12030
  std::unique_ptr<CUgraphEdgeData[]> data_;
#endif
};

inline constexpr size_t kFewDependencies = 8, kManyDependencies = 1024;

void with_many_dependencies(const After& after, const void* use,
                            void (*call)(const void* use, const Dependencies& deps));

// use(deps), with room on the stack: 64 bytes for the usual few, so that the driver's part of the stack stays
// where it is warm, and 8 KiB for more.
template <class Use>
void with_dependencies(const After& after, const Use& use) {
  if (after.list().size() + after.nodes().size() <= kFewDependencies) [[likely]] {
    CUgraphNode few[kFewDependencies];
    return use(Dependencies(after, few));
  }
  with_many_dependencies(
      after, &use, [](const void* u, const Dependencies& deps) { (*static_cast<const Use*>(u))(deps); });
}

}  // namespace rondo::graph::detail
