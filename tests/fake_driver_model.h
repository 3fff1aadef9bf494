// The model behind tests/fake_driver.h, for its own files.
#pragma once
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "fake_driver.h"

namespace rondo::fake {

struct Thing {
  explicit Thing(const char* k) : kind(k) {}
  virtual ~Thing() = default;
  std::string kind;
};
// As the driver gives memory: aligned to 512 bytes.
struct Aligned {
  static char* make(size_t bytes) { return new (std::align_val_t{512}) char[bytes]; }
  void operator()(char* p) const { ::operator delete[](p, std::align_val_t{512}); }
};

struct Memory : Thing {
  Memory() : Thing("memory") {}
  size_t bytes = 0;
  std::shared_ptr<char[]> data;
};
struct HostMemory : Thing {
  HostMemory() : Thing("host memory") {}
  size_t bytes = 0;
  std::shared_ptr<char[]> data;
};
// What was freed, out of bounds for the address sanitizer where there is one.
struct Freed {
  Freed(size_t b, std::shared_ptr<char[]> d);
  ~Freed();
  Freed(const Freed&) = delete;
  Freed& operator=(const Freed&) = delete;
  size_t bytes;
  std::shared_ptr<char[]> data;
};
struct Function : Thing {
  Function() : Thing("function") {}
  std::string name;
  int dynamic_limit = 48 * 1024;
};
struct Module : Thing {
  Module() : Thing("module") {}
  std::vector<CUfunction> functions;
};

// An edge from a node, as in CUgraphEdgeData; kept apart so that old headers compile this.
struct Dep {
  CUgraphNode node = nullptr;
  unsigned char from_port = 0, type = 0;
  bool plain() const { return from_port == 0 && type == 0; }
  bool operator==(const Dep&) const = default;
};

struct Stream : Thing {
  Stream() : Thing("stream") {}
  bool blocking = false;
  uint64_t capture = 0;  // 0: none
  std::vector<Dep> tip;
};
struct Event : Thing {
  Event() : Thing("event") {}
  double time = 0;
  uint64_t capture = 0;  // of the last record; ids are never used again
  bool recorded = false;
  std::vector<Dep> tip;
};

struct UserObject : Thing {
  UserObject() : Thing("user object") {}
  CUhostFn destroy = nullptr;
  void* object = nullptr;
  unsigned references = 0;
};

// What a node does, its arguments copied.
struct Payload {
  CUDA_KERNEL_NODE_PARAMS kernel{};
  std::vector<unsigned char> arguments;
  std::vector<size_t> offsets;  // of the arguments, when they came as pointers
  std::map<int, CUlaunchAttributeValue> attributes;
  bool dependent = false;
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS fill{};
  CUcontext context = nullptr;
  CUDA_HOST_NODE_PARAMS host{};
  CUgraph child = nullptr;
  CUevent event = nullptr;
  std::vector<CUexternalSemaphore> semaphores;
  std::vector<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS> signals;
  std::vector<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS> waits;
  CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
  CUdeviceptr freed = 0;
  std::vector<CUstreamBatchMemOpParams> operations;
  unsigned operation_flags = 0;
  uint64_t condition = 0;
  int condition_type = 0;
  std::vector<CUgraph> bodies;
};

struct Node : Thing {
  Node() : Thing("node") {}
  CUgraphNodeType type{};
  CUgraph graph = nullptr;
  std::vector<Dep> deps;
  Payload p;
  CUgraphNode clone_of = nullptr;
  // What GetParams points to.
  std::vector<void*> pointers;
  void* extra[5] = {};
  size_t extra_bytes = 0;
};

struct Graph : Thing {
  Graph() : Thing("graph") {}
  std::vector<CUgraphNode> nodes;
  CUgraph parent = nullptr;  // of a child or a body: destroyed with it
  bool body = false;         // of a condition: few kinds of nodes
  std::map<CUuserObject, unsigned> kept;
  std::map<uint64_t, std::pair<bool, unsigned>> conditions;  // handle -> (assigned at launch, value)
  int execs = 0;                                             // alive, made from it
};

struct ExecGraph;
struct ExecNode {
  CUgraphNode origin = nullptr;  // of the template
  CUgraphNodeType type{};
  Payload p;
  std::vector<std::pair<size_t, Dep>> deps;  // index, edge
  bool enabled = true;
  std::vector<ExecGraph> inner;  // child, or the bodies
};
struct ExecGraph {
  std::vector<ExecNode> nodes;
};
struct Exec : Thing {
  Exec() : Thing("exec") {}
  CUgraph source = nullptr;
  ExecGraph graph;
  unsigned long long flags = 0;
  std::map<CUuserObject, unsigned> kept;
  std::map<uint64_t, std::pair<bool, unsigned>> conditions;
  std::set<CUdeviceptr> allocated;
  bool single = false;
  int inside = 0;
  size_t device_bytes = 0;
};

struct CaptureState {
  uint64_t id = 0;
  CUstream origin = nullptr;
  CUgraph graph = nullptr;
  std::set<CUgraphNode> before;  // nodes of a graph that existed
  CUstreamCaptureMode mode{};
  std::thread::id thread;
  bool broken = false;
  std::set<CUstream> streams;
};

struct Model {
  explicit Model(FakeDriver& f, int v) : face(f), version(v) {}

  // Counts the call; not 0: it is made to fail.
  CUresult enter(const char* function);

