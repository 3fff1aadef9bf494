#include "rondo/lang/lexer.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace rondo::lang {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }

// Longest first.
constexpr const char* kSymbols[] = {"=>", "->", "==", "!=", "<=", ">=", "&&", "||", "..", "(",
                                    ")",  "{",  "}",  "[",  "]",  ",",  ":",  ";",  ".",  "=",
                                    "<",  ">",  "+",  "-",  "*",  "/",  "%",  "@",  "!",  "|"};

struct Lexer {
  const std::string& text;
  const ir::Program& program;
  size_t at = 0, line_start = 0;
  int line = 1;

  ir::Loc here() const { return {line, static_cast<int>(at - line_start) + 1}; }
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }

  void skip_space() {
    while (at < text.size()) {
      const char c = text[at];
      if (c == '\n') {
        ++line;
        line_start = ++at;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at;
      } else if (c == '/' && peek(1) == '/') {
        while (at < text.size() && text[at] != '\n') ++at;
      } else {
        return;
      }
    }
  }

  Token number() {
    Token token{Token::Kind::Int, {}, 0, 0, here()};
    const size_t start = at;
    while (is_digit(peek())) ++at;
    // A dot belongs to the number only before a digit: `1..` is a number and two dots.
    if (peek() == '.' && is_digit(peek(1))) {
      token.kind = Token::Kind::Float;
      for (++at; is_digit(peek());) ++at;
    }
    const size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign))) {
      token.kind = Token::Kind::Float;
      for (at += sign; is_digit(peek());) ++at;
    }
    token.text = text.substr(start, at - start);
    if (is_word(peek()))
      ir::fail_at(program, here(), fmt::format("'{}' directly after the number {}", peek(), token.text));
    const char* first = token.text.data();
    const char* last = first + token.text.size();
    const auto read = token.kind == Token::Kind::Int ? std::from_chars(first, last, token.integer)
                                                     : std::from_chars(first, last, token.real);
    if (read.ec != std::errc())
      ir::fail_at(program, token.loc, fmt::format("the number {} is out of range", token.text));
    return token;
  }

  Token next() {
    skip_space();
    if (at >= text.size()) return {Token::Kind::End, "end of file", 0, 0, here()};
    const char c = text[at];
    if (is_digit(c)) return number();
    Token token{Token::Kind::Name, {}, 0, 0, here()};
    if (is_word(c)) {
      while (is_word(peek())) token.text += text[at++];
      return token;
    }
    token.kind = Token::Kind::Symbol;
    for (const char* symbol : kSymbols) {
      if (text.compare(at, std::strlen(symbol), symbol) != 0) continue;
      token.text = symbol;
      at += token.text.size();
      return token;
    }
    const auto byte = static_cast<unsigned char>(c);
    ir::fail_at(program, token.loc,
                byte >= 0x20 && byte < 0x7f ? fmt::format("unexpected character '{}'", c)
                                            : fmt::format("unexpected byte 0x{:02x}", byte));
  }
};

}  // namespace

std::vector<Token> tokenise(const std::string& text, const ir::Program& program) {
  Lexer lexer{text, program};
  std::vector<Token> tokens;
  do tokens.push_back(lexer.next());
  while (tokens.back().kind != Token::Kind::End);
  return tokens;
}

}  // namespace rondo::lang
