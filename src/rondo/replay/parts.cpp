// Parts as pieces: runs of parts that are one region, and parts that run plainly.
#include <fmt/format.h>

#include <algorithm>

#include "rondo/base/trace.h"
#include "rondo/replay/region.h"
#include "rondo/replay_parts.h"

namespace rondo::replay {
namespace detail {

class PartsState {
 public:
  PartsState(std::string name, std::vector<bool> plain, Options options)
      : name_(std::move(name)), plain_(std::move(plain)), options_(std::move(options)) {
    lay_out(false);
  }

  void call(CUstream stream, std::span<const Argument> arguments, std::span<const WorkRef> works) {
    if (works.size() != plain_.size())
      throw Error(ErrorKind::Usage,
                  fmt::format("{}: {} pieces of work for {} parts", name_, works.size(), plain_.size()));
    // Work may call its own Parts again: this call's arguments are its own, and pieces stay until the
    // outermost is done.
    Depth in(this);
    std::vector<Argument>& within = in.arguments;
    within.assign(arguments.begin(), arguments.end());
    for (Argument& a : within)
      if (a.kind == Kind::Out) a.kind = Kind::InOut;
    for (const auto& piece : pieces_) {
      Run run{works.subspan(piece->begin, piece->end - piece->begin)};
      const WorkRef work{&run, [](void* object, CUstream s, const Argument* a) {
                           for (const WorkRef& w : static_cast<Run*>(object)->works) w(s, a);
                         }};
      if (piece->region)
        piece->region->call(stream, within, work);
      else
        work(stream, within.data());
    }
    if (searching_ && depth_ == 1) look();
  }

  std::string describe() const {
    std::string out;
    for (const auto& p : pieces_)
      out += fmt::format("{}[{}..{}) {}", out.empty() ? "" : ", ", p->begin, p->end,
                         p->region ? "graph" : "plain");
    return out;
  }

  std::vector<RegionReport> report() const {
    std::vector<RegionReport> out;
    for (const auto& p : pieces_)
      if (p->region) out.push_back(p->region->report());
    return out;
  }

 private:
  struct Run {
    std::span<const WorkRef> works;
  };
  struct Depth {
    explicit Depth(PartsState* s) : state(s), arguments(std::move(s->within_)) { ++state->depth_; }
    ~Depth() { --state->depth_, state->within_ = std::move(arguments); }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    PartsState* state;
    std::vector<Argument> arguments;
  };
  struct Piece {
    size_t begin, end;
    std::unique_ptr<RegionBase> region;  // null: plain
  };

  // Runs of parts that are not plain; each part by itself where `singly`.
  void lay_out(bool singly) {
    pieces_.clear();
    seen_ = 0;
    for (size_t begin = 0; begin < plain_.size();) {
      size_t end = begin + 1;
      if (!plain_[begin] && !singly)
        while (end < plain_.size() && !plain_[end]) ++end;
      auto piece = std::make_unique<Piece>(Piece{begin, end, nullptr});
      if (!plain_[begin])
        piece->region = std::make_unique<RegionBase>(fmt::format("{}[{}..{})", name_, begin, end), options_);
      pieces_.push_back(std::move(piece));
      begin = end;
    }
    singly_ = singly;
  }

  // Whether something was refused meanwhile, so that the parts must be cut otherwise.
  void look() {
    uint64_t made = 0;
    for (const auto& p : pieces_)
      if (p->region) made += p->region->state_->made();
    if (made == seen_) return;  // nothing new: reports take their time
    seen_ = made;
    bool all_known = true, many_refused = false;
    for (const auto& p : pieces_) {
      if (!p->region) continue;
      bool known = false, refused = false;
      for (const RecordingReport& r : p->region->report().recordings) {
        known = known || r.nodes || r.state == "refused";
        refused = refused || r.state == "refused";
      }
      all_known = all_known && known;
      many_refused = many_refused || (refused && p->end - p->begin > 1);
      if (refused && p->end - p->begin == 1 && singly_) plain_[p->begin] = true;
    }
    if (many_refused) {
      lay_out(true);  // which part it is
    } else if (!all_known) {
      return;
    } else {
      searching_ = false;
      if (!singly_) return;
      lay_out(false);  // what can be captured, joined again
    }
    trace::note(trace::Level::Info, "replay.parts", name_ + ": " + describe());
  }

  const std::string name_;
  std::vector<bool> plain_;
  const Options options_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::vector<Argument> within_;  // kept for its memory
  unsigned depth_ = 0;
  uint64_t seen_ = 0;  // recordings and failures when it was looked last
  bool singly_ = false, searching_ = true;
};

}  // namespace detail

PartsBase::PartsBase(std::string name, std::vector<bool> plain, Options options)
    : state_(std::make_unique<detail::PartsState>(std::move(name), std::move(plain), std::move(options))) {}
PartsBase::~PartsBase() = default;
void PartsBase::call(CUstream stream, std::span<const Argument> arguments,
                     std::span<const detail::WorkRef> works) {
  state_->call(stream, arguments, works);
}
std::string PartsBase::describe() const { return state_->describe(); }
std::vector<RegionReport> PartsBase::report() const { return state_->report(); }

}  // namespace rondo::replay
