// What an owned graph and its execs know beyond their handles: shared by the files of this room, seen by no
// other.
#pragma once
#include <cuda.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "rondo/driver/driver.h"
#include "rondo/graph.h"
#include "rondo/graph/diagnosis.h"

namespace rondo::graph::detail {

// The attributes of every kernel node as the driver reads them back, in the order of nodes; children and
// known bodies are gone into.
struct AttributeRecord {
  struct Of {
    CUgraphNode node = nullptr;
    std::vector<CUlaunchAttribute> values;  // of the ids that can be read
    bool unreadable = false;                // one that cannot be read may be set
  };
  std::vector<Of> nodes;
};

struct GraphState {
  GraphState(const driver::Driver& d, CUgraph g, bool is_owned) : driver(d), graph(g), owned(is_owned) {}
  ~GraphState();
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;

  // Something about nodes or attributes is different from here on.
  void changed() noexcept {
    for (GraphState* s = this; s; s = s->within) ++s->version, s->record.reset();
  }
  // `plain`, of it and of what was moved in: views of a child's nodes change the child's.
  bool all_plain() const noexcept {
    bool all = plain;
    for (const auto& child : moved_in) all = all && child->all_plain();
    return all;
  }

  const driver::Driver& driver;
  CUgraph graph;
  bool owned;
  // Every node came through Rondo one by one, and none was given an attribute: nothing needs to be read.
  bool plain = false;
  uint64_t version = 0;
  std::shared_ptr<const AttributeRecord> record;  // when read since the last change
  std::unordered_map<CUgraphNode, Condition> conditions;
  std::vector<std::shared_ptr<GraphState>> moved_in;  // children: their nodes' views point to these
  GraphState* within = nullptr;                       // what it was moved into
  // Execs that several threads use read the graph that they were made from when they are updated.
  std::mutex reading;
};

// The graph that holds this one and everything beside it.
inline const GraphState* root_of(const GraphState* state) noexcept {
  while (state && state->within) state = state->within;
  return state;
}

struct ExecShared {
  std::shared_ptr<GraphState> source;  // null: an adopted exec
  InstantiateOptions options;
  bool plain = false;
  uint64_t version = 0;                           // of source, when the attributes were those of the exec
  std::shared_ptr<const AttributeRecord> record;  // null: not read yet

  // The driver may have taken other attributes, or kept the old ones: nobody knows.
  void forget() noexcept { plain = false, version = ~uint64_t{0}, record.reset(); }
};

// Reads what is not known yet.
std::shared_ptr<const AttributeRecord> read_attributes(const driver::Driver& d, CUgraph graph,
                                                       GraphState* state);
// "" or which attribute of which node differs; `node` is then the node of `is`.
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

// Destroys and the like, while this thread may be capturing: the call is let through and disturbs no capture.
template <class Call>
void let_through(const driver::Driver& d, const Call& call) noexcept {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const bool relaxed = d.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
  call();
  if (relaxed) restore_mode(d, mode);
}

// Dependencies in the form in which the driver takes them; no allocation for the usual few.
class Dependencies {
 public:
  explicit Dependencies(const After& after);
  const CUgraphNode* nodes() const noexcept { return nodes_; }
  CUgraphNode* nodes() noexcept { return nodes_; }
  size_t count() const noexcept { return count_; }
  bool full() const noexcept { return full_; }  // no edge carries data
#if CUDA_VERSION >= 12030
  const CUgraphEdgeData* data() const noexcept { return data_.get(); }
#endif

 private:
  static constexpr size_t kFew = 8;
  CUgraphNode few_[kFew];
  std::unique_ptr<CUgraphNode[]> many_;
  CUgraphNode* nodes_;
  size_t count_;
  bool full_ = true;
#if CUDA_VERSION >= 12030
  std::unique_ptr<CUgraphEdgeData[]> data_;
#endif
};

}  // namespace rondo::graph::detail
