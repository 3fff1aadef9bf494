// rondo instances: instances made by rule, for benchmarks.
#include <fmt/format.h>

#include <memory>

#include "spec.h"
#include "verbs.h"

namespace rondo::tool {
namespace {

struct SpecArguments {
  std::string model, output = "-";
  uint64_t count = 64, first = 0;
};

void run_spec(const SpecArguments& a) {
  std::string text;
  for (uint64_t i = 0; i < a.count; ++i) text += spec::instance(a.model, a.first + i) + "\n";
  write_file(a.output, text);
}

}  // namespace

void add_instances(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("instances", "Make instances for benchmarks");
  verb->require_subcommand(1);
  CLI::App* made = verb->add_subcommand("spec", "Instances of a benchmark model, the same on every machine");
  auto a = std::make_shared<SpecArguments>();
  made->add_option("--model", a->model, "treelstm, bilstm, birnn or mvrnn")->required();
  made->add_option("--count", a->count, "How many")->capture_default_str();
  made->add_option("--first", a->first, "Number of the first one")->capture_default_str();
  made->add_option("-o,--output", a->output, "A .jsonl file; - is standard output")->capture_default_str();
  made->callback([a] { run_spec(*a); });
}

}  // namespace rondo::tool
