#include "rondo/replay/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>

#include "rondo/driver/driver.h"
#include "rondo/replay/arena.h"
#include "rondo/replay/record_parts.h"
#include "rondo/replay/signature.h"
#include "rondo/replay_work.h"

namespace rondo::replay {
namespace {

struct Captured {
  graph::Graph graph;
  Image image;
  std::vector<Argument> arguments;  // with the addresses of what the work allocated
  CapturedWork own;                 // of a Work; its graph is not used any more
};

std::vector<Span64> ranges(std::span<const Argument> arguments) {
  std::vector<Span64> out;
  for (const Argument& a : arguments)
    if (a.buffer() && a.bytes && a.value)
      out.push_back({a.value, a.bytes});  // a result may have no memory yet
  return out;
}

// Calls the work with the same depth of stack each time. Kernels' parameters hold what nobody wrote (the gaps
// of structs) and addresses of host variables that no kernel follows; from the same depth they come out the
// same, as long as the work does the same.
class Level {
 public:
  template <class Call>
  [[gnu::noinline]] void call(const Call& run) {
    scrub();
    char* const here = static_cast<char*>(__builtin_frame_address(0));
    if (!level_) level_ = here - kRoom;
    const ptrdiff_t down = here - level_;
    if (down > 0 && down < 4 * kRoom) {
      auto* const gap = static_cast<volatile char*>(__builtin_alloca(static_cast<size_t>(down)));
      gap[0] = 0;
      fall(run);
      gap[0] = 1;  // so that the gap is there during the call
    } else {
      fall(run);
    }
  }

 private:
  // What earlier calls left on the stack, addresses of theirs among it, is not found in gaps of structs.
  [[gnu::noinline]] static void scrub() {
    char old[kScrubbed];
    std::memset(old, 0, sizeof old);
    asm volatile("" ::"r"(old) : "memory");
    // Nor on the heap, in small blocks that were freed.
    std::array<std::unique_ptr<char[]>, 16> blocks;
    for (size_t bytes = 24; bytes <= 4096; bytes += bytes < 512 ? 16 : bytes / 4) {
      for (auto& block : blocks) block = std::make_unique<char[]>(bytes);
      asm volatile("" ::"r"(blocks.data()) : "memory");
    }
  }
  static constexpr size_t kScrubbed = size_t{256} << 10;
  template <class Call>
  [[gnu::noinline]] void fall(const Call& run) {
    run();
    asm volatile("" ::: "memory");
  }
  static constexpr ptrdiff_t kRoom = 8192;
  char* level_ = nullptr;
};

// A Work captures by itself; a copy of its graph is ours.
Captured capture(Work& work, std::span<const Argument> arguments, Level* level) {
  Captured out;
  out.arguments.assign(arguments.begin(), arguments.end());
  level->call([&] { out.own = work.capture(out.arguments.data()); });
  for (size_t i = 0; i < out.arguments.size(); ++i)
    if (const Argument& a = out.arguments[i]; a.kind == Kind::Made && a.bytes && !a.value)
      throw Refused{describe_argument(arguments, i) + " has no address after the capture"};
  if (!out.own.graph) throw Refused{"the work gave no graph"};
  graph::Graph theirs = graph::Graph::adopt(out.own.graph);
  try {
    out.graph = theirs.clone();
  } catch (...) {
    (void)theirs.release();
    throw;
  }
  (void)theirs.release();
  out.image = read_image(out.graph, ranges(out.arguments), Pageable::MayBeGone);
  if (out.image.nodes.empty()) throw Refused{"it does nothing on the GPU"};
  return out;
}

Captured capture(const detail::WorkRef& work, std::span<const Argument> arguments, bool host_tables,
                 Level* level) {
  if (work.own) return capture(*work.own, arguments, level);
  graph::Capture running;
  try {
    level->call([&] { work(running.stream(), arguments.data()); });
  } catch (const std::exception& e) {
    // The work looked at a status and threw. Which call broke the capture, and how to mend it, the capture
    // knows.
    if (!running.broken()) throw;
    const std::string own = e.what();
    try {
      (void)running.end();
    } catch (const Error& diagnosis) {
      throw Refused{own == diagnosis.what() ? own : fmt::format("{}. {}", own, diagnosis.what())};
    }
    throw;
  }
  graph::Graph graph = running.end();
  Image image = read_image(graph, ranges(arguments), host_tables ? Pageable::Kept : Pageable::MayBeGone);
  if (image.nodes.empty())
    throw Refused{
        "it puts nothing into the stream that it is given: give that stream to its kernels and library "
        "handles"};
  return {std::move(graph), std::move(image), {arguments.begin(), arguments.end()}, {}};
}

// What both captures allocated, pair by pair.
std::vector<Own> pairs(const Captured& first, const Captured& second) {
  const std::vector<Span>&x = first.own.allocations, &y = second.own.allocations;
  const auto same = [](const Span& s, const Span& t) { return s.bytes == t.bytes; };
  if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), same))
    throw Refused{
        fmt::format("it does not allocate the same each time ({} allocations in one capture, {} in another)",
                    x.size(), y.size()),
        true};
  std::vector<Own> out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back({x[i].address, y[i].address, x[i].bytes});
  return out;
}

