// Source text to typed IR: lexer, parser, type and shape checker, in that order.
// Throws Error(Source) "file:line:col: error: ..." with the line and a caret. The grammar stands at the top of parser.cpp.
#pragma once
#include <string>

#include "rondo/ir/ir.h"

namespace rondo::lang {

// `file` is the name shown in messages. The result is verified.
ir::Program parse_program(const std::string& text, const std::string& file);

}  // namespace rondo::lang
