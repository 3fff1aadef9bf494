// rondo run: instances in, results out, and what it cost.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "inputs.h"
#include "rondo/base/memory.h"
#include "rondo/base/trace.h"
#include "rondo/io/file.h"
#include "rondo/io/write_outputs.h"

namespace rondo::tool {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

struct Arguments {
  ModelArguments model;
  std::string output, report = "text", trace;
  int64_t batch = 64;
  bool checksum = false;
};

bool ends_with(const std::string& text, const std::string& tail) {
  return text.size() >= tail.size() && text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

// Writes results as they come (JSON lines) or at the end (safetensors); "" writes none.
class Results {
 public:
  Results(const std::string& path, const Signature& signature) : path_(path) {
    if (path.empty()) return;
    if (path == "-" || ends_with(path, ".jsonl")) lines_.emplace(path);
    else if (ends_with(path, ".safetensors")) tensors_.emplace(signature);
    else throw Error(ErrorKind::Usage, fmt::format("--output {}: expected a name that ends in .jsonl or .safetensors, or -", path));
  }
  void add(const Outputs& outputs) {
    if (lines_) {
      text_.clear();
      io::append_json_lines(outputs, &text_);
      lines_->write(text_);
    }
    if (tensors_) tensors_->add(outputs);
  }
  void finish() {
    if (lines_) lines_->finish();
    if (tensors_) tensors_->write(path_);
  }

 private:
  std::string path_, text_;
  std::optional<io::FileWriter> lines_;
  std::optional<io::SafetensorsOutput> tensors_;
};

// Over all elements of all tensors, in order.
class Checksum {
 public:
  void add(const Outputs& outputs) {
    std::vector<OutputView> open;  // values may be deeper than the stack
    for (size_t i = 0; i < outputs.size(); ++i) {
      open.push_back(outputs[i]);
      while (!open.empty()) {
        const OutputView value = open.back();
        open.pop_back();
        switch (value.kind()) {
          case TypeKind::Int:
          case TypeKind::Bool: break;
          case TypeKind::Tensor:
            for (const float x : value.tensor()) {
              sum_ += x;
              squares_ += static_cast<double>(x) * x;
            }
            elements_ += static_cast<int64_t>(value.tensor().size());
            break;
          default:
            for (size_t k = value.size(); k-- > 0;) open.push_back(value[k]);
        }
      }
    }
  }
  std::string text() const {
    return fmt::format("checksum: {} elements, sum {:.6f}, l2 {:.6f}\n", elements_, sum_, std::sqrt(squares_));
  }

 private:
  int64_t elements_ = 0;
  double sum_ = 0, squares_ = 0;
};

// A line on stderr that is written over, for a person who waits.
class Progress {
 public:
  void step(uint64_t instances) {
    if (!shown_to_person_ || ms_since(last_) < 500) return;
    last_ = Clock::now();
    drawn_ = true;
    fmt::print(stderr, "\r{} instances, {:.0f} a second ", with_commas(instances),
               static_cast<double>(instances) / ms_since(start_) * 1e3);
  }
  ~Progress() {
    if (drawn_) fmt::print(stderr, "\r{:60}\r", "");
  }

 private:
  const bool shown_to_person_ = isatty(STDERR_FILENO);
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  bool drawn_ = false;
};

struct Totals {
  uint64_t instances = 0, batches = 0, launches = 0, unbatched_launches = 0;
  double read_ms = 0, run_ms = 0, write_ms = 0;
};

std::string report_text(const Totals& t, const Report& report) {
  const auto number = [](uint64_t v) { return with_commas(v); };
  std::string text = report.text();
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += fmt::format("\nall {} instances in {} batch{}: run {:.1f} ms ({:.0f} instances a second), read {:.1f} ms, write {:.1f} ms\n",
                      number(t.instances), number(t.batches), t.batches == 1 ? "" : "es", t.run_ms,
                      t.run_ms > 0 ? static_cast<double>(t.instances) / t.run_ms * 1e3 : 0.0, t.read_ms, t.write_ms);
  if (t.launches > 0) {
    text += fmt::format("kernel launches: {} batched, {} one by one ({:.0f} times as many)\n", number(t.launches),
                        number(t.unbatched_launches),
                        static_cast<double>(t.unbatched_launches) / static_cast<double>(t.launches));
  }
  return text;
}

std::string report_json(const Totals& t, const Report& report) {
  nlohmann::json all;
  all["model"] = nlohmann::json::parse(report.json());
  all["total"] = {{"instances", t.instances},      {"batches", t.batches},
                  {"launches", t.launches},        {"unbatched_launches", t.unbatched_launches},
                  {"read_ms", t.read_ms},          {"run_ms", t.run_ms},
                  {"write_ms", t.write_ms}};
  return all.dump(2) + "\n";
}

// Results may not replace what they are made from.
void check_output(const Arguments& a) {
  for (const std::string* input : {&a.model.program, &a.model.weights, &a.model.instances, &a.model.trees, &a.model.vocabulary}) {
    std::error_code ignored;
    if (!input->empty() && std::filesystem::equivalent(a.output, *input, ignored))
      throw Error(ErrorKind::Usage, fmt::format("--output {} is the input {}: expected another file", a.output, *input));
  }
}

void run(const Arguments& a) {
  if (a.report != "text" && a.report != "json" && a.report != "none") {
    throw Error(ErrorKind::Usage, fmt::format("--report {}: expected text, json or none", a.report));
  }
  check_output(a);
  if (a.batch < 1) throw Error(ErrorKind::Usage, fmt::format("--batch {}: expected 1 or more", a.batch));
  trace::Attached traced;
  std::shared_ptr<trace::ChromeSink> timeline;
  if (!a.trace.empty()) {
    timeline = std::make_shared<trace::ChromeSink>(a.trace);
    traced = trace::attach(timeline);
  }

  Model model = a.model.load(a.model.options());
  const auto source = a.model.open(model.signature());
  Results results(a.output, model.signature());
  Checksum checksum;
  Totals total;
  {
    Progress progress;
    Batch batch = model.batch();
    for (;;) {
      auto at = Clock::now();
      batch.clear();
      const size_t count = source->read(&batch, static_cast<size_t>(a.batch));
      total.read_ms += ms_since(at);
      if (count == 0) break;
      at = Clock::now();
      const Outputs outputs = model.run(batch);
      total.run_ms += ms_since(at);
      at = Clock::now();
      naming_memory([&] { return fmt::format("while writing results of {} instances after {} others", count, total.instances); },
                    [&] { results.add(outputs); });
      if (a.checksum) checksum.add(outputs);
      total.write_ms += ms_since(at);
      total.instances += count;
      ++total.batches;
      if (a.report != "none") {
        const RunReport last = model.report().last;
        total.launches += last.launches;
        total.unbatched_launches += last.unbatched_launches;
      }
      progress.step(total.instances);
    }
  }
  const auto at = Clock::now();
  results.finish();
  total.write_ms += ms_since(at);
  // Results on standard output stay alone there.
  std::FILE* words = a.output == "-" ? stderr : stdout;
  if (a.report == "text") fmt::print(words, "{}", report_text(total, model.report()));
  if (a.report == "json") fmt::print(words, "{}", report_json(total, model.report()));
  if (a.checksum) fmt::print(words, "{}", checksum.text());
  traced = {};
  if (timeline) timeline->finish();
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("run", "Run a program over instances, batched");
  auto a = std::make_shared<Arguments>();
  a->model.add_to(*verb, true);
  verb->add_option("-o,--output", a->output, "Results: .jsonl (a line an instance), .safetensors, or - for lines on standard output")
      ->check([](const std::string& path) { return path.empty() ? "expected a file name" : ""; });
  verb->add_option("--batch", a->batch, "Instances that run together")->capture_default_str();
  verb->add_option("--report", a->report, "What it cost: text, json or none")->capture_default_str();
  verb->add_option("--trace", a->trace, "A timeline for ui.perfetto.dev");
  verb->add_flag("--checksum", a->checksum, "Elements, sum and l2 norm over all results in order");
  verb->callback([a] { run(*a); });
}

}  // namespace rondo::tool
