// Tokens to a Module. Throws Error(Source) at the first
// token that the grammar (top of parser.cpp) does not allow.
#pragma once
#include <string>

#include "rondo/lang/ast.h"

namespace rondo::lang {

Module parse(const std::string& text, const ir::Program& program);

}  // namespace rondo::lang
