// Regions of different character, from launch-bound to bandwidth-bound: how long each takes plainly, as a
// graph that is patched, as a graph with copies, and by itself deciding.
//   bench_replay_regions [--json FILE] [--rounds N] [--only PART OF A NAME] [--mode changing|constant]
//   [--list] [--libs FOLDER:FOLDER]
// Exit code 77: there is no GPU; 1: a wrong result.
//
// The ways, in turns within each round of one run:
//   plain    the work itself, called with the buffers of this call; timed twice a round, so that the noise is
//   seen graph    Region, policy always: addresses are patched (or copied where Rondo finds that cheaper)
//   staged   Region, policy always, staging always: inputs and outputs are copied to and from where the graph
//   has
//            them. As PyTorch's CUDA graphs do it with inputs; outputs stay in the graph's memory there
//   auto     Region as it comes, after it has decided
// Mode "changing": three sets of buffers, another one at each call. Mode "constant": the same arguments all
// the time. period: a call, of many back to back with one wait at the end. latency: a call and a wait. Host
// clock, us, medians of the rounds; ratios are medians of the rounds' ratios. "best" is the fastest of plain,
// graph and staged, by its median. Where no graph could be made, graph and staged are plain calls, and are
// left out of the sums for staged. In "sizes never come again" each call has a new signature: graph is
// each call captured and launched through one executable, staged and mode "constant" are left out.
//
// After timing each way's results are compared, bit for bit, with those of plain calls from the same
// beginning.
#include <nlohmann/json.hpp>

#include "program.h"
#include "replay_scenarios.h"

namespace {

// ---------------------------------------------------------------- measuring
constexpr const char* kWays[] = {"plain", "graph", "staged", "auto", "plain again"};
constexpr size_t kPlain = 0, kGraph = 1, kStaged = 2, kAuto = 3, kAgain = 4, kWayCount = 5;

struct Measured {
  std::string name, what, mode;
  std::vector<double> period[kWayCount], latency[kWayCount];
  bool right[kWayCount] = {true, true, true, true, true};
  bool graphs = false;  // whether one was made
  std::string chose, reason;
  double decided_after_calls = 0, record_ms = 0, pays_after_calls = 0;
  size_t nodes = 0, slots = 0;
  uint64_t copied_bytes = 0;
  size_t best_period = 0, best_latency = 0;  // of plain, graph, staged
  std::vector<replay::RegionReport> reports;

  double period_ratio(size_t way, size_t to) const { return bench::median_ratio(period[way], period[to]); }
  double latency_ratio(size_t way, size_t to) const { return bench::median_ratio(latency[way], latency[to]); }
};

class Bench {
 public:
  explicit Bench(unsigned rounds) : rounds_(rounds) {
    MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    MUST(cudaMalloc(&difference_, sizeof *difference_));
  }
  ~Bench() {
    (void)cudaFree(difference_);
    (void)cudaStreamDestroy(stream_);
  }
  const std::vector<Measured>& results() const { return results_; }
  bool right() const { return right_; }

  // What goes wrong in one region is said, and the others go on, as long as the GPU's context lives.
  void run(const Entry& entry, bool constant) {
    try {
      measure(entry, constant);
    } catch (const std::exception& e) {
      std::printf("%-24s %-8s failed: %s\n", entry.name, constant ? "constant" : "changing", e.what());
      std::fflush(stdout);
      right_ = false;
      lost_ = cudaDeviceSynchronize() != cudaSuccess;
    }
  }
  bool lost() const { return lost_; }

