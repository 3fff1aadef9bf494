// rondo weights: weights made by rule, for trying a program out and for benchmarks.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <random>

#include "rondo/io/file.h"
#include "rondo/lang/lang.h"
#include "rondo/weights.h"
#include "spec.h"
#include "verbs.h"

namespace rondo::tool {
namespace {

struct RandomArguments {
  std::string program, output;
  uint64_t seed = 1;
  DefineOption defines;
};
struct SpecArguments {
  std::string model, output;
  DefineOption defines;
};

// Uniform in +-1/sqrt(last extent) as layers are usually started; a vector (a bias) in +-0.1. The same on every machine:
// the generator is std::mt19937_64, and the numbers are made from its bits here, not by a library's distribution.
void run_random(const RandomArguments& a) {
  const ir::Program program = lang::parse_program(io::read_text(a.program), a.program, a.defines.parsed());
  std::mt19937_64 draw(a.seed);
  Weights weights;
  int64_t numbers = 0;
  for (const ir::Weight& weight : program.weights) {
    const Type& type = program.types[weight.type];
    std::vector<float> values(static_cast<size_t>(program.types.numel(weight.type)));
    const double scale = type.dims.size() < 2 ? 0.1 : 1.0 / std::sqrt(static_cast<double>(type.dims.back()));
    for (float& v : values) v = static_cast<float>(scale * (static_cast<double>(draw() >> 11) * 0x1p-52 - 1.0));
    numbers += static_cast<int64_t>(values.size());
    weights.set(weight.name, type.dims, values);
  }
  weights.save(a.output);
  fmt::print(stderr, "{}: {} weights, {} numbers\n", a.output, weights.size(), with_commas(numbers));
}

void run_spec(const SpecArguments& a) {
  int64_t hidden = a.model == "mvrnn" ? 64 : 256;
  for (const auto& [name, value] : a.defines.parsed()) {
    if (name != "H" || value < 1) {
      throw Error(ErrorKind::Usage, fmt::format("-D {}={}: a benchmark model has one size, H, of at least 1", name, value));
    }
    hidden = value;
  }
  Weights weights;
  int64_t numbers = 0;
  for (const spec::Weight& weight : spec::weights(a.model, hidden)) {
    weights.set(weight.name, weight.dims, weight.values());
    numbers += weight.numel();
  }
  weights.save(a.output);
  fmt::print(stderr, "{}: {} weights, {} numbers\n", a.output, weights.size(), with_commas(numbers));
}

}  // namespace

void add_weights(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("weights", "Make weights, for trying a program out and for benchmarks");
  verb->require_subcommand(1);

  CLI::App* random = verb->add_subcommand("random", "Small random numbers for every weight that a program declares");
  auto r = std::make_shared<RandomArguments>();
  random->add_option("-p,--program", r->program, "The .rondo file")->required();
  random->add_option("--seed", r->seed, "Equal seeds give equal weights")->capture_default_str();
  random->add_option("-o,--output", r->output, "The .safetensors file to write")->required();
  r->defines.add_to(*random);
  random->callback([r] { run_random(*r); });

  CLI::App* made = verb->add_subcommand("spec", "The weights of a benchmark model, the same on every machine");
  auto s = std::make_shared<SpecArguments>();
  made->add_option("--model", s->model, "treelstm, bilstm, birnn or mvrnn")->required();
  made->add_option("-o,--output", s->output, "The .safetensors file to write")->required();
  s->defines.add_to(*made);
  made->callback([s] { run_spec(*s); });
}

}  // namespace rondo::tool
