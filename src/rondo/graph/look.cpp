#include "rondo/graph/look.h"

#include <fmt/format.h>

#include <functional>
#include <queue>
#include <unordered_map>

#include "rondo/graph/state.h"

namespace rondo::graph::look {
namespace {

// ---------------------------------------------------------------- nodes by kind

constexpr const char* kMemoryKind = "a copy keeps the kinds of memory that it goes between";
constexpr const char* kOneDimension = "only copies of one row between linear memory can be changed";
constexpr const char* kOneRow = "only fills of one row can change their size";
constexpr const char* kSameDevice = "the memory is of the same device and context";

const char* name_of(CUmemorytype type) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return "host";
    case CU_MEMORYTYPE_DEVICE:
      return "device";
    case CU_MEMORYTYPE_ARRAY:
      return "array";
    case CU_MEMORYTYPE_UNIFIED:
      return "unified";
  }
  return "unknown";
}

uint64_t place(CUmemorytype type, CUdeviceptr device, const void* host, CUarray array) {
  return type == CU_MEMORYTYPE_HOST    ? reinterpret_cast<uint64_t>(host)
         : type == CU_MEMORYTYPE_ARRAY ? reinterpret_cast<uint64_t>(array)
                                       : static_cast<uint64_t>(device);
}

void read_copy(const CUDA_MEMCPY3D& p, Node* to) {
  const size_t rows = std::max<size_t>(1, p.Height), layers = std::max<size_t>(1, p.Depth);
  const bool simple = rows == 1 && layers == 1 && p.srcMemoryType != CU_MEMORYTYPE_ARRAY &&
                      p.dstMemoryType != CU_MEMORYTYPE_ARRAY;
  const Change place_change = simple ? Change::Depends : Change::Never;
  const char* place_why = simple ? kSameDevice : kOneDimension;
  const Change size_change = simple ? Change::InPlace : Change::Never;
  to->fields = {
      word("direction", fmt::format("{} to {}", name_of(p.srcMemoryType), name_of(p.dstMemoryType)),
           Change::Never, kMemoryKind),
      number("bytes", p.WidthInBytes * rows * layers, size_change, kOneDimension),
      address("to", place(p.dstMemoryType, p.dstDevice, p.dstHost, p.dstArray), place_change, place_why),
      address("from", place(p.srcMemoryType, p.srcDevice, p.srcHost, p.srcArray), place_change, place_why)};
  if (rows > 1 || layers > 1) {
    const auto add = [&](const char* name, uint64_t value) {
      to->fields.push_back(number(name, value, Change::Never, kOneDimension));
    };
    add("row bytes", p.WidthInBytes), add("rows", rows), add("layers", layers);
    add("to pitch", p.dstPitch), add("from pitch", p.srcPitch);
  }
  // A part of a larger block starts elsewhere.
  const auto offset = [&](const char* name, size_t x, size_t y, size_t z) {
    if (x || y || z)
      to->fields.push_back({name, fmt::format("{} bytes, row {}, layer {}", x, y, z),
                            fmt::format("[{},{},{}]", x, y, z), place_change, place_why});
  };
  offset("to offset", p.dstXInBytes, p.dstY, p.dstZ);
  offset("from offset", p.srcXInBytes, p.srcY, p.srcZ);
  to->bytes_known = true;
  to->bytes = p.WidthInBytes * rows * layers;
}

void read_fill(const CUDA_MEMSET_NODE_PARAMS& p, Node* to) {
  const size_t rows = std::max<size_t>(1, p.height);
  const Change size = rows == 1 ? Change::Depends : Change::Never;
  const char* why = rows == 1 ? "the driver accepts another size of a fill" : kOneRow;
  to->fields = {number("bytes", p.width * rows * p.elementSize, size, why),
                {"value", hex(p.value, p.elementSize), quoted(hex(p.value, p.elementSize))},
                number("element bytes", p.elementSize, size, why),
                address("to", p.dst, Change::Depends, kSameDevice)};
  if (rows > 1) {
    to->fields.push_back(number("rows", rows, Change::Never, kOneRow));
    to->fields.push_back(number("pitch", p.pitch, Change::Never, kOneRow));
  }
  to->bytes_known = true;
  to->bytes = p.width * rows * p.elementSize;
}