// Arguments that are the same in both captures have no place to be found.
std::vector<Argument> only(std::span<const Argument> arguments, const std::vector<bool>& moved) {
  std::vector<Argument> out(arguments.begin(), arguments.end());
  for (size_t i = 0; i < out.size(); ++i)
    if (!moved[i]) out[i] = {0, 8, Kind::Fixed, Element::Bytes, 0};
  return out;
}

// Whether a word is no address of anything that a kernel can reach.
bool no_memory(uint64_t word) {
  unsigned type = 0;
  return driver::driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word) !=
             CUDA_SUCCESS ||
         !type;
}

class Finder {
 public:
  Finder(const detail::WorkRef& work, std::span<const Argument> real, const Shadow& a, const Shadow& b,
         bool host_tables, bool proved)
      : work_(work),
        proved_(proved),
        b_(b.arguments()),
        elsewhere_(ranges(real)),
        host_tables_(host_tables),
        first_(capture(work, a.arguments(), host_tables, &level_)),
        a_(first_.arguments) {}

  // Of a second capture in which the arguments in `moved` are others; live ones `near`: of about the same
  // size.
  Discovery find(const std::vector<bool>& moved, bool near = false) {
    std::vector<Argument> second(a_.begin(), a_.end());
    std::vector<bool> differ = moved;
    for (size_t i = 0; i < second.size(); ++i) {
      if (second[i].kind == Kind::Made) {
        second[i].value = 0;
        differ[i] = true;
        continue;
      }
      if (!moved[i]) continue;
      if (second[i].kind == Kind::Live)
        second[i].value = near ? nearby(second[i], i) : perturbed(second[i], i);
      else
        second[i].value = b_[i].value;
    }
    const Captured other = capture(work_, second, host_tables_, &level_);
    for (size_t i = 0; i < a_.size(); ++i)
      if (a_[i].kind == Kind::Made && a_[i].bytes && a_[i].value == other.arguments[i].value)
        throw Refused{describe_argument(a_, i) + " is at the same address in both captures"};
    second_ = other.arguments;
    own_ = pairs(first_, other);
    return discover(first_.image, only(a_, differ), other.image, only(other.arguments, differ), elsewhere_,
                    own_, work_.own && proved_ ? &no_memory : nullptr);
  }
  // After find(). A result of kind Made that cannot be given another address, as an intermediate that does
  // not fit into its memory lay there before, and was moved as it was from one capture to the other, so that
  // the two cannot be told apart; -1: none.
  int immovable(std::string* why) const {
    for (size_t i = 0; i < a_.size(); ++i) {
      const Argument& a = a_[i];
      if (a.kind != Kind::Made || !a.bytes) continue;
      const uint64_t end = a.value + (a.bytes + kMadeGranularity - 1) / kMadeGranularity * kMadeGranularity;
      for (const Own& s : own_) {
        if (s.first >= end || s.first + s.bytes <= a.value) continue;
        if (s.first >= a.value && s.first + s.bytes <= end) continue;
        if (s.second - s.first != second_[i].value - a.value) continue;
        *why = fmt::format("an intermediate of {} bytes lay over it", s.bytes);
        return static_cast<int>(i);
      }
    }
    return -1;
  }
  Captured take() { return std::move(first_); }

