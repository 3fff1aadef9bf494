// What an owned graph knows: its memory, who shares it, and its end.
#include "rondo/graph/state.h"

#include <algorithm>
#include <new>

namespace rondo::graph::detail {

// ---------------------------------------------------------------- memory

namespace {

// A thread keeps the memory of a few states that have gone there. Why: the heap's quick list holds seven
// blocks of a size, and with more graphs alive the heap was the greater part of what the state of a graph
// cost (docs/decisions.md, on the smallest graph). A block belongs to no thread: one may take it from the
// heap, another keep it.
struct Block {
  Block* next;
};
static_assert(sizeof(GraphState) >= sizeof(Block) && alignof(GraphState) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

// Without a destructor, so that it can be used to the thread's very end: static graphs go after all else.
struct Kept {
  Block* first = nullptr;
  unsigned room = 0;   // for so many more: none until there is a GiveBack, and none when it is gone
  bool begun = false;  // there is a GiveBack, or there was
};
constinit thread_local Kept kept;

// To the heap, at the thread's end.
struct GiveBack {
  GiveBack() noexcept { kept.room = kKeptStates, kept.begun = true; }
  ~GiveBack() {
    kept.room = 0;
    while (Block* block = kept.first) {
      kept.first = block->next;
      ::operator delete(block);
    }
  }
};

}  // namespace

void* GraphState::operator new(size_t bytes) {
  Block* block = kept.first;
  if (!block) [[unlikely]]
    return ::operator new(bytes);
  kept.first = block->next;
  ++kept.room;
  return block;
}

void GraphState::operator delete(void* memory) noexcept {
  if (!kept.room) [[unlikely]] {
    if (!kept.begun) {
      thread_local const GiveBack at_end;
    }
    if (!kept.room) return ::operator delete(memory);
  }
  --kept.room;
  kept.first = new (memory) Block{kept.first};
}

// ---------------------------------------------------------------- shares

StateShare StateShare::make(const driver::Driver& driver, CUgraph graph) {
  StateShare first;
  first.state_ = new GraphState(driver, graph);
  return first;
}

void StateShare::add(GraphState* state) noexcept { state->shares.fetch_add(1, std::memory_order_relaxed); }

// Where this is the only share, nobody can make another, and nothing needs to be exchanged.
void StateShare::drop(GraphState* state) noexcept {
  if (state->shares.load(std::memory_order_acquire) == 1 ||
      state->shares.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete state;
}

bool StateShare::only() const noexcept { return state_->shares.load(std::memory_order_acquire) == 1; }

// ---------------------------------------------------------------- the end

GraphState::~GraphState() {
  if (rare)
    for (const auto& child : rare->moved_in) child->within = nullptr;  // an exec may keep the child's state
  if (owned && graph) let_through(driver, [&] { (void)driver.cuGraphDestroy(graph); });
}

bool GraphState::Rare::all_plain() const noexcept {
  return std::all_of(moved_in.begin(), moved_in.end(), [](const auto& child) { return child->all_plain(); });
}

void GraphState::forget() noexcept {
  record.reset();
  if (within) within->changed();
}

void GraphState::lose() noexcept {
  if (lost) return;
  lost = true;
  owned = false;
  changed();
  if (rare)
    for (const auto& child : rare->moved_in) child->lose();
  if (within) within->lose();
}

void throw_lost() {
  throw Error(ErrorKind::Usage,
              "this graph was lost when a capture into it, or into a part of it, broke: the driver destroys "
              "such a graph. Build it anew; a graph that must outlive a broken capture takes the work as a "
              "child: Graph work = capture(...); graph.child(work)");
}

}  // namespace rondo::graph::detail
