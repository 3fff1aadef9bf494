// rondo dump: what a stage of the compiler made of a program.
#include <fmt/format.h>

#include <memory>

#include "rondo/io/file.h"
#include "rondo/session.h"
#include "verbs.h"

namespace rondo::tool {
namespace {

struct Arguments {
  std::string program, stage, output = "-";
  DefineOption defines;
};

void dump(const Arguments& a) {
  write_file(a.output, session::dump(io::read_text(a.program), a.program, a.stage, a.defines.parsed()));
}

}  // namespace

void add_dump(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("dump", "Show what a stage of the compiler made of a program");
  auto a = std::make_shared<Arguments>();
  verb->add_option("program", a->program, "The .rondo file")->required();
  verb->add_option("--stage", a->stage, fmt::format("One of, in order: {}", fmt::join(session::stages(), ", ")))->required();
  verb->add_option("-o,--output", a->output, "A file; - is standard output")->capture_default_str();
  a->defines.add_to(*verb);
  verb->callback([a] { dump(*a); });
}

}  // namespace rondo::tool