 private:
  const detail::WorkRef& work_;
  const bool proved_;
  std::span<const Argument> b_;
  std::vector<Span64> elsewhere_;
  bool host_tables_;
  Level level_;
  Captured first_;
  std::vector<Argument> a_, second_;  // as they were captured with, Made ones with their addresses
  std::vector<Own> own_;
};

std::string join(const std::vector<Problem>& problems) {
  std::string out;
  for (size_t i = 0; i < problems.size() && i < 3; ++i) out += (i ? "; " : "") + problems[i].text;
  if (problems.size() > 3) out += fmt::format("; and {} more", problems.size() - 3);
  return out;
}

struct Places {
  std::vector<Slot> slots;
  std::vector<bool> staged;
  std::string note;
};

// Slots of all arguments but the staged ones. Live scalars that are not to be found become `fixed`, buffers
// that are not to be found are staged where they may be.
Places find_places(Finder& finder, std::span<const Argument> arguments, Staging staging,
                   std::vector<bool>* fixed) {
  const size_t n = arguments.size();
  Places out{{}, std::vector<bool>(n), ""};
  std::vector<bool> moved(n);
  for (size_t i = 0; i < n; ++i) {
    const Argument& a = arguments[i];
    if (a.kind == Kind::Made) {
      moved[i] = true;
    } else if (a.buffer()) {
      out.staged[i] = staging == Staging::always && a.value && a.bytes;
      moved[i] = a.value && !out.staged[i];
    } else {
      moved[i] = a.kind == Kind::Live && !special(a) && !(*fixed)[i];
    }
  }
  // With other scalars the work may do what it never does otherwise: then they are part of the signature. A
  // failure that has nothing to do with them does not come twice.
  const auto find = [&](const std::vector<bool>& which, bool near) -> std::optional<Discovery> {
    for (int tries = 0;; ++tries) {
      try {
        return finder.find(which, near);
      } catch (...) {
        if (tries == 0) continue;
        bool live = false;
        for (size_t i = 0; i < n; ++i)
          if (which[i] && arguments[i].kind == Kind::Live) (*fixed)[i] = live = true, moved[i] = false;
        if (!live) throw;
        return std::nullopt;
      }
    }
  };
  // An integer may be a count after all, of launches or of what is allocated: tried near first, as far from
  // it the work might not come to an end.
  std::vector<bool> integers(n);
  for (size_t i = 0; i < n; ++i)
    integers[i] = moved[i] && arguments[i].kind == Kind::Live && arguments[i].element == Element::Bytes;
  if (std::find(integers.begin(), integers.end(), true) != integers.end())
    if (const auto counts = find(integers, true))
      for (const uint16_t i : counts->fixed) (*fixed)[i] = true, moved[i] = false;
  for (bool tried_each = false;;) {
    const std::optional<Discovery> tried = find(moved, false);
    if (!tried) continue;
    const Discovery& found = *tried;
    if (found.problems.empty() && found.fixed.empty()) {
      out.slots = found.slots;
      return out;
    }
    bool progress = false;
    for (const uint16_t i : found.fixed)
      if (moved[i]) (*fixed)[i] = true, moved[i] = false, progress = true;
    if (progress) continue;
    if (tried_each || staging == Staging::never) throw Refused{join(found.problems)};
    tried_each = true;
    if (const Discovery still = finder.find(std::vector<bool>(n)); !still.problems.empty())
      throw Refused{join(still.problems)};
    for (size_t i = 0; i < n; ++i) {
      if (!moved[i] || !arguments[i].buffer() || !arguments[i].bytes || arguments[i].kind == Kind::Made)
        continue;
      std::vector<bool> alone(n);
      alone[i] = true;
      const Discovery one = finder.find(alone);
      if (one.problems.empty()) continue;
      moved[i] = false, out.staged[i] = true, progress = true;
      out.note += fmt::format("{}{} is copied: {}", out.note.empty() ? "" : "; ",
                              describe_argument(arguments, i), join(one.problems));
    }
    if (!progress) throw Refused{join(found.problems)};
  }
}

