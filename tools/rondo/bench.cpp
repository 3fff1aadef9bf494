// rondo bench: ways to run the same instances, side by side in one run. Every round runs every way, in turn,
// so that what disturbs the machine disturbs all; shown are medians and the ratio to running one by one.
// Times are of the whole call: walking the instances, scheduling, upload, kernels, results on the host.
//
// With one call a round every call of a way meets caches full of another way's data. A program that serves
// calls one model again and again, with other instances each time: --in-a-row N runs each way N times before
// the next has its turn, over N minibatches of the same size, or as many as the file has instances for.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "inputs.h"
#include "rondo/io/file.h"

namespace rondo::tool {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  ModelArguments model;
  std::vector<std::string> devices = {"auto"};
  std::vector<int64_t> batches = {1, 8, 64};
  int rounds = 20, warm_up = 3, in_a_row = 1;
  std::string json;
  bool one_by_one = true, ablate = false, profile = false;
};

// Instances that are timed together: in one batch, or each in a batch of its own.
using Minibatch = std::vector<Batch>;

// A model on a device with a way to launch, and what it runs.
struct Way {
  std::string name, device;
  Model* model = nullptr;
  std::vector<Minibatch> minibatches;  // of the same size; calls go round them
  std::vector<double> ms;
  std::vector<RunReport> parts;  // of batched ways, as many as ms

