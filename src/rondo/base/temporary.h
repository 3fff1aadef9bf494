// Temporary files and folders by name, so that an interrupted program leaves none. Whoever makes one lists it before
// it exists and removes it itself in the ordinary course; what is listed when a signal ends the process is removed by the
// handler. A library installs no handlers: only the program calls remove_temporaries_on_signals().
//
// The list has room for kMost paths of kLongest bytes; what does not fit is not listed, and stays when the process is
// interrupted.
#pragma once
#include <cstddef>
#include <string>

namespace rondo {

class Temporary {
 public:
  static constexpr size_t kMost = 64, kLongest = 1024;
  explicit Temporary(const std::string& path) noexcept;
  ~Temporary();  // takes it off the list; the file is its owner's to remove
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

 private:
  int slot_ = -1;
};

// Removes every listed file, then every listed folder that is empty by then. Async-signal-safe; paths are taken off the
// list.
void remove_temporaries() noexcept;

// SIGINT, SIGTERM and SIGHUP remove the temporaries and then do what they did: end the process. A signal that was
// ignored (nohup) stays so.
void remove_temporaries_on_signals();

}  // namespace rondo