// What is worth copying at most: larger copies push what the kernels share out of the cache, which no figure
// of a copy by itself shows (measured: 500 kernels that read the same 256 MiB took 1.7 times as long after a
// copy of it).
constexpr uint64_t kMostStagedBytes = uint64_t{4} << 20;

// A buffer in very many nodes is cheaper to copy than to patch, if its address changes. Twice as cheap, as
// patching takes only the host's time, and copying the GPU's.
void stage_by_cost(std::span<const Argument> arguments, const RecordOptions& options, CUstream stream,
                   Places* places) {
  if (options.staging != Staging::auto_) return;
  std::vector<std::set<uint32_t>> nodes(arguments.size());
  for (const Slot& s : places->slots) nodes[s.argument].insert(s.node);
  if (std::all_of(nodes.begin(), nodes.end(), [](const auto& of) { return of.size() < 8; })) return;
  const Costs costs = machine_costs(stream);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (!a.buffer() || a.kind == Kind::Made || nodes[i].empty() || i >= options.changes.size() ||
        !options.changes[i])
      continue;
    const double copies = a.kind == Kind::InOut ? 2 : 1;
    const double copying = copies * (costs.copy_us + static_cast<double>(a.bytes) / costs.copy_bytes_per_us);
    const double patching = static_cast<double>(nodes[i].size()) * costs.set_node_us;
    if (a.bytes > kMostStagedBytes || 2 * copying >= patching) continue;
    places->staged[i] = true;
    std::erase_if(places->slots, [&](const Slot& s) { return s.argument == i; });
    places->note += fmt::format("{}{} is copied ({:.1f} us), as {} nodes hold it ({:.1f} us to patch)",
                                places->note.empty() ? "" : "; ", describe_argument(arguments, i), copying,
                                nodes[i].size(), patching);
  }
}

uint64_t free_bytes(const driver::Driver& d) {
  size_t free = 0, total = 0;
  return d.cuMemGetInfo(&free, &total) == CUDA_SUCCESS ? free : 0;
}

// A buffer that is passed as a plain value is nobody's to copy: the replay that proves the recording would do
// the work on it a second time.
void refuse_addresses(const driver::Driver& d, std::span<const Argument> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (a.buffer() || a.bytes != 8 || a.element != Element::Bytes || a.value < 65536 || a.value >> 56)
      continue;
    unsigned type = 0;
    if (d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a.value) != CUDA_SUCCESS || !type)
      continue;
    throw Refused{fmt::format(
        "{} is an address of {} memory, passed as a plain value (words of structs count): what the work "
        "does with it is not known. Pass it as in, out or inout; what stays where it is, capture",
        describe_argument(arguments, i), type == CU_MEMORYTYPE_HOST ? "page-locked" : "device")};
  }
}

// The arguments to record a Work with: results of kind Made that are in `copied` are asked for as Out, at an
// address that is given, which costs a copy in the graph.
std::vector<Argument> to_record(std::span<const Argument> arguments, const std::vector<bool>& copied) {
  std::vector<Argument> out(arguments.begin(), arguments.end());
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].kind != Kind::Made) continue;
    out[i].value = 0;
    if (copied[i] && out[i].bytes) out[i].kind = Kind::Out, out[i].value = kMadeGranularity;
  }
  return out;
}

