// rondo bench: ways to run the same instances, side by side in one run. Every round runs every way once, in turn, so that
// what disturbs the machine disturbs all; shown are medians and the ratio to running one by one. Times are of the whole
// call: walking the instances, scheduling, upload, kernels, results on the host.
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
  int rounds = 20, warm_up = 3;
  std::string json;
  bool one_by_one = true, ablate = false, profile = false;
};

// A model on a device with a way to launch, and its instances: all together, and each by itself.
struct Way {
  std::string name, device;
  Model* model = nullptr;
  std::vector<Batch> batches;  // run one after the other
  std::vector<double> ms;
  std::vector<RunReport> parts;  // of batched ways, as many as ms

  void run() {
    const auto start = Clock::now();
    for (const Batch& batch : batches) {
      const Outputs outputs = model->run(batch);
      if (outputs.size() != batch.size()) throw Error(ErrorKind::Internal, "a run gave fewer results than instances");
    }
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    parts.push_back(model->report().last);
  }
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

// The first `count` instances of the source, from its start again when it has fewer.
void read_exactly(const ModelArguments& a, Model* model, size_t count, Batch* batch) {
  auto source = a.open(model->signature());
  bool any = false;
  while (batch->size() < count) {
    const size_t got = source->read(batch, count - batch->size());
    if (got == 0 && !any) throw Error(ErrorKind::Usage, "there are no instances");
    any = got > 0;
    if (got == 0) source = a.open(model->signature());
  }
}

// Each of the first `count` instances in a batch of its own.
std::vector<Batch> read_singly(const ModelArguments& a, Model* model, size_t count) {
  std::vector<Batch> all;
  auto source = a.open(model->signature());
  while (all.size() < count) {
    Batch one = model->batch();
    if (source->read(&one, 1) == 0) {
      if (all.empty()) throw Error(ErrorKind::Usage, "there are no instances");
      source = a.open(model->signature());
      continue;
    }
    all.push_back(std::move(one));
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

nlohmann::json to_json(const Way& way, int64_t batch, double baseline) {
  const double median = quantile(way.ms, 0.5);
  nlohmann::json row = {{"batch", batch},
                        {"way", way.name},
                        {"device", way.device},
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
  for (const auto& [option, path] : {std::pair("--instances", &a.model.instances), std::pair("--trees", &a.model.trees)}) {
    if (*path == "-") throw Error(ErrorKind::Usage, fmt::format("{} -: bench reads its instances several times; expected a file", option));
  }
  std::vector<Loaded> models = load_all(a);
  for (size_t i = 0; i < models.size(); ++i) {
    if (i == 0 || models[i].device != models[i - 1].device) fmt::print("{}\n", models[i].device);
  }
  fmt::print("medians of {} rounds after {}; every round runs every way once; whole calls, results on the host\n\n", a.rounds,
             a.warm_up);
  fmt::print("{:>6}  {:<26} {:>10} {:>19} {:>12} {:>14} {:>10} {:>10}\n", "batch", "way", "ms", "p10 .. p90 ms", "us/instance",
             "vs one by one", "launches", "unbatched");
  nlohmann::json rows = nlohmann::json::array();
  for (const int64_t batch : a.batches) {
    if (batch < 1) throw Error(ErrorKind::Usage, fmt::format("--batch {}: expected 1 or more", batch));
    const size_t count = static_cast<size_t>(batch);
    std::vector<Way> ways;
    std::vector<int> baseline;  // of each way: which way runs the same model one by one; -1: none
    for (const Loaded& m : models) {
      int single = -1;
      if (a.one_by_one && batch > 1) {
        single = static_cast<int>(ways.size());
        ways.push_back({m.name + ", one by one", m.device, m.model.get(), read_singly(a.model, m.model.get(), count), {}, {}});
        baseline.push_back(single);
      }
      Way together{m.name + ", batched", m.device, m.model.get(), {}, {}, {}};
      together.batches.push_back(m.model->batch());
      read_exactly(a.model, m.model.get(), count, &together.batches[0]);
      ways.push_back(std::move(together));
      baseline.push_back(single);
    }
    for (int round = 0; round < a.warm_up + a.rounds; ++round) {
      if (round == a.warm_up) {
        for (Way& way : ways) way.ms.clear(), way.parts.clear();
      }
      for (Way& way : ways) way.run();
    }
    for (size_t i = 0; i < ways.size(); ++i) {
      const Way& way = ways[i];
      const double median = quantile(way.ms, 0.5);
      const double single = baseline[i] >= 0 ? quantile(ways[static_cast<size_t>(baseline[i])].ms, 0.5) : 0;
      const bool together = way.batches.size() == 1;
      fmt::print("{:>6}  {:<26} {:>10.3f} {:>19} {:>12.1f} {:>14} {:>10} {:>10}\n", batch, way.name, median,
                 fmt::format("{:.3f} .. {:.3f}", quantile(way.ms, 0.1), quantile(way.ms, 0.9)),
                 median * 1e3 / static_cast<double>(batch), single > 0 ? fmt::format("{:.2f}x", single / median) : "",
                 together ? with_commas(static_cast<int64_t>(way.parts.back().launches)) : "",
                 together ? with_commas(static_cast<int64_t>(way.parts.back().unbatched_launches)) : "");
      rows.push_back(to_json(way, batch, single));
    }
    for (const Way& way : ways) {
      if (way.batches.size() != 1) continue;
      fmt::print("        {:<26}", way.name);
      for (const Part& part : kParts) fmt::print(" {} {:.3f}", part.title, median_of(way, part.member));
      const RunReport& last = way.parts.back();
      fmt::print(" ms; {} records in {} levels, host {:.0f} ns a record\n", with_commas(static_cast<int64_t>(last.records)), last.levels,
                 (median_of(way, &RunReport::walk_ms) + median_of(way, &RunReport::pack_ms)) * 1e6 / static_cast<double>(std::max<uint64_t>(last.records, 1)));
    }
    std::fflush(stdout);
  }
  if (!a.json.empty()) {
    const nlohmann::json all = {{"program", a.model.program}, {"rondo", RONDO_VERSION}, {"rounds", a.rounds}, {"rows", rows}};
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
  verb->add_flag_callback("--no-one-by-one", [a] { a->one_by_one = false; }, "No comparison with batches of one");
  verb->add_flag("--profile", a->profile, "Parts on a GPU timed by its events; costs some microseconds a call");
  verb->add_flag("--ablate", a->ablate, "Also without fusion, and on a GPU without programmatic dependent launches");
  verb->add_option("--json", a->json, "Also write the figures to this file");
  verb->callback([a] { bench(*a); });
}

}  // namespace rondo::tool