  template <class T>
  T* find(const void* handle) {
    const auto at = things.find(reinterpret_cast<uint64_t>(handle));
    return at == things.end() ? nullptr : dynamic_cast<T*>(at->second.get());
  }
  template <class T, class Handle>
  T* make(Handle* handle) {
    auto thing = std::make_unique<T>();
    T* raw = thing.get();
    *handle = reinterpret_cast<Handle>(next);
    things[next] = std::move(thing);
    next += 16;
    return raw;
  }
  void erase(const void* handle) { things.erase(reinterpret_cast<uint64_t>(handle)); }

  // ---- capture rules (fake_driver_capture.cpp)
  CaptureState* capture_of(const Stream& s);
  CaptureState* live(uint64_t id);
  // A call that is unsafe in a capture: 900, and what it breaks is broken.
  CUresult unsafe_call();
  // On the legacy stream: 906 while a blocking stream is captured.
  CUresult implicit();
  // Work for a stream: a node when it is captured, else done now.
  CUresult enqueue(CUstream s, CUgraphNodeType type, Payload p, CUgraphNode* made = nullptr);
  void over(uint64_t id, bool drop_graph);

  // ---- graphs (fake_driver_graph.cpp)
  CUgraphNode add_node(CUgraph g, CUgraphNodeType type, Payload p, std::vector<Dep> deps);
  void destroy_graph(CUgraph g);
  void destroy_node(CUgraphNode n);
  CUgraph copy_graph(CUgraph g, CUgraph parent);
  bool has(CUgraph g, const std::function<bool(const Node&)>& what);
  bool single_use(CUgraph g);  // alloc, free, conditional or device-updatable nodes
  void release(std::map<CUuserObject, unsigned>& kept);
  // By its CUfunction or its CUkernel, which are one here.
  Function* function_of(const CUDA_KERNEL_NODE_PARAMS& k) {
    return find<Function>(k.func ? static_cast<const void*>(k.func) : k.kern);
  }
  bool keep_arguments(const Function& f, const CUDA_KERNEL_NODE_PARAMS& k, Payload* p);

  // ---- execution (fake_driver_exec.cpp)
  CUresult run(Exec* e, const ExecNode& node);
  CUresult run(Exec* e, const ExecGraph& graph);
  CUresult perform(CUgraphNodeType type, const Payload& p, bool in_graph, Exec* e);
  bool inside(CUdeviceptr p, size_t bytes);
  // Memory that `p` lies in: its start and size, whether it is the host's. False: none that the driver knows.
  bool whole(CUdeviceptr p, CUdeviceptr* start, size_t* bytes, bool* host);
  // Of Memory or HostMemory.
  void free_memory(CUdeviceptr p);
  // Whether a copy or a fill has an address in memory that was freed.
  bool names_freed(const Payload& p, CUgraphNodeType type) const;
  bool names_freed(const ExecGraph& graph) const;

  FakeDriver& face;
  int version;
  std::recursive_mutex mutex;
  std::map<uint64_t, std::unique_ptr<Thing>> things;
  uint64_t next = 0x1000;
  size_t used = 0;
  int context_references = 0, context_depth = 0;
  double clock_ms = 0;
  long calls = 0, fail_at = 0;
  std::string fail_name, failed;
  CUresult fail_code = CUDA_SUCCESS;
  std::map<uint64_t, CaptureState> captures;
  uint64_t next_id = 1;
  std::map<uint64_t, unsigned> condition_values;
  uint64_t graph_used = 0, graph_high = 0;
  int overlaps = 0;
  // By start. Kept to the end, so that no address comes again in another meaning; but not what is large, of
  // which nothing is remembered.
  std::map<uint64_t, Freed> freed;
  int given_freed = 0;
};

// The one that lives.
extern Model* fake;
extern thread_local CUstreamCaptureMode thread_mode;

inline bool legacy(CUstream s) { return !s || s == CU_STREAM_LEGACY; }

#define ENTER(function)                                           \
  const std::lock_guard<std::recursive_mutex> lock_(fake->mutex); \
  if (const CUresult code_ = fake->enter(function); code_ != CUDA_SUCCESS) return code_
// For what is done also when it is made to fail.
#define ENTER_RELEASE(function)                                   \
  const std::lock_guard<std::recursive_mutex> lock_(fake->mutex); \
  const CUresult entered = fake->enter(function)
#define REQUIRE(condition) \
  if (!(condition)) return CUDA_ERROR_INVALID_VALUE
#define UNSAFE_IN_CAPTURE() \
  if (const CUresult code_ = fake->unsafe_call(); code_ != CUDA_SUCCESS) return code_

// Puts `function` at `field` when the driver of that version has it.
#define SET(field, function) \
  table.field.set(table.field.version() <= table.version ? &function : nullptr, table.version)

// Alloc, free and device-updatable nodes stay where they are.
inline bool fixed(const Node& n) {
  constexpr int kDeviceUpdatable = 13;
  return n.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n.type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
         n.p.attributes.count(kDeviceUpdatable);
}
inline bool conditional(const Node& n) { return static_cast<int>(n.type) == 13; }

#if CUDA_VERSION >= 12030
inline std::vector<Dep> deps_of(const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count) {
  std::vector<Dep> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(data ? Dep{nodes[i], data[i].from_port, data[i].type} : Dep{nodes[i]});
  return out;
}
#endif

void set_machine(driver::Driver& table);
void set_capture(driver::Driver& table);
void set_graph(driver::Driver& table);
void set_nodes(driver::Driver& table);
void set_exec(driver::Driver& table);
void set_update(driver::Driver& table);
// What an exec keeps of a graph.
ExecGraph snapshot(CUgraph g);

}  // namespace rondo::fake
