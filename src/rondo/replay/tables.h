// Page-locked copies of what a recording's copy nodes read on the host.
//
// Comes in: contents, which change when an argument does. Goes out: an address for each, of memory that holds
// the contents and that no launch in flight reads while it is rewritten. Others rely on: contents without
// change keep their address; no call here breaks a capture.
#pragma once
#include <memory>
#include <vector>

#include "rondo/driver/driver.h"
#include "rondo/graph.h"

namespace rondo::replay {

class Tables {
 public:
  struct Content {
    const std::vector<uint8_t>* bytes;
    bool changes;
  };
  // In the context `context`, which is current. Errors: Device.
  Tables(const driver::Driver& d, CUcontext context, const std::vector<Content>& contents);
  // Waits for the launches that read them.
  ~Tables();
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // To write to; of one that changes. Seen by launches after next().
  uint8_t* content(size_t table) noexcept { return contents_.get() + places_[table].offset; }
  // Where copies shall read from.
  const void* source(size_t table) const noexcept;

  // Puts the contents where no launch reads, and waits for one if it must. False: none of them changes.
  // Errors: Device; sources are then as they were.
  bool next();
  // A launch that reads the present sources was put into `stream`. Errors: Device, when it can neither be
  // marked nor waited for.
  void launched(CUstream stream);

 private:
  static constexpr size_t kGenerations = 4;  // launches that may be in flight before next() waits
  struct Place {
    bool changes;
    size_t offset;  // in a generation, or in what stays
  };
  struct Generation {
    graph::Event event;
    bool read = false;  // by a launch, which event tells the end of
  };
  uint8_t* generation(size_t which) const noexcept { return memory_ + constant_bytes_ + which * bytes_; }

  const driver::Driver& d_;
  CUcontext context_;
  std::vector<Place> places_;
  size_t bytes_ = 0, constant_bytes_ = 0;  // of one generation; of what stays
  std::unique_ptr<uint8_t[]> contents_;
  uint8_t* memory_ = nullptr;
  std::vector<Generation> generations_;
  size_t now_ = 0;
};

}  // namespace rondo::replay
