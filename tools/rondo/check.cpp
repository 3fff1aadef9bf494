// rondo check: is a program well formed? Types and shapes, no weights, no device.
#include <fmt/format.h>

#include <memory>

#include "rondo/io/file.h"
#include "rondo/lang/lang.h"
#include "verbs.h"

namespace rondo::tool {
namespace {

struct Arguments {
  std::string program;
  DefineOption defines;
};

void check(const Arguments& a) {
  const ir::Program program = lang::parse_program(io::read_text(a.program), a.program, a.defines.parsed());
  const ir::Function& main = program.functions[static_cast<size_t>(program.main)];
  std::string params;
  for (const ir::Value p : main.body.params) {
    if (!params.empty()) params += ", ";
    params += program.types.show(main.ops[static_cast<size_t>(p)].type);
  }
  int64_t numbers = 0;
  for (const ir::Weight& w : program.weights) numbers += program.types.numel(w.type);
  fmt::print("{}: ok\n  main({}) -> {}\n  {} weights, {} numbers\n", a.program, params, program.types.show(main.result),
             program.weights.size(), with_commas(numbers));
}

}  // namespace

void add_check(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("check", "Check the types and shapes of a program");
  auto a = std::make_shared<Arguments>();
  verb->add_option("program", a->program, "The .rondo file")->required();
  a->defines.add_to(*verb);
  verb->callback([a] { check(*a); });
}

}  // namespace rondo::tool
