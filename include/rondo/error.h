// The one exception type of Rondo. What went wrong is a kind (who can mend it) and a message that says
// what happened with the values, what was expected, and what to do.
#pragma once
#include <stdexcept>
#include <string>

namespace rondo {

enum class ErrorKind {
  Source,       // the author of a program: text, types, shapes
  Usage,        // the caller: arguments, weights, instances
  Unavailable,  // the machine: no driver, no compiler, a driver that is too old
  Device,       // the driver or a kernel: out of memory, a failed launch
  Internal,     // a fault of Rondo's own
};

// "source", "usage", "unavailable", "device" or "internal".
const char* name(ErrorKind kind) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace rondo