  bool together() const { return minibatches[0].size() == 1; }
  void run(int times) {
    for (int i = 0; i < times; ++i) {
      const auto start = Clock::now();
      for (const Batch& batch : minibatches[static_cast<size_t>(i) % minibatches.size()]) {
        const Outputs outputs = model->run(batch);
        if (outputs.size() != batch.size())
          throw Error(ErrorKind::Internal, "a run gave fewer results than instances");
      }
      ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      parts.push_back(model->report().last);
    }
  }
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

// Up to `most` minibatches of `count` instances: as many as the source fills with different ones. One that it
// cannot fill is filled from its start again.
std::vector<Minibatch> read_minibatches(const ModelArguments& a, Model* model, size_t count, bool singly,
                                        size_t most) {
  std::vector<Minibatch> all;
  auto source = a.open(model->signature());
  bool again = false;
  while (all.size() < most) {
    Minibatch minibatch;
    size_t held = 0, got = 1;
    while (held < count) {
      if (singly || minibatch.empty()) minibatch.push_back(model->batch());
      got = source->read(&minibatch.back(), singly ? 1 : count - held);
      held += got;
      if (got > 0) continue;
      if (!all.empty()) return all;
      if (held == 0) throw Error(ErrorKind::Usage, "there are no instances");
      if (singly) minibatch.pop_back();
      source = a.open(model->signature());
      again = true;
    }
    all.push_back(std::move(minibatch));
    if (again) break;
  }
  return all;
}

struct Loaded {
  std::string name, device;
  std::unique_ptr<Model> model;
};

// A model for each way: on a GPU, one that launches graphs and one that launches on the stream; to ablate, also graphs
// without dependent launches, and a launch a product on the stream.
std::vector<Loaded> load_all(const Arguments& a) {
  std::vector<Loaded> all;
  for (const std::string& device : a.devices) {
    ModelOptions options = a.model.options();
    options.device = device;
    options.profile = a.profile;
    options.replay = "stream";
    auto model = std::make_unique<Model>(a.model.load(options));
    const std::string description = model->report().device;
    const bool gpu = description.rfind("cuda", 0) == 0;
    if (gpu) {
      options.replay = "graph";
      all.push_back({"cuda graph", description, std::make_unique<Model>(a.model.load(options))});
      if (a.ablate) {
        options.dependent = false;
        all.push_back({"cuda graph, full edges", description, std::make_unique<Model>(a.model.load(options))});
      }
    }
    all.push_back({gpu ? "cuda stream" : "cpu", description, std::move(model)});
    if (a.ablate) {
      options.replay = "stream";
      options.fused = options.dependent = false;
      all.push_back({gpu ? "cuda stream, unfused" : "cpu, unfused", description, std::make_unique<Model>(a.model.load(options))});
    }
  }
  return all;
}

// What a batched call consists of.
struct Part {
  const char *key, *title;
  double RunReport::*member;
};
constexpr Part kParts[] = {{"walk_ms", "walk", &RunReport::walk_ms},
                           {"pack_ms", "pack", &RunReport::pack_ms},
                           {"upload_ms", "upload", &RunReport::upload_ms},
                           {"run_ms", "run", &RunReport::run_ms},
                           {"download_ms", "download", &RunReport::download_ms}};

double median_of(const Way& way, double RunReport::*member) {
  std::vector<double> values;
  for (const RunReport& part : way.parts) values.push_back(part.*member);
  return quantile(values, 0.5);
}

// Of walking and packing.
double host_ns_a_record(const Way& way) {
  std::vector<double> values;
  for (const RunReport& part : way.parts)
    values.push_back((part.walk_ms + part.pack_ms) * 1e6 /
                     static_cast<double>(std::max<uint64_t>(part.records, 1)));
  return quantile(values, 0.5);
}

nlohmann::json to_json(const Way& way, int64_t batch, double baseline) {
  const double median = quantile(way.ms, 0.5);
  nlohmann::json row = {{"batch", batch},
                        {"way", way.name},
                        {"device", way.device},
                        {"minibatches", way.minibatches.size()},
                        {"calls", way.ms.size()},
                        {"median_ms", median},
                        {"p10_ms", quantile(way.ms, 0.1)},
                        {"p90_ms", quantile(way.ms, 0.9)},
                        {"launches", way.parts.back().launches},
                        {"unbatched_launches", way.parts.back().unbatched_launches}};
  for (const Part& part : kParts) row[part.key] = median_of(way, part.member);
  if (baseline > 0) row["times_faster_than_one_by_one"] = baseline / median;
  return row;
}

void bench(const Arguments& a) {
  if (a.rounds < 1 || a.warm_up < 0) {
    throw Error(ErrorKind::Usage, fmt::format("--rounds {} --warm-up {}: expected 1 or more, and 0 or more", a.rounds, a.warm_up));
  }
  if (a.in_a_row < 1)
    throw Error(ErrorKind::Usage, fmt::format("--in-a-row {}: expected 1 or more", a.in_a_row));
  for (const auto& [option, path] : {std::pair("--instances", &a.model.instances), std::pair("--trees", &a.model.trees)}) {
    if (*path == "-") throw Error(ErrorKind::Usage, fmt::format("{} -: bench reads its instances several times; expected a file", option));
  }
  std::vector<Loaded> models = load_all(a);
  for (size_t i = 0; i < models.size(); ++i) {
    if (i == 0 || models[i].device != models[i - 1].device) fmt::print("{}\n", models[i].device);
  }
  fmt::print(
      "medians of {} rounds after {}; every round runs every way {}; whole calls, results on the host\n\n",
      a.rounds, a.warm_up, a.in_a_row == 1 ? "once" : fmt::format("{} times in a row", a.in_a_row));
  fmt::print("{:>6}  {:<26} {:>10} {:>19} {:>12} {:>14} {:>10} {:>10}\n", "batch", "way", "ms", "p10 .. p90 ms", "us/instance",
             "vs one by one", "launches", "unbatched");
  nlohmann::json rows = nlohmann::json::array();
  for (const int64_t batch : a.batches) {
    if (batch < 1) throw Error(ErrorKind::Usage, fmt::format("--batch {}: expected 1 or more", batch));
    const size_t count = static_cast<size_t>(batch), row = static_cast<size_t>(a.in_a_row);
    std::vector<Way> ways;
    std::vector<int> baseline;  // of each way: which way runs the same model one by one; -1: none
    for (const Loaded& m : models) {
      int single = -1;
      if (a.one_by_one && batch > 1) {
        single = static_cast<int>(ways.size());
        ways.push_back({m.name + ", one by one",
                        m.device,
                        m.model.get(),
                        read_minibatches(a.model, m.model.get(), count, true, row),
                        {},
                        {}});
        baseline.push_back(single);
      }
      ways.push_back({m.name + ", batched",
                      m.device,
                      m.model.get(),
                      read_minibatches(a.model, m.model.get(), count, false, row),
                      {},
                      {}});
      baseline.push_back(single);
    }
    for (int round = 0; round < a.warm_up + a.rounds; ++round) {
      if (round == a.warm_up) {
        for (Way& way : ways) way.ms.clear(), way.parts.clear();
      }
      for (Way& way : ways) way.run(a.in_a_row);
    }
    for (size_t i = 0; i < ways.size(); ++i) {
      const Way& way = ways[i];
      const double median = quantile(way.ms, 0.5);
      const double single = baseline[i] >= 0 ? quantile(ways[static_cast<size_t>(baseline[i])].ms, 0.5) : 0;
      const bool together = way.together();
      fmt::print("{:>6}  {:<26} {:>10.3f} {:>19} {:>12.1f} {:>14} {:>10} {:>10}\n", batch, way.name, median,
                 fmt::format("{:.3f} .. {:.3f}", quantile(way.ms, 0.1), quantile(way.ms, 0.9)),
                 median * 1e3 / static_cast<double>(batch), single > 0 ? fmt::format("{:.2f}x", single / median) : "",
                 together ? with_commas(way.parts.back().launches) : "",
                 together ? with_commas(way.parts.back().unbatched_launches) : "");
      rows.push_back(to_json(way, batch, single));
    }
    if (a.in_a_row > 1) {
      const size_t different = ways[0].minibatches.size();
      fmt::print("        {} in a row: {} different {}, in turn\n", a.in_a_row, different,
                 different == 1 ? "minibatch" : "minibatches");
    }
    for (const Way& way : ways) {
      if (!way.together()) continue;
      fmt::print("        {:<26}", way.name);
      for (const Part& part : kParts) fmt::print(" {} {:.3f}", part.title, median_of(way, part.member));
      const RunReport& last = way.parts.back();
      fmt::print(" ms; {} records in {} levels, host {:.0f} ns a record\n",
                 with_commas(last.records), last.levels, host_ns_a_record(way));
    }
    std::fflush(stdout);
  }
  if (!a.json.empty()) {
    const nlohmann::json all = {{"program", a.model.program},
                                {"rondo", RONDO_VERSION},
                                {"rounds", a.rounds},
                                {"in_a_row", a.in_a_row},
                                {"rows", rows}};
    write_file(a.json, all.dump(2) + "\n");
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("bench", "Time ways to run the same instances, side by side");
  auto a = std::make_shared<Arguments>();
  a->model.add_to(*verb, false);
  verb->add_option("--device", a->devices, "One or more of auto, cpu, cuda, cuda:N, as in --device cpu,cuda")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  verb->add_option("--batch", a->batches, "Sizes of minibatches, as in --batch 1,8,64")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  verb->add_option("--rounds", a->rounds, "Timed rounds")->capture_default_str();
  verb->add_option("--warm-up", a->warm_up, "Rounds before them")->capture_default_str();
  verb->add_option("--in-a-row", a->in_a_row,
                   "Calls of a way before the next one has its turn, over as many different minibatches as "
                   "there are instances for; "
                   "all count. 1: every call finds the caches full of other ways' data; 8 or more: as a "
                   "program that serves one model")
      ->capture_default_str();
  verb->add_flag_callback("--no-one-by-one", [a] { a->one_by_one = false; }, "No comparison with batches of one");
  verb->add_flag("--profile", a->profile, "Parts on a GPU timed by its events; costs some microseconds a call");
  verb->add_flag("--ablate", a->ablate, "Also without fusion, and on a GPU without programmatic dependent launches");
  verb->add_option("--json", a->json, "Also write the figures to this file");
  verb->callback([a] { bench(*a); });
}

}  // namespace rondo::tool