 private:
  void measure(const Entry& entry, bool constant) {
    if (entry.blas && !bench::Blas::get().ok()) {
      std::printf("%-24s left out: %s\n", entry.name, bench::Blas::get().why().c_str());
      return;
    }
    Arena memory(stream_);
    const std::unique_ptr<Scenario> s = entry.make(memory);
    MUST(cudaStreamSynchronize(stream_));
    if (constant && s->new_signatures()) return;
    Measured m;
    m.name = entry.name, m.what = entry.what, m.mode = constant ? "constant" : "changing";
    const std::vector<Extent> extents = s->extents();
    std::vector<void*> beginning, results;
    for (const Extent& e : extents) {
      beginning.push_back(memory.bytes(e.bytes)), results.push_back(memory.bytes(e.bytes));
      MUST(cudaMemcpyAsync(beginning.back(), e.data, e.bytes, cudaMemcpyDeviceToDevice, stream_));
    }
    make_regions(*s, m);
    settle(*s, constant, &m);
    time(*s, constant, &m);
    for (size_t way = kGraph; way <= kAuto; ++way)
      if (done(*s, way)) m.right[way] = same_as_plain(*s, way, constant, extents, beginning, results);
    look(*s, &m);
    print(m);
    results_.push_back(std::move(m));
  }
  static void make_regions(Scenario& s, const Measured& m) {
    replay::Options always, staged, by_itself;
    always.policy = staged.policy = replay::Policy::always;
    staged.staging = replay::Staging::always;
    always.most_bytes = staged.most_bytes = uint64_t{16} << 30;
    always.remember = staged.remember = by_itself.remember = false;
    s.make(m.name + ", graph, " + m.mode, always);
    s.make(m.name + ", staged, " + m.mode, staged);
    s.make(m.name + ", auto, " + m.mode, by_itself);
  }
  static bool done(const Scenario& s, size_t way) { return way != kStaged || !s.new_signatures(); }
  void once(Scenario& s, size_t way, bool constant) {
    const unsigned set = constant ? 0 : turn_[way]++ % s.sets();
    if (way == kPlain || way == kAgain)
      s.plain(stream_, set);
    else
      s.call(way - kGraph, stream_, set);
  }
  static bool settled(const Scenario& s, const replay::RegionReport& r) {
    if (s.new_signatures()) return !r.recapture.empty() && r.recapture != "timing";
    for (const replay::RecordingReport& recording : r.recordings)
      if (recording.state != "decided" && recording.state != "refused" && recording.state != "dropped")
        return false;
    return !r.recordings.empty();
  }
  // Calls until everything is recorded, and auto has decided. In short bursts, so that both of its measures
  // happen.
  void settle(Scenario& s, bool constant, Measured* m) {
    for (int i = 0; i < 5; ++i) once(s, kPlain, constant);
    for (const size_t way : {kGraph, kStaged})
      for (int i = 0; i < 8 && done(s, way); ++i) once(s, way, constant);
    MUST(cudaStreamSynchronize(stream_));
    const auto start = bench::Clock::now();
    const replay::RegionBase& region = s.region(kAuto - kGraph);
    while (m->decided_after_calls < 20000 && bench::us_since(start) < 8e6) {
      for (int i = 0; i < 16; ++i) once(s, kAuto, constant);
      m->decided_after_calls += 16;
      if (settled(s, region.report())) break;
    }
    MUST(cudaStreamSynchronize(stream_));
  }
  void time(Scenario& s, bool constant, Measured* m) {
    const auto block = [&](size_t way, int calls) {
      const auto start = bench::Clock::now();
      for (int i = 0; i < calls; ++i) once(s, way, constant);
      MUST(cudaStreamSynchronize(stream_));
      return bench::us_since(start) / calls;
    };
    // A block is about 2 ms of plain calls.
    (void)block(kPlain, 2);
    const int calls = std::clamp(static_cast<int>(2000.0 / block(kPlain, 4)), 4, 100);
    for (int round = -2; round < static_cast<int>(rounds_); ++round)  // the first two warm up
      for (size_t j = 0; j < kWayCount; ++j) {
        const size_t way = (static_cast<size_t>(round + 2) + j) % kWayCount;
        if (!done(s, way)) continue;
        // Each set of buffers once, untimed: what the way before has left in the caches is not this one's
        // doing.
        (void)block(way, 3);
        const double period = block(way, calls);
        double latencies[3];
        for (double& l : latencies) l = block(way, 1);
        std::sort(latencies, latencies + 3);
        if (round < 0) continue;
        m->period[way].push_back(period);
        m->latency[way].push_back(latencies[1]);
      }
    const auto best = [&](const std::vector<double>* by) {
      size_t b = kPlain;
      for (const size_t way : {kGraph, kStaged})
        if (!by[way].empty() && bench::median(by[way]) < bench::median(by[b])) b = way;
      return b;
    };
    m->best_period = best(m->period), m->best_latency = best(m->latency);
  }

