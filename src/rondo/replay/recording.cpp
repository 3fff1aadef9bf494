// Patching: a changed argument's words are written into the nodes' bytes, each touched node is set once. All
// that a set needs is laid out when the recording is made, so that patching is the driver's calls and little
// else.
#include "rondo/replay/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "rondo/driver/driver.h"
#include "rondo/graph/diagnosis.h"
#include "rondo/replay/tables.h"

namespace rondo::replay {
namespace {

using graph::NodeKind;

constexpr uint32_t kNone = ~uint32_t{0};

size_t aligned(size_t bytes) { return (bytes + 15) & ~size_t{15}; }

uint64_t next_number() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

// An exec, and which recording it is of at the moment.
struct Holder {
  explicit Holder(graph::GraphExec e) : exec(std::move(e)) {}
  graph::GraphExec exec;
  uint64_t number = next_number();
  uint64_t owner = 0;
};

struct Recording::State {
  // A node that holds an argument, ready to be set.
  struct Node {
    CUgraphNode node = nullptr;  // of the graph that the exec was made from
    uint32_t position = 0;       // in the graph
    NodeKind kind = NodeKind::Unknown;
    uint64_t epoch = 0;  // of the patch that touched it last
    uint8_t* bytes = nullptr;
    CUDA_KERNEL_NODE_PARAMS kernel{};
    graph::NodeView view;
  };
  // A word of an argument.
  struct Write {
    uint8_t* to;
    uint64_t addend;
    uint32_t node;  // in `nodes`; kNone: in a table
    uint32_t width;
  };

  const driver::Driver& driver;
  graph::Graph graph;
  std::shared_ptr<Holder> holder;
  const uint64_t number = next_number();
  CUcontext context = nullptr;
  CUgraphExec raw = nullptr;
  decltype(driver.cuGraphExecKernelNodeSetParams.raw()) set_kernel;
  decltype(driver.cuGraphExecMemcpyNodeSetParams.raw()) set_copy;
  decltype(driver.cuGraphExecMemsetNodeSetParams.raw()) set_fill;

  std::vector<Node> nodes;
  std::vector<Write> writes;    // by argument
  std::vector<uint32_t> begin;  // of each argument in `writes`, and the end
  std::vector<Argument> last;   // that the bytes are of
  std::vector<uint32_t> touched;
  uint64_t epoch = 0;
  bool stale = false;  // the exec may not be what the bytes say

  std::unique_ptr<uint8_t[]> bytes;
  std::vector<void*> pointers;
  std::vector<PackedParameters> packed;
  std::unique_ptr<Tables> tables;   // null: the graph has none of its own
  std::vector<uint32_t> of_tables;  // their copies, in `nodes`, in the order of the tables

  size_t node_count = 0, kernels = 0;
  std::vector<uint32_t> nodes_of;
  uint64_t structure = 0;
  std::vector<std::pair<uint32_t, uint32_t>> edges;

  State(graph::Graph g, const Image& image)
      : driver(driver::driver()),
        graph(std::move(g)),
        set_kernel(driver.cuGraphExecKernelNodeSetParams.raw()),
        set_copy(driver.cuGraphExecMemcpyNodeSetParams.raw()),
        set_fill(driver.cuGraphExecMemsetNodeSetParams.raw()),
        node_count(image.nodes.size()),
        kernels(image.kernels),
        structure(structure_of(image)),
        edges(image.edges) {
    RONDO_CU(driver, cuCtxGetCurrent(&context));
  }

