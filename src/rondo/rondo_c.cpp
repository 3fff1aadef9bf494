// The C ABI: replay regions behind functions that never throw.
//
// Every function is guarded(): an exception is a code, and its text stays with the thread. Work comes as
// callbacks, which CallbackWork makes a replay::Work; a callback that fails is an exception again on this
// side (WorkFailed), so that the region treats it as it treats work that throws, and a code and a text when
// it comes out.
#include "rondo/rondo_c.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "rondo/driver/driver.h"
#include "rondo/error.h"
#include "rondo/graph.h"
#include "rondo/replay.h"
#include "rondo/replay_work.h"

struct rondo_region {
  rondo::replay::RegionBase base;
};
struct rondo_capture {
  rondo::graph::Capture capture;
};

namespace rondo {
namespace {

using json_t = nlohmann::json;
using replay::Argument;

// ---------------------------------------------------------------- errors
struct Text {
  std::string text;
  const char* fixed = "";  // when there was no memory for a text
  void set(const char* to) noexcept {
    try {
      text = to;
      fixed = nullptr;
    } catch (...) {
      fixed = "out of host memory while an error was being described";
    }
  }
  const char* get() const noexcept { return fixed ? fixed : text.c_str(); }
};
thread_local Text last_error;
thread_local Text left_by_work;  // rondo_fail()

// A callback did not return 0.
struct WorkFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int code_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::Source:
      return RONDO_ERROR_SOURCE;
    case ErrorKind::Usage:
      return RONDO_ERROR_USAGE;
    case ErrorKind::Unavailable:
      return RONDO_ERROR_UNAVAILABLE;
    case ErrorKind::Device:
      return RONDO_ERROR_DEVICE;
    case ErrorKind::Internal:
      break;
  }
  return RONDO_ERROR_INTERNAL;
}

template <class F>
int guarded(const F& work) noexcept {
  const auto failed = [](int code, const char* text) {
    last_error.set(text);
    return code;
  };
  try {
    work();
    return RONDO_OK;
  } catch (const WorkFailed& e) {
    return failed(RONDO_ERROR_WORK, e.what());
  } catch (const Error& e) {
    return failed(code_of(e.kind()), e.what());
  } catch (const std::bad_alloc&) {
    return failed(RONDO_ERROR_MEMORY, "out of host memory");
  } catch (const std::exception& e) {
    return failed(RONDO_ERROR_INTERNAL, e.what());
  } catch (...) {
    return failed(RONDO_ERROR_INTERNAL, "an exception of a type that Rondo does not know");
  }
}

[[noreturn]] void misused(const std::string& text) { throw Error(ErrorKind::Usage, text); }

template <class T>
T* given(T* pointer, const char* function, const char* what) {
  if (!pointer) misused(fmt::format("{}: {} is NULL", function, what));
  return pointer;
}

// ---------------------------------------------------------------- work
// Arguments go through as they are: both structs are five fields of the same sizes in the same places, and
// neither side is compiled with sight of the other's.
static_assert(sizeof(rondo_argument) == sizeof(Argument) && alignof(rondo_argument) == alignof(Argument));
static_assert(offsetof(rondo_argument, value) == offsetof(Argument, value));
static_assert(offsetof(rondo_argument, bytes) == offsetof(Argument, bytes));
static_assert(offsetof(rondo_argument, kind) == offsetof(Argument, kind));
static_assert(offsetof(rondo_argument, element) == offsetof(Argument, element));
static_assert(offsetof(rondo_argument, reserved) == offsetof(Argument, reserved));
static_assert(RONDO_IN == int(replay::Kind::In) && RONDO_OUT == int(replay::Kind::Out) &&
              RONDO_INOUT == int(replay::Kind::InOut) && RONDO_LIVE == int(replay::Kind::Live) &&
              RONDO_FIXED == int(replay::Kind::Fixed) && RONDO_MADE == int(replay::Kind::Made));
static_assert(RONDO_BYTES == int(replay::Element::Bytes) && RONDO_F16 == int(replay::Element::F16) &&
              RONDO_BF16 == int(replay::Element::BF16) && RONDO_F32 == int(replay::Element::F32) &&
              RONDO_F64 == int(replay::Element::F64));

class CallbackWork final : public replay::Work {
 public:
  explicit CallbackWork(const rondo_work* work) noexcept : work_(*work) {}

  void run(CUstream stream, Argument* arguments, bool prove) override {
    call("run", [&] { return work_.run(work_.object, stream, theirs(arguments), prove); });
  }

