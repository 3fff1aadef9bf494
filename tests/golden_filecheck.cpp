#include "golden_filecheck.h"

#include <cctype>
#include <regex>
#include <sstream>

namespace rondo::golden {
namespace {

// Runs of blanks become one space, none at the end.
std::string canonical(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\r';
    if (!blank) out += c;
    else if (out.empty() || out.back() != ' ') out += ' ';
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(canonical(line));
  return lines;
}

[[noreturn]] void fail(const std::string& file, int line, const std::string& why) {
  throw std::runtime_error(file + ":" + std::to_string(line) + ": " + why);
}

std::regex compile(const Check& check, const std::string& file) {
  std::string source;
  const std::string text = canonical(check.pattern);
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "{{") == 0) {
      const size_t end = text.find("}}", i);
      if (end == std::string::npos) fail(file, check.line, "{{ without }}");
      source += "(?:" + text.substr(i + 2, end - i - 2) + ")";
      i = end + 2;
    } else {
      if (std::string("\\^$.|?*+()[]{}").find(text[i]) != std::string::npos) source += '\\';
      source += text[i++];
    }
  }
  try {
    return std::regex(source);
  } catch (const std::regex_error&) {
    fail(file, check.line, "not a regular expression: " + check.pattern);
  }
}

struct Place {  // in the output: line, and column in its canonical form
  size_t line = 0, column = 0;
};

// Finds the pattern in lines[line], from column `from` on. Returns whether, and where it starts and ends.
bool find(const std::regex& pattern, const std::string& line, size_t from, size_t* start, size_t* end) {
  std::smatch m;
  if (from > line.size()) return false;
  const auto flags = from ? std::regex_constants::match_prev_avail : std::regex_constants::match_default;
  if (!std::regex_search(line.begin() + static_cast<long>(from), line.end(), m, pattern, flags)) return false;
  *start = from + static_cast<size_t>(m.position(0));
  *end = *start + static_cast<size_t>(m.length(0));
  return true;
}

}  // namespace

Golden parse(const std::string& text, const std::string& file) {
  static const std::regex kDirective(R"(^\s*//\s*([A-Z][A-Z0-9_-]*):(.*)$)");
  Golden golden;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::smatch m;
    if (!std::regex_match(line, m, kDirective)) {
      // A directive that is not at the start of a comment line would be skipped in silence.
      static const std::regex kStray(R"(//.*\b(RUN|CHECK|CHECK-[A-Z]+):)");
      if (std::regex_search(line, kStray)) fail(file, number, "a directive stands alone on its line");
      continue;
    }
    const std::string name = m[1];
    std::string rest = canonical(m[2]);
    if (!rest.empty() && rest[0] == ' ') rest.erase(0, 1);
    if (rest.empty()) fail(file, number, name + ": is empty");
    if (name == "RUN") {
      Run run;
      run.line = number;
      std::istringstream words(rest);
      for (std::string word; words >> word;) run.words.push_back(word);
      if (run.words[0] == "not") {
        run.expect_failure = true;
        run.words.erase(run.words.begin());
      }
      if (run.words.empty() || run.words[0] != "rondo") fail(file, number, "RUN: expected `rondo ...` or `not rondo ...`");
      for (const std::string& word : run.words) {
        if (word.find_first_of("|<>&;$`'\"\\*") != std::string::npos) fail(file, number, "RUN: no shell here: " + word);
      }
      run.words.erase(run.words.begin());
      golden.runs.push_back(run);
      continue;
    }
    Check check;
    check.pattern = rest;
    check.line = number;
    if (name == "CHECK") check.kind = Kind::Check;
    else if (name == "CHECK-NEXT") check.kind = Kind::Next;
    else if (name == "CHECK-SAME") check.kind = Kind::Same;
    else if (name == "CHECK-NOT") check.kind = Kind::Not;
    else fail(file, number, "unknown directive " + name + ":");
    if (golden.checks.empty() && (check.kind == Kind::Next || check.kind == Kind::Same)) {
      fail(file, number, name + ": without a CHECK: before it");
    }
    compile(check, file);
    golden.checks.push_back(check);
  }
  if (golden.runs.empty()) fail(file, number, "no RUN: line");
  if (golden.checks.empty()) fail(file, number, "no CHECK: line");
  return golden;
}

std::string mismatch(const std::vector<Check>& checks, const std::string& output, const std::string& file) {
  static const char* kNames[] = {"CHECK", "CHECK-NEXT", "CHECK-SAME", "CHECK-NOT"};
  const std::vector<std::string> lines = lines_of(output);
  Place at;  // where the last match ended
  std::vector<const Check*> pending;  // CHECK-NOT since then
  auto report = [&](const Check& check, const std::string& why) {
    std::ostringstream out;
    out << file << ":" << check.line << ": " << kNames[static_cast<int>(check.kind)] << ": " << check.pattern << ": "
        << why << "\n  from output line " << at.line + 1 << ":";
    for (size_t i = at.line; i < lines.size() && i < at.line + 8; ++i) out << "\n  | " << lines[i];
    return out.str();
  };
  // No pending CHECK-NOT may match from `at` up to `end`.
  auto excluded = [&](Place end) -> std::string {
    for (const Check* check : pending) {
      const std::regex pattern = compile(*check, file);
      for (size_t i = at.line; i < lines.size() && i <= end.line; ++i) {
        size_t from, to;
        const std::string part = i == end.line ? lines[i].substr(0, end.column) : lines[i];
        if (find(pattern, part, i == at.line ? at.column : 0, &from, &to)) {
          return report(*check, "found in output line " + std::to_string(i + 1));
        }
      }
    }
    pending.clear();
    return "";
  };
  bool matched = false;
  for (const Check& check : checks) {
    if (check.kind == Kind::Not) {
      pending.push_back(&check);
      continue;
    }
    const std::regex pattern = compile(check, file);
    size_t first = at.line, last = lines.size();
    if (check.kind == Kind::Same) last = at.line + 1;
    if (check.kind == Kind::Next) {
      first = at.line + 1;
      last = first + 1;
    }
    bool found = false;
    size_t start = 0, end = 0, line = first;
    for (; line < last && line < lines.size() && !found; ++line) {
      found = find(pattern, lines[line], matched && line == at.line ? at.column : 0, &start, &end);
    }
    if (!found) {
      return report(check, check.kind == Kind::Check ? "not found"
                           : check.kind == Kind::Next ? "not on the next line" : "not on the same line");
    }
    --line;
    const std::string bad = excluded({line, start});
    if (!bad.empty()) return bad;
    at = {line, end};
    matched = true;
  }
  return excluded({lines.size(), 0});
}

}  // namespace rondo::golden
