#include "rondo/graph/driver_log.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <charconv>

namespace rondo::graph::detail {
namespace {

constexpr size_t kBufferBytes = 25600;  // what the driver keeps at most, as cuda.h says
constexpr size_t kShown = 4;            // lines in a message: the first failure is what counts

unsigned long this_thread() noexcept { return static_cast<unsigned long>(pthread_self()); }

// "[a][b] c" -> a, and the text goes on behind it.
std::optional<std::string_view> bracket(std::string_view* text) {
  const size_t end = text->substr(0, 1) == "[" ? text->find(']') : text->npos;
  if (end == text->npos) return std::nullopt;
  const std::string_view inside = text->substr(1, end - 1);
  text->remove_prefix(end + 1);
  return inside;
}

std::string dump([[maybe_unused]] const driver::Driver& d, [[maybe_unused]] unsigned* position) {
#if CUDA_VERSION >= 12090
  if (!d.cuLogsDumpToMemory) return "";
  std::string text(kBufferBytes, '\0');
  size_t bytes = text.size();
  if (d.cuLogsDumpToMemory(position, text.data(), &bytes, 0) != CUDA_SUCCESS || bytes > text.size())
    return "";
  text.resize(bytes);
  return text;
#else
  return "";
#endif
}

}  // namespace

std::vector<LogLine> parse_log(std::string_view text) {
  std::vector<LogLine> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view rest = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!rest.empty() && (rest.back() == '\0' || rest.back() == '\r')) rest.remove_suffix(1);
    LogLine line;
    const std::string_view whole = rest;
    const auto time = bracket(&rest), thread = bracket(&rest), source = bracket(&rest),
               level = bracket(&rest);
    if (time && thread && source && level) {
      std::from_chars(thread->data(), thread->data() + thread->size(), line.thread);
      rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
      line.text = rest;
    } else {
      line.text = whole;
    }
    if (!line.text.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

std::optional<LoggedFailure> failure_of(const LogLine& line) {
  std::string_view text(line.text);
  const std::string_view head = "Returning ", between = ") from ";
  const size_t start = text.find(head), from = text.find(between);
  if (start == text.npos || from == text.npos || from < start) return std::nullopt;
  int code = 0;
  text.remove_prefix(start + head.size());
  if (std::from_chars(text.data(), text.data() + text.size(), code).ec != std::errc()) return std::nullopt;
  text = std::string_view(line.text).substr(from + between.size());
  text = text.substr(0, text.find_first_of(" .,;("));
  if (code == 0 || text.empty()) return std::nullopt;
  return LoggedFailure{driver::base_name(text), static_cast<CUresult>(code)};
}

DriverLog::DriverLog(const driver::Driver& d) noexcept : driver_(&d), thread_(this_thread()) {
#if CUDA_VERSION >= 12090
  marked_ = d.cuLogsCurrent && d.cuLogsCurrent(&position_, 0) == CUDA_SUCCESS;
#endif
}

std::vector<LogLine> DriverLog::lines() const {
  if (!marked_) return {};
  unsigned position = position_;
  std::vector<LogLine> lines = parse_log(dump(*driver_, &position));
  const auto mine = [this](const LogLine& l) { return l.thread == 0 || l.thread == thread_; };
  if (std::any_of(lines.begin(), lines.end(), mine))
    std::erase_if(lines, [&](const LogLine& l) { return !mine(l); });
  return lines;
}

std::string log_of_call(const driver::Driver& d, CUresult code, std::string_view call) {
  const std::vector<LogLine> lines = parse_log(dump(d, nullptr));
  if (lines.size() < 2) return "";
  // The last lines are of this call, or the log knows nothing of it.
  const std::optional<LoggedFailure> last = failure_of(lines.back());
  if (!last || last->code != code || driver::base_name(call.substr(0, call.find('('))) != last->call)
    return "";
  const LogLine& reason = lines[lines.size() - 2];
  if (failure_of(reason) || reason.thread != lines.back().thread) return "";
  return ". The driver's log: " + reason.text;
}

std::string show(const std::vector<LogLine>& lines) {
  std::string out;
  for (size_t i = 0; i < lines.size() && i < kShown; ++i) out += (i ? "; " : "") + lines[i].text;
  if (lines.empty()) return out;
  out = ". The driver's log since the begin of the capture: " + out;
  if (lines.size() > kShown) out += fmt::format("; and {} more lines", lines.size() - kShown);
  return out;
}

}  // namespace rondo::graph::detail
