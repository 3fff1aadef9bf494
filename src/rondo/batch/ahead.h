// Memory that will be wanted soon, asked for bit by bit while something else is done, so that it is in the
// cache by then.
//
// A walk follows pointers, which no processor foresees; but values lie in the order in which they were made,
// which is nearly the order in which they are walked. A table is written in as many places at a time as there
// are buckets. What the caches hold is not asked for again by the processor, and asking costs a cycle a line.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace rondo::batch {

class Ahead {
 public:
  enum class For { Reading, Writing };
  explicit Ahead(For what) : what_(what) {}

  // Pieces of memory, one after the other; they need not be readable.
  void clear() {
    pieces_.clear();
    next_ = end_ = nullptr;
    piece_ = bytes_ = 0;
  }
  void add(const void* data, size_t bytes) {
    if (bytes) pieces_.push_back({static_cast<const char*>(data), bytes});
    bytes_ += bytes;
  }
  size_t bytes() const { return bytes_; }  // of all pieces

  // Goes on by so many bytes, in whole lines.
  void ask(size_t bytes) {
    if (what_ == For::Reading)
      step(bytes, [](const char* line) { __builtin_prefetch(line); });
    else
      step(bytes, to_write);
  }
  void skip(size_t bytes) {
    step(bytes, [](const char*) {});
  }
  // each: called with an address in every line, in order.
  template <class F>
  void step(size_t bytes, F&& each) {
    size_t lines = (bytes + kLine - 1) / kLine;
    for (;;) {
      const char* const stop = next_ + std::min<size_t>(lines * kLine, static_cast<size_t>(end_ - next_));
      lines -= static_cast<size_t>(stop - next_) / kLine;
      for (; next_ < stop; next_ += kLine) each(next_);
      if (lines == 0 || piece_ == pieces_.size()) return;
      next_ = pieces_[piece_].data();
      end_ = next_ + (pieces_[piece_].size() + kLine - 1) / kLine * kLine;
      ++piece_;
    }
  }

 private:
  static constexpr size_t kLine = 64;
  // Processors that do not know the instruction pass over it. The builtin would ask for reading only, unless
  // the compiler is told of the processor; lines that the GPU has read must be made our own.
  static void to_write(const char* line) {
#ifdef __x86_64__
    asm volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
  }

  For what_;
  std::vector<std::span<const char>> pieces_;
  size_t piece_ = 0, bytes_ = 0;                 // the next piece; of all
  const char *next_ = nullptr, *end_ = nullptr;  // of the piece before it, in whole lines
};

}  // namespace rondo::batch
