#include "rondo/lang/lang.h"

#include <sstream>

#include "rondo/lang/checker.h"
#include "rondo/lang/parser.h"

namespace rondo::lang {

ir::Program parse_program(const std::string& text, const std::string& file, const Overrides& overrides) {
  ir::Program program;
  program.file = file;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) program.lines.push_back(line);
  const Module module = parse(text, program);
  program = Checker(std::move(program), module, overrides).run();
  ir::verify(program, "lang");
  return program;
}

}  // namespace rondo::lang