  replay::CapturedWork capture(Argument* arguments) override {
    rondo_captured out = {};
    call("capture", [&] { return work_.capture(work_.object, theirs(arguments), &out); });
    replay::CapturedWork captured;
    // First of all: whatever is wrong with the rest, what it holds is given back.
    if (out.owner) captured.owner = std::shared_ptr<const void>(out.owner, work_.release);
    captured.graph = static_cast<CUgraph>(out.graph);
    if (!captured.graph) throw WorkFailed("capture() of the work returned no graph");
    if (out.allocation_count && !out.allocations)
      throw WorkFailed(
          fmt::format("capture() of the work counts {} allocations and gives none", out.allocation_count));
    captured.allocations.reserve(out.allocation_count);
    for (size_t i = 0; i < out.allocation_count; ++i)
      captured.allocations.push_back({out.allocations[i].address, out.allocations[i].bytes});
    captured.stateful = out.stateful != 0;
    captured.arena = out.arena;
    return captured;
  }

  void make(Argument* arguments) override {
    call("make", [&] { return work_.make(work_.object, theirs(arguments)); });
  }

  void before_launch(CUstream stream, bool again) override {
    if (work_.before_launch)
      call("before_launch", [&] { return work_.before_launch(work_.object, stream, again); });
  }

 private:
  static rondo_argument* theirs(Argument* arguments) noexcept {
    return reinterpret_cast<rondo_argument*>(arguments);
  }
  template <class F>
  static void call(const char* name, const F& callback) {
    left_by_work.fixed = "";
    if (callback() == 0) [[likely]]
      return;
    const char* const why = left_by_work.get();
    throw WorkFailed(*why ? why : fmt::format("{}() of the work failed without a reason (rondo_fail)", name));
  }
  const rondo_work work_;
};

// ---------------------------------------------------------------- options
template <class T>
struct Word {
  const char* word;
  T value;
};
constexpr Word<replay::Policy> kPolicies[] = {
    {"auto", replay::Policy::auto_}, {"always", replay::Policy::always}, {"never", replay::Policy::never}};
constexpr Word<replay::Goal> kGoals[] = {
    {"both", replay::Goal::both}, {"period", replay::Goal::period}, {"latency", replay::Goal::latency}};
constexpr Word<replay::Proof> kProofs[] = {{"exact", replay::Proof::exact},
                                           {"tolerance", replay::Proof::tolerance},
                                           {"off", replay::Proof::off},
                                           {"auto", replay::Proof::auto_}};
constexpr Word<replay::Staging> kStagings[] = {
    {"auto", replay::Staging::auto_}, {"always", replay::Staging::always}, {"never", replay::Staging::never}};

[[noreturn]] void wrong(const std::string& key, const json_t& value, const std::string& expected) {
  misused(fmt::format("option \"{}\" is {}: expected {}", key,
                      value.dump(-1, ' ', false, json_t::error_handler_t::replace), expected));
}

template <class T, size_t n>
void read(const std::string& key, const json_t& value, const Word<T> (&words)[n], T* to) {
  std::string expected;
  for (size_t i = 0; i < n; ++i) {
    if (value == words[i].word) {
      *to = words[i].value;
      return;
    }
    expected += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 == n ? " or " : ", ", words[i].word);
  }
  wrong(key, value, expected);
}

template <class T>
void read_count(const std::string& key, const json_t& value, T* to) {
  constexpr T most = std::numeric_limits<T>::max();
  if (!value.is_number_unsigned() || value.get<uint64_t>() > most)
    wrong(key, value, fmt::format("a whole number from 0 to {}", most));
  *to = static_cast<T>(value.get<uint64_t>());
}

void read(const std::string& key, const json_t& value, bool* to) {
  if (!value.is_boolean()) wrong(key, value, "true or false");
  *to = value.get<bool>();
}

replay::Options parse_options(const char* text) {
  replay::Options out;
  if (!text || !*text) return out;
  const json_t all = json_t::parse(text, nullptr, false);
  if (!all.is_object())
    misused(fmt::format("the options of a region are a JSON object: this is none: {}", text));
  for (const auto& [key, value] : all.items()) {
    if (key == "policy") {
      read(key, value, kPolicies, &out.policy);
    } else if (key == "goal") {
      read(key, value, kGoals, &out.goal);
    } else if (key == "proof") {
      read(key, value, kProofs, &out.proof);
    } else if (key == "staging") {
      read(key, value, kStagings, &out.staging);
    } else if (key == "tolerance") {
      if (!value.is_number() || !(value.get<double>() >= 0))
        wrong(key, value, "a number that is not negative");
      out.tolerance = value.get<double>();
    } else if (key == "plain_calls") {
      read_count(key, value, &out.plain_calls);
    } else if (key == "most_recordings") {
      read_count(key, value, &out.most_recordings);
    } else if (key == "most_bytes") {
      read_count(key, value, &out.most_bytes);
    } else if (key == "most_failures") {
      read_count(key, value, &out.most_failures);
    } else if (key == "check_arguments") {
      read(key, value, &out.check_arguments);
    } else if (key == "remember") {
      read(key, value, &out.remember);
    } else if (key == "recapture") {
      read(key, value, &out.recapture);
    } else {
      misused(
          fmt::format("there is no option \"{}\" of a region: expected policy, goal, proof, tolerance, "
                      "staging, plain_calls, "
                      "most_recordings, most_bytes, most_failures, check_arguments, remember or recapture",
                      key));
    }
  }
  return out;
}