// Captures, finds, instantiates; proves, where asked for. Throws Refused, and as record().
void record_as(const detail::WorkRef& work, std::vector<Argument> real, std::span<const Argument> arguments,
               const std::vector<Memory>& memory, CUstream stream, const RecordOptions& options,
               bool* in_plain, int* immovable, Recorded* out) {
  const driver::Driver& d = driver::driver();
  Shadow recorded(arguments, memory);
  std::optional<Shadow> fresh(std::in_place, arguments, memory);
  Finder finder(work, real, recorded, *fresh, options.host_tables, options.proof != Proof::off);
  Places places = find_places(finder, arguments, options.staging, &out->fixed);
  if (std::string why; (*immovable = finder.immovable(&why)) >= 0)
    throw Refused{fmt::format("{}: {}", describe_argument(arguments, static_cast<size_t>(*immovable)), why)};
  stage_by_cost(arguments, options, stream, &places);
  out->note += places.note;

  Captured first = finder.take();
  Kept kept;
  bool made = false;
  if (work.own) {
    kept = {first.own.owner, first.own.stateful, nullptr};
    if (first.own.arena) {
      CUcontext context = nullptr;
      RONDO_CU(d, cuCtxGetCurrent(&context));
      kept.arena = &Arena::of(context, first.own.arena);
    }
    for (size_t i = 0; i < first.arguments.size(); ++i)
      if (first.arguments[i].kind == Kind::Made && first.arguments[i].bytes)
        recorded.argument(i).value = first.arguments[i].value, made = true;
  }
  const uint64_t before = free_bytes(d);
  auto recording = std::make_unique<Recording>(std::move(first.graph), std::move(first.image),
                                               std::move(places.slots), recorded.arguments(), stream);
  const uint64_t after = free_bytes(d);
  if (made) {  // the results need memory to be proved in
    fresh.reset();
    fresh.emplace(recorded.arguments(), memory);
  }
  auto playable = std::make_unique<Playable>(std::move(recording), std::move(recorded), memory, places.staged,
                                             std::move(kept));
  if (options.proof != Proof::off) {
    *in_plain = true;
    prove(work, real, stream, options, places.staged, &*fresh, playable.get(), out);
    *in_plain = false;
  }
  playable->leave_shadows();
  fresh.reset();
  out->device_bytes = (before > after ? before - after : 0) + playable->staged_bytes();
  out->playable = std::move(playable);
}

}  // namespace

Recorded record(const detail::WorkRef& work, std::span<const Argument> arguments, CUstream stream,
                const RecordOptions& options) {
  Recorded out;
  out.fixed = options.fixed;
  out.fixed.resize(arguments.size());
  bool in_plain = false;  // what it throws there is the caller's
  try {
    const driver::Driver& d = driver::driver();
    const std::vector<Memory> memory = memory_of(arguments);
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (memory[i] == Memory::Pageable)
        throw Refused{describe_argument(arguments, i) +
                      " is ordinary host memory, which copies do not read when they are replayed: use "
                      "page-locked memory"};
      if (const int other = overlapping(arguments, i); other >= 0)
        throw Refused{share_memory(arguments, i, other)};
    }
    if (options.proof != Proof::off) refuse_addresses(d, arguments);
    std::vector<bool> copied(arguments.size());
    for (bool first = true;; first = false) {
      const std::vector<bool> fixed = out.fixed;
      int immovable = -1;
      try {
        record_as(work, {arguments.begin(), arguments.end()}, to_record(arguments, copied), memory, stream,
                  options, &in_plain, &immovable, &out);
        break;
      } catch (const Refused& r) {
        if (immovable < 0 && !(r.once_more && first)) throw;
        out.fixed = fixed;
        if (immovable < 0) continue;
        out.note += fmt::format("{}{}: it is copied out", out.note.empty() ? "" : "; ", r.reason);
        copied[static_cast<size_t>(immovable)] = true;
      }
    }
  } catch (const Refused& r) {
    out.reason = r.reason;
  } catch (const std::exception& e) {
    if (in_plain && out.called) throw;
    out.reason = e.what();
  } catch (...) {
    if (in_plain && out.called) throw;
    out.reason = "it throws something that is no std::exception while it is recorded";
  }
  out.for_now = out.reason.find("OUT_OF_MEMORY") != std::string::npos ||
                out.reason.find("bad_alloc") != std::string::npos ||
                out.reason.find("out of memory") != std::string::npos;
  return out;
}

}  // namespace rondo::replay