void read_operations(const CUDA_BATCH_MEM_OP_NODE_PARAMS& p, Node* to) {
  constexpr const char* kFixed = "the number and kinds of memory operations cannot change";
  to->fields = {number("operations", p.count, Change::Never, kFixed)};
  for (unsigned i = 0; i < p.count; ++i) {
    const CUstreamBatchMemOpParams& op = p.paramArray[i];
    const auto add = [&](const char* what, bool wide, uint64_t at, uint32_t low, uint64_t value) {
      to->fields.push_back(word(fmt::format("operation {}", i), what, Change::Never, kFixed));
      to->fields.push_back(address(fmt::format("address {}", i), at, Change::Depends, kSameDevice));
      const std::string text = wide ? hex(value, 8) : hex(low, 4);
      to->fields.push_back({fmt::format("value {}", i), text, quoted(text)});
    };
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64: {
        const auto& w = op.waitValue;
        const char* how[] = {"wait for >=", "wait for ==", "wait for &", "wait for nor"};
        add(how[w.flags & 3], op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64, w.address, w.value, w.value64);
        // Which comparison a wait makes may change, which operation it is may not.
        to->fields[to->fields.size() - 3].change = Change::InPlace;
        if (w.flags & CU_STREAM_WAIT_VALUE_FLUSH)
          to->fields.push_back({fmt::format("flush {}", i), "yes", "true", Change::Never, kFixed});
        break;
      }
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64: {
        const auto& w = op.writeValue;
        add("write", op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64, w.address, w.value, w.value64);
        break;
      }
      default:
        to->fields.push_back(word(fmt::format("operation {}", i),
                                  fmt::format("kind {}", static_cast<int>(op.operation)), Change::Never,
                                  kFixed));
    }
  }
}

template <class Params>
void read_semaphores(const Params& p, Node* to) {
  to->fields = {number("semaphores", p.numExtSems, Change::Never, "the number of semaphores cannot change")};
  for (unsigned i = 0; i < p.numExtSems; ++i) {
    const std::string at = fmt::format("{}", i);
    to->fields.push_back(address("semaphore " + at, reinterpret_cast<uint64_t>(p.extSemArray[i])));
    to->fields.push_back(number("value " + at, p.paramsArray[i].params.fence.value));
  }
}

void read_condition(const NodeView& node, Node* to) {
  const std::optional<Condition> condition = node.condition();
  if (!condition) {
    to->unknown = "the bodies of a condition that was not added through Rondo are not known";
    return;
  }
  static const char* const kKinds[] = {"if", "if/else", "while", "switch"};
  constexpr const char* kFixed = "the parameters of a condition cannot change";
  to->fields = {word("condition", kKinds[static_cast<int>(condition->kind)], Change::Never, kFixed),
                number("bodies", condition->bodies.size(), Change::Never, kFixed)};
  for (size_t i = 0; i < condition->bodies.size(); ++i) {
    std::string label = "body";
    if (condition->kind == ConditionKind::Switch) label = fmt::format("case {}", i);
    if (condition->kind == ConditionKind::If) label = "then";
    if (condition->kind == ConditionKind::IfElse) label = i == 0 ? "then" : "else";
    to->inner.push_back({std::move(label), std::make_shared<Picture>(read(condition->bodies[i]))});
  }
}

void read_node(const NodeView& node, Node* to) {
  constexpr const char* kMemory = "alloc and free nodes cannot be updated";
  to->kind = node.kind();
  switch (to->kind) {
    case NodeKind::Kernel:
      return read_kernel(node, to);
    case NodeKind::Memcpy:
      return read_copy(node.memcpy(), to);
    case NodeKind::Memset:
      return read_fill(node.memset(), to);
    case NodeKind::Host: {
      const CUDA_HOST_NODE_PARAMS p = node.host();
      to->fields = {address("function", reinterpret_cast<uint64_t>(p.fn)),
                    address("data", reinterpret_cast<uint64_t>(p.userData))};
      return;
    }
    case NodeKind::Child:
      to->inner.push_back({"child", std::make_shared<Picture>(read(node.child()))});
      return;
    case NodeKind::EventRecord:
    case NodeKind::EventWait:
      to->fields = {address("event", reinterpret_cast<uint64_t>(node.event()))};
      return;
    case NodeKind::SemaphoreSignal:
      return read_semaphores(node.signal(), to);
    case NodeKind::SemaphoreWait:
      return read_semaphores(node.wait(), to);
    case NodeKind::Alloc: {
      const CUDA_MEM_ALLOC_NODE_PARAMS p = node.alloc();
      to->fields = {number("bytes", p.bytesize, Change::Never, kMemory),
                    number("device", static_cast<uint64_t>(p.poolProps.location.id), Change::Never, kMemory),
                    address("address", p.dptr, Change::Never, kMemory)};
      return;
    }
    case NodeKind::Free:
      to->fields = {address("address", node.freed(), Change::Never, kMemory)};
      return;
    case NodeKind::BatchMemOp:
      return read_operations(node.batch(), to);
    case NodeKind::Conditional:
      return read_condition(node, to);
    case NodeKind::Empty:
      to->bytes_known = true;
      return;
    case NodeKind::Unknown:
      to->unknown = "this kind of node is newer than this build of Rondo";
      return;
  }
}

