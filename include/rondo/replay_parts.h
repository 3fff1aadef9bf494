// Work of several parts, of which some cannot be captured: graphs on both sides, plain in between.
//
//     replay::Parts decode("decode",
//         replay::part([&](CUstream s, const float* x, float* y, float* z) { ... kernels ... }),
//         replay::plain_part([&](CUstream s, const float*, float* y, float*) { ... wait, read y, decide ...
//         }), replay::part([&](CUstream s, const float*, float* y, float* z) { ... kernels ... }));
//     decode(stream, replay::in(x, n), replay::inout(y, n), replay::out(z, n));
//
// All parts take the arguments of the whole. Neighbouring parts are one graph. Where such a graph is refused,
// its parts are tried one by one, what cannot be captured stays plain, and what is left on both sides of it
// is joined again: so a part that synchronises is found without being marked. Each graph is a region with a
// report of its own: "decode[0..2)". A buffer that is Out for the whole is InOut for the parts, as one may
// read what another wrote. One thread at a time works on a Parts.
#pragma once
#include "rondo/replay.h"

namespace rondo::replay {

template <class Work>
struct Part {
  Work work;
  bool plain;
};
template <class Work>
Part<Work> part(Work work) {
  return {std::move(work), false};
}
// Never part of a graph: it waits, or decides on the host.
template <class Work>
Part<Work> plain_part(Work work) {
  return {std::move(work), true};
}

namespace detail {
class PartsState;
}

class PartsBase {
 public:
  PartsBase(std::string name, std::vector<bool> plain, Options options);
  ~PartsBase();
  PartsBase(const PartsBase&) = delete;
  PartsBase& operator=(const PartsBase&) = delete;
  // `works`: one a part.
  void call(CUstream stream, std::span<const Argument> arguments, std::span<const detail::WorkRef> works);
  // Of each piece: "[0..2) graph", "[2..3) plain", in words.
  std::string describe() const;
  std::vector<RegionReport> report() const;  // of the graphs

 private:
  std::unique_ptr<detail::PartsState> state_;
};

template <class... Works>
class Parts : public PartsBase {
 public:
  explicit Parts(std::string name, Part<Works>... parts)
      : PartsBase(std::move(name), {parts.plain...}, {}), works_(std::move(parts.work)...) {}
  Parts(std::string name, Options options, Part<Works>... parts)
      : PartsBase(std::move(name), {parts.plain...}, std::move(options)), works_(std::move(parts.work)...) {}

  template <class... Args>
  void operator()(CUstream stream, const Args&... args) {
    const auto packed = detail::pack(args...);
    std::apply(
        [&](auto&... work) {
          const std::array<detail::WorkRef, sizeof...(Works)> refs = {detail::work_ref<Args...>(work)...};
          call(stream, packed, refs);
        },
        works_);
  }

 private:
  std::tuple<Works...> works_;
};

}  // namespace rondo::replay
