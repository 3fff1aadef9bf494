// Source text to tokens. The last token is always End. Throws
// Error(Source) at a character that no token starts with.
#pragma once
#include <string>
#include <vector>

#include "rondo/ir/ir.h"

namespace rondo::lang {

struct Token {
  enum class Kind { Name, Int, Float, Symbol, End };
  Kind kind = Kind::End;
  std::string text;  // as written; Symbol: "(" "=>" ".." ...
  int64_t integer = 0;
  double real = 0;
  ir::Loc loc;
};

// `program` gives the name of the file and the lines for messages.
std::vector<Token> tokenise(const std::string& text, const ir::Program& program);

}  // namespace rondo::lang
