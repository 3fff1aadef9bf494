#include "rondo/replay/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "rondo/base/options.h"
#include "rondo/base/trace.h"
#include "rondo/driver/driver.h"
#include "rondo/error.h"
#include "rondo/replay/files.h"

namespace rondo::replay {
namespace {

using json_t = nlohmann::ordered_json;
constexpr int kFormat = 1;
constexpr size_t kMostFileBytes = size_t{1} << 20;

constexpr unsigned kNodes = 16, kSmallCopies = 8, kRounds = 9, kLargeRounds = 5;
constexpr size_t kSmallBytes = 4096, kLargeBytes = size_t{64} << 20, kLeastLargeBytes = size_t{1} << 20;

// Does nothing: what is timed is the setting of its argument.
constexpr char kKernel[] = R"(
.version 7.8
.target sm_75
.address_size 64
.visible .entry rondo_costs(.param .u64 p) {
  ret;
}
)";

// ---------------------------------------------------------------- measuring

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The median of `rounds` runs, after one that is not timed.
template <class F>
double median_us(unsigned rounds, F run) {
  run();
  std::vector<double> us;
  for (unsigned i = 0; i < rounds; ++i) {
    const double start = now_us();
    run();
    us.push_back(now_us() - start);
  }
  std::nth_element(us.begin(), us.begin() + rounds / 2, us.end());
  return us[rounds / 2];
}

struct Module {
  Module(const driver::Driver& d, const char* text) : d(d) {
    RONDO_CU(d, cuModuleLoadDataEx(&module, text, 0, nullptr, nullptr));
  }
  ~Module() { (void)d.cuModuleUnload(module); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CUfunction function(const char* name) const {
    CUfunction f = nullptr;
    RONDO_CU(d, cuModuleGetFunction(&f, module, name));
    return f;
  }
  const driver::Driver& d;
  CUmodule module = nullptr;
};

struct Memory {
  Memory(const driver::Driver& d, size_t bytes) : d(d) { RONDO_CU(d, cuMemAlloc(&address, bytes)); }
  ~Memory() { (void)d.cuMemFree(address); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  const driver::Driver& d;
  CUdeviceptr address = 0;
};

double set_node_us(const driver::Driver& d, CUstream stream) {
  const Module module(d, kKernel);
  const CUfunction function = module.function("rondo_costs");
  uint64_t value = 0;
  const auto call = [&] { return graph::kernel(function, 1, 32, 0, ++value); };
  graph::Graph graph;
  std::vector<graph::NodeView> nodes;
  for (unsigned i = 0; i < kNodes; ++i) {
    const auto node = call();
    nodes.push_back(nodes.empty() ? graph.add(node) : graph.add(node, nodes.back()));
  }
  graph::GraphExec exec = graph.instantiate();
  exec.launch(stream);  // what is uploaded at the first launch is there when nodes are set
  RONDO_CU(d, cuStreamSynchronize(stream));
  return median_us(kRounds,
                   [&] {
                     for (const graph::NodeView node : nodes) exec.set(node, call());
                   }) /
         kNodes;
}

struct CopyCosts {
  double us, bytes_per_us;
};

CopyCosts copy_costs(const driver::Driver& d, CUstream stream) {
  size_t free = 0, total = 0;
  RONDO_CU(d, cuMemGetInfo(&free, &total));
  size_t large = kLargeBytes;
  while (large > kLeastLargeBytes && 16 * large > free) large /= 2;
  const Memory from(d, large), to(d, large);
  const auto copies = [&](unsigned count, size_t bytes) {
    for (unsigned i = 0; i < count; ++i)
      RONDO_CU(d, cuMemcpyDtoDAsync(to.address, from.address, bytes, stream));
    RONDO_CU(d, cuStreamSynchronize(stream));
  };
  const double one = median_us(kRounds, [&] { copies(1, kSmallBytes); });
  const double several = median_us(kRounds, [&] { copies(1 + kSmallCopies, kSmallBytes); });
  const double big = median_us(kLargeRounds, [&] { copies(1, large); });
  // Where the difference is lost in noise, the whole is a bound.
  return {std::max((several - one) / kSmallCopies, several / (4 * (1 + kSmallCopies))),
          static_cast<double>(large) / std::max(big - one, big / 4)};
}

bool sensible(const Costs& c) {
  const auto fine = [](double x) { return std::isfinite(x) && x > 0; };
  return fine(c.set_node_us) && fine(c.copy_us) && fine(c.copy_bytes_per_us);
}

// ---------------------------------------------------------------- the file
// {"rondo_costs": 1, "machines": {"NVIDIA H200, driver 13000": {"set_node_us", "copy_us",
// "copy_bytes_per_us"}, ...}}

// An empty object where there is no file, or one that is damaged; nothing where it cannot be read.
std::optional<json_t> read_machines(const std::filesystem::path& path) {
  const FileText file = read_whole(path, kMostFileBytes);
  if (file.found == FileText::Found::Unreadable) return std::nullopt;
  if (file.found == FileText::Found::None) return json_t::object();
  const json_t all = json_t::parse(file.text, nullptr, false);
  if (all.is_object() && all.value("rondo_costs", json_t()) == kFormat && all.contains("machines") &&
      all["machines"].is_object())
    return all["machines"];
  trace::note(trace::Level::Info, "replay.costs",
              fmt::format("{} is damaged or of another format: measured anew", path.string()));
  return json_t::object();
}

std::optional<Costs> read_costs(const std::filesystem::path& path, const std::string& machine) {
  const auto machines = read_machines(path);
  if (!machines || !machines->contains(machine)) return std::nullopt;
  const json_t& m = (*machines)[machine];
  Costs costs;
  for (const auto& [name, to] : {std::pair{"set_node_us", &costs.set_node_us},
                                 {"copy_us", &costs.copy_us},
                                 {"copy_bytes_per_us", &costs.copy_bytes_per_us}}) {
    if (!m.is_object() || !m.contains(name) || !m[name].is_number()) return std::nullopt;
    *to = m[name].get<double>();
  }
  costs.measured = true;
  return sensible(costs) ? std::optional(costs) : std::nullopt;
}

void write_costs(const std::filesystem::path& path, const std::string& machine, const Costs& costs) {
  const FileLock lock(path);
  if (lock.held_by_another()) return;
  auto machines = read_machines(path);
  if (!machines) return;
  (*machines)[machine] = {{"set_node_us", costs.set_node_us},
                          {"copy_us", costs.copy_us},
                          {"copy_bytes_per_us", costs.copy_bytes_per_us}};
  const json_t all = {{"rondo_costs", kFormat}, {"machines", *machines}};
  if (const std::string why = write_whole(path, all.dump(2) + "\n"); !why.empty())
    trace::note(trace::Level::Info, "replay.costs", why + ": measured again in the next process");
}

// ---------------------------------------------------------------- in memory

std::mutex& mutex() {
  static std::mutex* const instance = new std::mutex;
  return *instance;
}
// By cache folder and machine. Failures too: trying again at every recording would not be quicker.
std::map<std::pair<std::string, std::string>, Costs>& known() {
  static auto* const instance = new std::map<std::pair<std::string, std::string>, Costs>;
  return *instance;
}

void wait_for(CUstream stream) {
  const driver::Driver& d = driver::driver();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  RONDO_CU(d, cuStreamIsCapturing(stream, &status));
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) RONDO_CU(d, cuStreamSynchronize(stream));
}

Costs find_costs(CUstream stream) {
  const std::string machine = as_utf8(machine_name()), cache = options().cache_dir;
  const std::lock_guard lock(mutex());  // two threads do not measure against each other
  if (const auto at = known().find({cache, machine}); at != known().end()) return at->second;
  const std::filesystem::path path =
      cache.empty() ? std::filesystem::path() : std::filesystem::path(cache) / "replay/costs.json";
  std::optional<Costs> costs;
  if (!path.empty()) costs = read_costs(path, machine);
  if (!costs) {
    try {
      {
        const graph::RelaxedScope relaxed;
        wait_for(stream);
      }
      costs = measure_costs();
      if (!path.empty()) write_costs(path, machine, *costs);
    } catch (const Error& e) {
      trace::note(
          trace::Level::Info, "replay.costs",
          fmt::format("what patching and copying cost cannot be measured: {}. Taken: the figures of an H200",
                      e.what()));
      costs = Costs{};
    }
  }
  return known()[{cache, machine}] = *costs;
}

}  // namespace

Costs measure_costs() {
  trace::Span span("replay.costs");
  const driver::Driver& d = driver::driver();
  const graph::RelaxedScope relaxed;
  const graph::Stream stream = graph::Stream::create();
  Costs costs;
  costs.set_node_us = set_node_us(d, stream);
  const CopyCosts copies = copy_costs(d, stream);
  costs.copy_us = copies.us;
  costs.copy_bytes_per_us = copies.bytes_per_us;
  costs.measured = true;
  if (!sensible(costs))
    throw Error(
        ErrorKind::Unavailable,
        fmt::format("{} us a node, {} us a copy, {} bytes a us were measured: expected positive numbers",
                    costs.set_node_us, costs.copy_us, costs.copy_bytes_per_us));
  if (span.on())
    span.say(fmt::format("{:.2f} us to set a node, {:.1f} us a copy, {:.2f} TB/s", costs.set_node_us,
                         costs.copy_us, costs.copy_bytes_per_us / 1e6));
  return costs;
}

Costs machine_costs(CUstream stream) noexcept {
  try {
    return find_costs(stream);
  } catch (...) {  // no driver, no memory
    return {};
  }
}

std::string machine_name() noexcept {
  try {
    const driver::Driver& d = driver::driver();
    CUdevice device = 0;
    char name[256] = "";
    if (d.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        d.cuDeviceGetName(name, sizeof name, device) != CUDA_SUCCESS || !name[0])
      std::snprintf(name, sizeof name, "unknown device");
    name[sizeof name - 1] = '\0';
    return fmt::format("{}, driver {}", name, d.version);
  } catch (...) {
    return "unknown device";
  }
}

void forget_costs() {
  const std::lock_guard lock(mutex());
  known().clear();
}

}  // namespace rondo::replay
