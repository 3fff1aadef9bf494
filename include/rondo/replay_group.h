// Regions that feed each other, decided together: what counts is the time of the whole step.
//
//     replay::Group group("model", {&encode, &attend, &decode});
//     for (...) group.step(stream, [&] { encode(stream, ...); attend(stream, ...); decode(stream, ...); });
//
// A region that decides by itself sees its own calls only; whether a launch is hidden behind the work of the
// region before it, nobody knows but the whole. In a group the regions' own timing is off; once each has a
// recording for what it is called with, assignments are compared in pairs of whole steps (replay/joint.h)
// until one is clear. A region that is refused stays plain, and takes part as such. One thread at a time
// calls step(); the regions must outlive the group, and be of Policy::auto_. When the group goes, they keep
// what it chose.
#pragma once
#include "rondo/replay.h"

namespace rondo::replay {

namespace detail {
class GroupState;
}

class Group {
 public:
  // Errors: Usage for no regions, or one that is in a group already.
  Group(std::string name, std::vector<RegionBase*> regions, Goal goal = Goal::both);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // One step: all the regions' calls that belong together, on `stream` and what is joined to it.
  template <class Body>
  void step(CUstream stream, Body&& body) {
    begin(stream);
    try {
      std::forward<Body>(body)();
    } catch (...) {
      abandon();
      throw;
    }
    end(stream);
  }

  bool decided() const;
  std::string reason() const;  // "encode graph, decode plain: ..."

 private:
  void begin(CUstream stream);
  void end(CUstream stream);
  void abandon() noexcept;
  std::unique_ptr<detail::GroupState> state_;
};

}  // namespace rondo::replay