  void restore(const std::vector<Extent>& extents, const std::vector<void*>& beginning) {
    for (size_t i = 0; i < extents.size(); ++i)
      MUST(cudaMemcpyAsync(extents[i].data, beginning[i], extents[i].bytes, cudaMemcpyDeviceToDevice,
                           stream_));
  }
  // Some calls of this way and the same calls plainly, from the same beginning: every buffer must be the
  // same.
  bool same_as_plain(Scenario& s, size_t way, bool constant, const std::vector<Extent>& extents,
                     const std::vector<void*>& beginning, const std::vector<void*>& results) {
    const unsigned count = s.new_signatures() ? 40 : 2 * s.sets() + 1;
    const unsigned first = std::max(turn_[way], turn_[kPlain]);  // sizes that neither way has seen
    const auto calls = [&](size_t by) {
      restore(extents, beginning);
      turn_[by] = first;
      for (unsigned i = 0; i < count; ++i) once(s, by, constant);
    };
    calls(way);
    for (size_t i = 0; i < extents.size(); ++i)
      MUST(cudaMemcpyAsync(results[i], extents[i].data, extents[i].bytes, cudaMemcpyDeviceToDevice, stream_));
    calls(kPlain);
    // Not by chance: plain calls must have written something that was not there at the beginning.
    const bench::Difference none;
    bench::Difference wrong, changed;
    MUST(cudaMemcpyAsync(difference_, &none, sizeof none, cudaMemcpyHostToDevice, stream_));
    for (size_t i = 0; i < extents.size(); ++i)
      bench::compare(extents[i].data, results[i], extents[i].bytes, 0, difference_, stream_);
    MUST(cudaMemcpyAsync(&wrong, difference_, sizeof wrong, cudaMemcpyDeviceToHost, stream_));
    MUST(cudaMemcpyAsync(difference_, &none, sizeof none, cudaMemcpyHostToDevice, stream_));
    for (size_t i = 0; i < extents.size(); ++i)
      if (extents[i].written)
        bench::compare(extents[i].data, beginning[i], extents[i].bytes, 0, difference_, stream_);
    MUST(cudaMemcpyAsync(&changed, difference_, sizeof changed, cudaMemcpyDeviceToHost, stream_));
    MUST(cudaStreamSynchronize(stream_));
    if (wrong.bytes == 0 && changed.bytes > 0) return true;
    std::fprintf(stderr, "wrong result of %s: %llu bytes differ from plain calls, which changed %llu\n",
                 s.region(way - kGraph).name().c_str(), wrong.bytes, changed.bytes);
    right_ = false;
    return false;
  }

  static void look(const Scenario& s, Measured* m) {
    for (size_t i = 0; i < 3; ++i) m->reports.push_back(s.region(i).report());
    m->graphs = m->reports[0].replays > 0 || m->reports[0].recaptures > 0;
    const replay::RegionReport& decided = m->reports[kAuto - kGraph];
    for (const replay::RecordingReport& r : decided.recordings) {
      m->chose = r.choice.empty() ? r.state : r.choice;
      m->reason = r.reason;
      m->record_ms += r.record_ms;
      m->pays_after_calls = r.pays_after_calls;
      m->nodes = r.nodes, m->slots = r.slots, m->copied_bytes = r.copied_bytes_a_call;
    }
    if (s.new_signatures()) {
      m->reason = decided.recapture;
      m->chose = m->reason.rfind("recaptured", 0) == 0 ? "graph" : "plain";
      for (replay::RegionReport& r : m->reports) r.recordings.clear();  // a thousand of sizes that came once
    } else if (decided.recordings.empty()) {
      m->chose = "plain", m->reason = "nothing was recorded";
    }
    if (!m->graphs && !m->reports[0].fallbacks.empty()) m->reason = m->reports[0].fallbacks.back();
  }
  static void print(const Measured& m) {
    std::printf("%-24s %-8s", m.name.c_str(), m.mode.c_str());
    for (const auto* by : {m.period, m.latency})
      for (const size_t way : {kPlain, kGraph, kStaged, kAuto})
        if (by[way].empty())
          std::printf(" %9s", "-");
        else
          std::printf(" %9.2f", bench::median(by[way]));
    std::printf("  %-6s %5.2f %5.2f %5.2f %5.2f  %5.2f %5.2f%s\n", m.chose.c_str(),
                m.period_ratio(kAuto, kPlain), m.latency_ratio(kAuto, kPlain),
                m.period_ratio(kAuto, m.best_period), m.latency_ratio(kAuto, m.best_latency),
                m.period_ratio(kAgain, kPlain), m.latency_ratio(kAgain, kPlain),
                m.right[kGraph] && m.right[kStaged] && m.right[kAuto] ? "" : "  WRONG");
    if (!m.graphs) std::printf("%-24s no graph: %s\n", "", m.reason.c_str());
    std::fflush(stdout);
  }

