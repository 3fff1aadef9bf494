// Source text to typed IR: lexer, parser, type and shape checker, in that order. Throws Error(Source)
// "file:line:col: error: ..." with the line and a caret. The grammar stands at the top of parser.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rondo/ir/ir.h"

namespace rondo::lang {

// Values that replace those of `const` declarations: {"H", 512}.
using Overrides = std::vector<std::pair<std::string, int64_t>>;

// `file` is the name shown in messages. The result is verified.
// An override that names no const is an Error(Usage).
ir::Program parse_program(const std::string& text, const std::string& file, const Overrides& overrides = {});

}  // namespace rondo::lang