  void lay_out(const Image& image, const std::vector<Slot>& slots, const std::vector<bool>& own);
  void index(const std::vector<Slot>& slots, const std::vector<uint32_t>& place);
  void touch(uint32_t node) noexcept;
  void put(size_t i, uint64_t value, bool* tables_changed) noexcept;
  unsigned send(bool tables_changed);
  void take_over();
  void touch_tables();
  void set_touched();
  CUresult set(Node& n) const noexcept;
};

// ---------------------------------------------------------------- making it

Recording::Recording(graph::Graph graph, Image image, std::vector<Slot> slots,
                     std::span<const Argument> arguments, CUstream upload_to)
    : state_(std::make_unique<State>(std::move(graph), image)) {
  State& s = *state_;
  std::stable_sort(slots.begin(), slots.end(),
                   [](const Slot& a, const Slot& b) { return a.argument < b.argument; });
  s.last.assign(arguments.begin(), arguments.end());
  // Page-locked memory that holds no argument is read where it is: who changes it wants that.
  std::vector<bool> own(image.nodes.size());
  for (size_t i = 0; i < image.nodes.size(); ++i)
    own[i] = !image.nodes[i].table.empty() && image.nodes[i].pageable;
  for (const Slot& slot : slots) own[slot.node] = own[slot.node] || slot.in_table;
  s.lay_out(image, slots, own);
  graph::InstantiateOptions options;
  options.upload_to = upload_to;
  s.holder = std::make_shared<Holder>(s.graph.instantiate(options));
  s.holder->owner = s.number;
  s.raw = s.holder->exec.get();
}

Recording::~Recording() = default;

void Recording::State::lay_out(const Image& image, const std::vector<Slot>& slots,
                               const std::vector<bool>& own) {
  std::vector<uint32_t> place(image.nodes.size(), kNone);
  std::vector<const NodeImage*> held;
  size_t byte_count = 0, pointer_count = 0, packed_count = 0;
  const auto hold = [&](uint32_t i) {
    if (place[i] != kNone) return;
    const NodeImage& n = image.nodes[i];
    place[i] = static_cast<uint32_t>(held.size());
    held.push_back(&n);
    byte_count += aligned(n.bytes.size());
    pointer_count += n.parameters.size();
    packed_count += n.packed;
  };
  for (const Slot& slot : slots) hold(slot.node);
  for (uint32_t i = 0; i < own.size(); ++i)
    if (own[i]) hold(i);

  bytes = std::make_unique<uint8_t[]>(byte_count);
  pointers.resize(pointer_count);
  packed.resize(packed_count);
  nodes.resize(held.size());
  touched.reserve(held.size());
  uint8_t* at = bytes.get();
  void** pointer = pointers.data();
  PackedParameters* pack = packed.data();
  for (size_t k = 0; k < held.size(); ++k) {
    const NodeImage& from = *held[k];
    Node& to = nodes[k];
    to.node = from.node.get(), to.view = from.node,
    to.position = static_cast<uint32_t>(held[k] - image.nodes.data()), to.kind = from.kind, to.bytes = at;
    if (!from.bytes.empty()) std::memcpy(at, from.bytes.data(), from.bytes.size());
    if (from.kind == NodeKind::Kernel) point_at(from, at, pointer, pack, &to.kernel);
    at += aligned(from.bytes.size());
    pointer += from.parameters.size();
    pack += from.packed;
  }

  std::vector<bool> changes(image.nodes.size());
  for (const Slot& slot : slots)
    if (slot.in_table) changes[slot.node] = true;
  std::vector<Tables::Content> contents;
  for (uint32_t i = 0; i < own.size(); ++i)
    if (own[i]) {
      contents.push_back({&image.nodes[i].table, changes[i]});
      of_tables.push_back(place[i]);
    }
  if (!contents.empty()) {
    tables = std::make_unique<Tables>(driver, context, contents);
    // In the graph, so that the exec is made with copies from memory of the kind that it will be given later.
    for (size_t t = 0; t < of_tables.size(); ++t) {
      Node& n = nodes[of_tables[t]];
      auto* copy = reinterpret_cast<CUDA_MEMCPY3D*>(n.bytes);
      copy->srcMemoryType = CU_MEMORYTYPE_HOST;
      copy->srcDevice = 0;
      copy->srcHost = tables->source(t);
      n.view.set(*copy);
    }
  }
  index(slots, place);
}

void Recording::State::index(const std::vector<Slot>& slots, const std::vector<uint32_t>& place) {
  std::vector<uint32_t> table_of(nodes.size(), kNone);
  for (uint32_t t = 0; t < of_tables.size(); ++t) table_of[of_tables[t]] = t;
  begin.assign(last.size() + 1, 0);
  nodes_of.assign(last.size(), 0);
  std::vector<uint32_t> counted(nodes.size(), kNone);
  for (const Slot& slot : slots) {
    const uint32_t node = place[slot.node];
    uint8_t* to = slot.in_table ? tables->content(table_of[node]) : nodes[node].bytes;
    writes.push_back(
        {to + slot.offset, static_cast<uint64_t>(slot.addend), slot.in_table ? kNone : node, slot.width});
    ++begin[slot.argument + 1u];
    if (std::exchange(counted[node], slot.argument) != slot.argument) ++nodes_of[slot.argument];
  }
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
}

// ---------------------------------------------------------------- patching

inline void Recording::State::touch(uint32_t node) noexcept {
  if (std::exchange(nodes[node].epoch, epoch) != epoch) touched.push_back(node);
}

// Writes the words that are this argument.
inline void Recording::State::put(size_t i, uint64_t value, bool* tables_changed) noexcept {
  last[i].value = value;
  for (uint32_t w = begin[i]; w < begin[i + 1]; ++w) {
    const Write& write = writes[w];
    const uint64_t word = value + write.addend;
    if (write.width == 8) [[likely]]
      std::memcpy(write.to, &word, 8);
    else
      std::memcpy(write.to, &word, 4);
    if (write.node == kNone)
      *tables_changed = true;
    else
      touch(write.node);
  }
}

unsigned Recording::patch(std::span<const Argument> arguments, [[maybe_unused]] CUstream stream) {
  State& s = *state_;
  if (arguments.size() != s.last.size())
    throw Error(ErrorKind::Internal,
                fmt::format("a recording of {} arguments was given {}", s.last.size(), arguments.size()));
  if (s.holder->owner != s.number) [[unlikely]]
    s.take_over();
  if (!s.stale && std::memcmp(arguments.data(), s.last.data(), arguments.size_bytes()) == 0) return 0;
  ++s.epoch;
  s.touched.clear();
  bool tables_changed = false;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].value != s.last[i].value) s.put(i, arguments[i].value, &tables_changed);
  return s.send(tables_changed);
}