// ---------------------------------------------------------------- reports
std::vector<replay::RegionReport> reports_of(const rondo_region* region) {
  if (!region) return replay::report();
  std::vector<replay::RegionReport> one;
  one.push_back(region->base.report());
  return one;
}

char* copy(const std::string& text) {
  auto* const out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) throw std::bad_alloc();
  std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

}  // namespace
}  // namespace rondo

using namespace rondo;

int rondo_c_version(void) { return RONDO_C_VERSION; }
const char* rondo_version(void) { return RONDO_VERSION; }
const char* rondo_error_text(void) { return last_error.get(); }
void rondo_fail(const char* text) { left_by_work.set(text ? text : ""); }

int rondo_region_create(const char* name, const char* options, rondo_region** out) {
  return guarded([&] {
    *given(out, "rondo_region_create", "out") = nullptr;
    given(name, "rondo_region_create", "name");
    *out = new rondo_region{{name, parse_options(options)}};
  });
}

void rondo_region_destroy(rondo_region* region) {
  (void)guarded([&] { delete region; });
}

int rondo_region_call(rondo_region* region, void* stream, rondo_argument* arguments, size_t count,
                      const rondo_work* work, int* replayed) {
  return guarded([&] {
    constexpr const char* self = "rondo_region_call";
    if (replayed) *replayed = 0;
    given(region, self, "region");
    given(work, self, "work");
    if (count) given(arguments, self, "arguments");
    if (!work->run || !work->capture || !work->make || !work->release)
      misused(
          "rondo_region_call: run, capture, make and release of a rondo_work must be given: one of them is "
          "NULL");
    CallbackWork callbacks(work);
    const bool done = region->base.call(static_cast<CUstream>(stream),
                                        {reinterpret_cast<Argument*>(arguments), count}, callbacks);
    if (replayed) *replayed = done;
  });
}

int rondo_region_reset(rondo_region* region) {
  return guarded([&] { given(region, "rondo_region_reset", "region")->base.reset(); });
}

int rondo_report_json(const rondo_region* region, char** text) {
  return guarded([&] {
    char** const to = given(text, "rondo_report_json", "text");  // first: what is copied for nobody is lost
    *to = copy(replay::json(reports_of(region)));
  });
}

int rondo_report_text(const rondo_region* region, char** text) {
  return guarded([&] {
    char** const to = given(text, "rondo_report_text", "text");
    *to = copy(replay::text(reports_of(region)));
  });
}

void rondo_free(void* text) { std::free(text); }

int rondo_capture_begin(void* stream, rondo_capture** out) {
  return guarded([&] {
    if (!out) throw Error(ErrorKind::Usage, "rondo_capture_begin: out is NULL");
    *out = new rondo_capture{graph::Capture(static_cast<CUstream>(stream))};
  });
}
int rondo_capture_end(rondo_capture* capture, void** graph) {
  return guarded([&] {
    if (!capture) throw Error(ErrorKind::Usage, "rondo_capture_end: capture is NULL");
    const std::unique_ptr<rondo_capture> ends(capture);
    if (graph) *graph = ends->capture.end().release();
  });
}
void rondo_graph_destroy(void* graph) {
  (void)guarded([&] {
    if (graph) graph::Graph::adopt(static_cast<CUgraph>(graph));
  });
}

int rondo_available(void) {
  return guarded([&] {
    const driver::Driver& d = driver::driver();
    if (const CUresult code = d.cuInit(0); code != CUDA_SUCCESS)
      throw Error(
          ErrorKind::Unavailable,
          fmt::format("CUDA is not available: cuInit failed: {} [driver {}]. Check the GPU with nvidia-smi",
                      driver::describe(d, code), d.name()));
    int gpus = 0;
    RONDO_CU(d, cuDeviceGetCount(&gpus));
    if (gpus == 0)
      throw Error(ErrorKind::Unavailable,
                  "CUDA is not available: the driver sees no GPU. Check CUDA_VISIBLE_DEVICES");
  });
}
