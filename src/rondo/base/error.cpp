#include "rondo/error.h"

namespace rondo {

const char* name(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::Source: return "source";
    case ErrorKind::Usage: return "usage";
    case ErrorKind::Unavailable: return "unavailable";
    case ErrorKind::Device: return "device";
    case ErrorKind::Internal: return "internal";
  }
  return "?";
}

}  // namespace rondo