unsigned Recording::patch(std::span<const Argument> arguments, std::span<const uint16_t> changed,
                          CUstream stream) {
  State& s = *state_;
  if (s.stale || s.holder->owner != s.number) [[unlikely]]
    return patch(arguments, stream);
  ++s.epoch;
  s.touched.clear();
  bool tables_changed = false;
  for (const uint16_t i : changed) s.put(i, arguments[i].value, &tables_changed);
  return s.send(tables_changed);
}

unsigned Recording::State::send(bool tables_changed) {
  const bool all = std::exchange(stale, true);
  if (all)
    for (uint32_t i = 0; i < nodes.size(); ++i) touch(i);
  if (tables && (tables_changed || all)) touch_tables();
  set_touched();
  stale = false;
  return static_cast<unsigned>(touched.size());
}

// The shared exec becomes this graph, as it was recorded; the next patch writes what has changed since.
void Recording::State::take_over() {
  stale = true;
  holder->owner = 0;
  if (const graph::Updated updated = holder->exec.update(graph); !updated)
    throw Error(ErrorKind::Device, "a graph that shares its executable one with others: " + updated.reason);
  raw = holder->exec.get();
  holder->owner = number;
}

bool Recording::share(Recording& other) {
  State& s = *state_;
  State& o = *other.state_;
  if (s.holder == o.holder || s.context != o.context || s.node_count != o.node_count) return false;
  // The driver pairs nodes by edges, and we by their order.
  if (s.edges != o.edges) return false;
  const std::vector<graph::NodeView> nodes = o.holder->exec.source().nodes();
  o.holder->owner = 0;  // its own again when it is patched next
  o.stale = true;
  if (nodes.size() != s.node_count || !o.holder->exec.update(s.graph)) return false;
  for (State::Node& n : s.nodes) n.node = nodes[n.position].get();
  s.holder = o.holder;
  s.holder->owner = s.number;
  s.raw = s.holder->exec.get();
  s.stale = true;
  return true;
}

uint64_t Recording::exec_number() const noexcept { return state_->holder->number; }
const graph::GraphExec* Recording::exec() const noexcept {
  // One that is shared may be another recording's by the next launch.
  return state_->tables || state_->holder.use_count() > 1 ? nullptr : &state_->holder->exec;
}

void Recording::State::touch_tables() {
  if (!tables->next()) return;
  for (size_t t = 0; t < of_tables.size(); ++t) {
    Node& n = nodes[of_tables[t]];
    const void* source = tables->source(t);
    auto* copy = reinterpret_cast<CUDA_MEMCPY3D*>(n.bytes);
    if (std::exchange(copy->srcHost, source) != source) touch(of_tables[t]);
  }
}

inline CUresult Recording::State::set(Node& n) const noexcept {
  if (n.kind == NodeKind::Kernel) [[likely]]
    return set_kernel(raw, n.node, &n.kernel);
  if (n.kind == NodeKind::Memcpy)
    return set_copy(raw, n.node, reinterpret_cast<const CUDA_MEMCPY3D*>(n.bytes), context);
  return set_fill(raw, n.node, reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(n.bytes), context);
}

void Recording::State::set_touched() {
  for (uint32_t i : touched) {
    Node& n = nodes[i];
    if (const CUresult code = set(n); code != CUDA_SUCCESS) [[unlikely]]
      graph::fail(driver, code, graph::Phase::Update,
                  n.kind == NodeKind::Kernel   ? "cuGraphExecKernelNodeSetParams("
                  : n.kind == NodeKind::Memcpy ? "cuGraphExecMemcpyNodeSetParams("
                                               : "cuGraphExecMemsetNodeSetParams(",
                  n.view.describe());
  }
}

void Recording::launch(CUstream stream) {
  State& s = *state_;
  s.holder->exec.launch(stream);
  if (s.tables) s.tables->launched(stream);
}

// ---------------------------------------------------------------- asking

size_t Recording::nodes() const noexcept { return state_->node_count; }
size_t Recording::kernels() const noexcept { return state_->kernels; }
size_t Recording::slot_count() const noexcept { return state_->writes.size(); }
size_t Recording::nodes_of(size_t argument) const noexcept {
  return argument < state_->nodes_of.size() ? state_->nodes_of[argument] : 0;
}
bool Recording::has_tables() const noexcept { return state_->tables != nullptr; }
uint64_t Recording::structure() const noexcept { return state_->structure; }

}  // namespace rondo::replay