// ---------------------------------------------------------------- structure

// In the driver's order, which is the order by which it pairs edges.
std::vector<std::pair<CUgraphNode, EdgeData>> dependencies(const driver::Driver& d, CUgraphNode node) {
  size_t count = 0;
  std::vector<std::pair<CUgraphNode, EdgeData>> found;
#if CUDA_VERSION >= 12030
  if (d.cuGraphNodeGetDependencies_v2) {
    RONDO_GRAPH_CHECK(d, Build, cuGraphNodeGetDependencies_v2(node, nullptr, nullptr, &count), "");
    std::vector<CUgraphNode> from(count);
    std::vector<CUgraphEdgeData> data(count);
    if (count)
      RONDO_GRAPH_CHECK(d, Build, cuGraphNodeGetDependencies_v2(node, from.data(), data.data(), &count), "");
    for (size_t i = 0; i < count; ++i)
      found.emplace_back(from[i], EdgeData{data[i].from_port, data[i].to_port, data[i].type});
    return found;
  }
#endif
  RONDO_GRAPH_CHECK(d, Build, cuGraphNodeGetDependencies_v1(node, nullptr, &count), "");
  std::vector<CUgraphNode> from(count);
  if (count) RONDO_GRAPH_CHECK(d, Build, cuGraphNodeGetDependencies_v1(node, from.data(), &count), "");
  for (CUgraphNode one : from) found.emplace_back(one, kFull);
  return found;
}

// Nodes of a cycle come last, in the order of adding: a graph that cannot be instantiated is looked at most.
void number_nodes(Picture* p) {
  const size_t count = p->nodes.size();
  std::vector<size_t> waits(count);
  std::vector<std::vector<size_t>> next(count);
  for (size_t i = 0; i < count; ++i) {
    waits[i] = p->nodes[i].after.size();
    for (const Link& link : p->nodes[i].after) next[link.from].push_back(i);
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < count; ++i)
    if (waits[i] == 0) ready.push(i);
  std::vector<bool> done(count);
  while (!ready.empty()) {
    const size_t at = ready.top();
    ready.pop();
    done[at] = true;
    p->order.push_back(at);
    for (const size_t to : next[at])
      if (--waits[to] == 0) ready.push(to);
  }
  for (size_t i = 0; i < count; ++i)
    if (!done[i]) p->order.push_back(i);
  for (size_t i = 0; i < count; ++i) p->nodes[p->order[i]].number = i;
}

}  // namespace

Picture read(const GraphView& graph) {
  const driver::Driver& d = driver::driver();
  Picture p;
  const std::vector<NodeView> nodes = graph.nodes();
  p.nodes.resize(nodes.size());
  std::unordered_map<CUgraphNode, size_t> at;
  for (size_t i = 0; i < nodes.size(); ++i) at[nodes[i].get()] = i;
  for (size_t i = 0; i < nodes.size(); ++i) {
    read_node(nodes[i], &p.nodes[i]);
    for (const auto& [from, data] : dependencies(d, nodes[i].get()))
      if (const auto found = at.find(from); found != at.end())
        p.nodes[i].after.push_back({found->second, data});
  }
  number_nodes(&p);
  return p;
}

std::string describe(const Node& node, const std::string& prefix) {
  const std::string named = node.name.empty() ? "" : fmt::format(" ({})", node.name);
  return fmt::format("{} node {}{}{}", name(node.kind), prefix, node.number, named);
}

}  // namespace rondo::graph::look