  unsigned rounds_;
  cudaStream_t stream_ = nullptr;
  bench::Difference* difference_ = nullptr;
  unsigned turn_[kWayCount] = {};
  std::vector<Measured> results_;
  bool right_ = true, lost_ = false;
};

// ---------------------------------------------------------------- the sums
struct Sum {
  std::string name, mode, measure;
  size_t count;
  double mean, worst;
  std::string worst_of;
};
std::vector<Sum> sums(const std::vector<Measured>& all) {
  std::vector<Sum> found;
  for (const char* mode : {"changing", "constant", "both"})
    for (const char* measure : {"period", "latency"})
      for (const char* name :
           {"staged / plain", "graph / plain", "auto / plain", "auto / best", "plain again / plain"}) {
        Sum s{name, mode, measure, 0, 0, 0, ""};
        std::vector<double> ratios;
        for (const Measured& m : all) {
          if (std::string(mode) != "both" && m.mode != mode) continue;
          const std::string which = name;
          const bool of_graphs = which[0] == 's' || which[0] == 'g';
          if (of_graphs && !m.graphs) continue;
          const bool period = std::string(measure) == "period";
          const size_t best = period ? m.best_period : m.best_latency;
          const size_t way = which[0] == 's'   ? kStaged
                             : which[0] == 'g' ? kGraph
                             : which[0] == 'a' ? kAuto
                                               : kAgain;
          const size_t to = which == "auto / best" ? best : kPlain;
          if (m.period[way].empty()) continue;
          const double ratio = period ? m.period_ratio(way, to) : m.latency_ratio(way, to);
          ratios.push_back(ratio);
          if (ratio > s.worst)
            s.worst = ratio, s.worst_of = m.name + (m.mode == "constant" ? " (constant)" : "");
        }
        if (ratios.empty()) continue;
        s.count = ratios.size();
        s.mean = bench::geometric_mean(ratios);
        found.push_back(s);
      }
  return found;
}

void write(const std::string& path, const Bench& bench, unsigned rounds) {
  nlohmann::json j = {{"device", bench::gpu_name()}, {"rounds", rounds}, {"results_right", bench.right()}};
  j["cublas"] = bench::Blas::get().ok() ? bench::Blas::get().path() : "";
  for (const Measured& m : bench.results()) {
    nlohmann::json r = {
        {"name", m.name},
        {"what", m.what},
        {"mode", m.mode},
        {"graph_made", m.graphs},
        {"chose", m.chose},
        {"reason", m.reason},
        {"auto_calls_to_decide", m.decided_after_calls},
        {"record_ms", m.record_ms},
        {"pays_after_calls", m.pays_after_calls},
        {"nodes", m.nodes},
        {"slots", m.slots},
        {"copied_bytes_a_call", m.copied_bytes},
        {"best_period", kWays[m.best_period]},
        {"best_latency", kWays[m.best_latency]},
        {"auto_over_plain", {m.period_ratio(kAuto, kPlain), m.latency_ratio(kAuto, kPlain)}},
        {"auto_over_best", {m.period_ratio(kAuto, m.best_period), m.latency_ratio(kAuto, m.best_latency)}},
        {"graph_over_plain", {m.period_ratio(kGraph, kPlain), m.latency_ratio(kGraph, kPlain)}},
        {"plain_again_over_plain", {m.period_ratio(kAgain, kPlain), m.latency_ratio(kAgain, kPlain)}},
        {"reports", nlohmann::json::parse(replay::json(m.reports))}};
    if (!m.period[kStaged].empty())
      r["staged_over_plain"] = {m.period_ratio(kStaged, kPlain), m.latency_ratio(kStaged, kPlain)};
    for (size_t way = 0; way < kWayCount; ++way)
      if (!m.period[way].empty())
        r["ways"].push_back({{"way", kWays[way]},
                             {"period_us", bench::median(m.period[way])},
                             {"latency_us", bench::median(m.latency[way])},
                             {"right", m.right[way]}});
    j["regions"].push_back(std::move(r));
  }
  for (const Sum& s : sums(bench.results()))
    j["sums"].push_back({{"ratio", s.name},
                         {"mode", s.mode},
                         {"measure", s.measure},
                         {"regions", s.count},
                         {"geometric_mean", s.mean},
                         {"worst", s.worst},
                         {"worst_of", s.worst_of}});
  const std::string text = j.dump(2) + "\n";
  FILE* file = std::fopen(path.c_str(), "w");
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((file && std::fclose(file) != 0) || !written)
    throw rondo::Error(rondo::ErrorKind::Usage, "cannot write " + path);
}

int run(unsigned rounds, const std::string& only, const std::string& mode, const std::string& json) {
  bench::use_gpu();
  std::printf("%s; medians of %u rounds, us a call\n", bench::gpu_name().c_str(), rounds);
  std::printf("%-33s %39s %39s  %-6s %11s %11s  %11s\n", "", "period: plain, graph, staged, auto",
              "latency: plain, graph, staged, auto", "auto", "auto/plain", "auto/best", "plain/plain");
  std::printf("%-33s %39s %39s  %-6s %5s %5s %5s %5s  %5s %5s\n", "", "", "", "chose", "per.", "lat.", "per.",
              "lat.", "per.", "lat.");
  Bench bench(rounds);
  for (const Entry& entry : kEntries) {
    if (std::string(entry.name).find(only) == std::string::npos) continue;
    if (mode != "constant") bench.run(entry, false);
    if (mode != "changing") bench.run(entry, true);
    if (bench.lost()) break;
  }
  std::printf("\n%-20s %-9s %-8s %8s %10s %8s  %s\n", "ratio", "mode", "measure", "regions", "geo. mean",
              "worst", "of");
  for (const Sum& s : sums(bench.results()))
    std::printf("%-20s %-9s %-8s %8zu %10.3f %8.3f  %s\n", s.name.c_str(), s.mode.c_str(), s.measure.c_str(),
                s.count, s.mean, s.worst, s.worst_of.c_str());
  std::printf("results %s\n", bench.right() ? "right" : "WRONG");
  if (!json.empty()) write(json, bench, rounds);
  return bench.right() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json, only, mode = "both";
  int rounds = 31;
  return bench::guarded([&] {
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      if (option == "--list") {
        for (const Entry& e : kEntries) std::printf("%-24s %s\n", e.name, e.what);
        return 0;
      }
      if (i + 1 == argc)
        throw rondo::Error(
            rondo::ErrorKind::Usage,
            option +
                " is unknown or lacks its value: expected --json FILE, --rounds N, --only NAME, "
                "--mode changing|constant, --libs FOLDERS or --list");
      const std::string value = argv[++i];
      if (option == "--json")
        json = value;
      else if (option == "--libs")
        bench::look_in(value);
      else if (option == "--only")
        only = value;
      else if (option == "--rounds")
        rounds = std::atoi(value.c_str());
      else if (option == "--mode" && (value == "changing" || value == "constant"))
        mode = value;
      else
        throw rondo::Error(rondo::ErrorKind::Usage, "unknown: " + option + " " + value);
    }
    if (rounds < 1) throw rondo::Error(rondo::ErrorKind::Usage, "--rounds must be 1 or more");
    return run(static_cast<unsigned>(rounds), only, mode, json);
  });
}
