// A recording is used only after it did what the work does.
#include <fmt/format.h>

#include <algorithm>

#include "rondo/replay/record_parts.h"
#include "rondo/replay/signature.h"
#include "rondo/replay_work.h"

namespace rondo::replay {
namespace {

// By how much sums in another order differ, of the largest magnitude.
double least_tolerance(const Argument& a, Proof proof) {
  if (proof != Proof::auto_) return 0;
  switch (a.element) {
    case Element::F16:
      return 4e-3;
    case Element::BF16:
      return 2e-2;
    case Element::F32:
      return 1e-4;
    case Element::F64:
      return 1e-9;
    case Element::Bytes:
      break;
  }
  return 0;
}

}  // namespace

void prove(const detail::WorkRef& work, std::vector<Argument>& real, CUstream stream,
           const RecordOptions& options, const std::vector<bool>& staged, Shadow* fresh, Playable* playable,
           Recorded* out) {
  const graph::Stream wait = graph::Stream::borrow(stream);
  Shadow& recorded = playable->recorded();
  std::vector<uint64_t> hashes(real.size());
  const auto compared = [&](size_t i) {
    return real[i].buffer() && (real[i].value || (real[i].kind == Kind::Made && real[i].bytes));
  };
  // Where it was recorded, and that nothing may be written to any more. What a Work allocated is its own.
  const auto deserted = [&](size_t i) {
    return compared(i) && !staged[i] && recorded.arguments()[i].kind != Kind::Made;
  };
  const auto fill = [&] {
    for (size_t i = 0; i < real.size(); ++i) {
      if (!compared(i)) continue;
      fresh->poison(i, real[i], stream);
      if (real[i].kind != Kind::Out && real[i].kind != Kind::Made) fresh->fill(i, real[i], stream);
    }
  };
  // Live scalars are those of the call.
  const std::vector<Argument> now(fresh->arguments().begin(), fresh->arguments().end());
  Proof proof = options.proof == Proof::auto_ ? Proof::exact : options.proof;
  try {
    const graph::RelaxedScope
        relaxed;  // the waits here break no capture of others; the work has the caller's own mode
    for (size_t i = 0; i < real.size(); ++i)
      if (deserted(i)) recorded.poison(i, real[i], stream);
    // Whether it repeats itself is asked before the plain run, which changes what is filled in.
    if (options.proof == Proof::auto_ && !playable->stateful()) {
      std::vector<uint64_t> first(real.size());
      for (const bool again : {false, true}) {
        fill();
        (void)playable->play(now, stream);
        wait.synchronize();
        for (size_t i = 0; i < real.size(); ++i) {
          if (!compared(i) || !real[i].written()) continue;
          const uint64_t hash = fresh->hash(i, stream);
          if (again && hash != first[i]) proof = Proof::tolerance;
          first[i] = hash;
        }
      }
      if (proof == Proof::tolerance)
        out->note += std::string(out->note.empty() ? "" : "; ") +
                     "it is not the same from run to run, and was compared within a tolerance";
    }
    fill();
    wait.synchronize();
    for (size_t i = 0; i < real.size(); ++i)
      if (deserted(i)) hashes[i] = recorded.hash(i, stream);
  } catch (const Error& e) {
    throw Refused{fmt::format("the replay that was to prove it failed: {}", e.what())};
  }

  out->called = true;
  if (work.own)
    work.own->run(stream, real.data(), true);
  else
    work(stream, real.data());
  try {
    const graph::RelaxedScope relaxed;
    if (playable->stateful()) work.own->before_launch(stream, true);
    (void)playable->play(now, stream);
    wait.synchronize();
    for (size_t i = 0; i < real.size(); ++i) {
      if (!compared(i)) continue;
      const std::string name = describe_argument(real, i);
      if (!real[i].value) throw Refused{name + " has no address after the plain run"};
      if (std::string guard = fresh->guards_still(i, stream); !guard.empty())
        throw Refused{fmt::format(
            "{} is {}: the work touches more memory than it says. Give it all elements that are touched",
            name, guard)};
      if (std::string differ =
              fresh->compare(i, real[i], proof,
                             std::max(options.tolerance, least_tolerance(real[i], options.proof)), stream);
          !differ.empty())
        throw Refused{fmt::format(
            "the replay does not do what the plain run does: {}: {}. It uses something that is no "
            "argument, writes only a part of an 'out', or is not the same from run to run "
            "(Proof::tolerance allows rounding)",
            name, differ)};
      if (deserted(i) && recorded.hash(i, stream) != hashes[i])
        throw Refused{
            fmt::format("the replay writes to where {} was recorded: an address that was not found. "
                        "Staging::always copies "
                        "buffers to where the recording has them",
                        name)};
    }
  } catch (const std::exception& e) {  // not the work's any more
    throw Refused{fmt::format("the replay that was to prove it failed: {}", e.what())};
  }
}

}  // namespace rondo::replay
