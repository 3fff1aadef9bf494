// Copies and fills of a graph that is being read: for image.cpp.
#pragma once
#include <optional>

#include "rondo/driver/driver.h"
#include "rondo/replay/image.h"

namespace rondo::replay {

class CopyReader {
 public:
  CopyReader(const driver::Driver& d, const std::vector<Span64>& arguments, Pageable pageable)
      : d_(d), arguments_(arguments), pageable_(pageable) {}
  void read(NodeImage* to);
  void read_fill(NodeImage* to);
  // What only the whole graph tells: host memory that the graph itself writes is no table.
  void finish(Image* image) const;

 private:
  enum class Where { Device, PageLocked, Pageable };
  Where where(CUmemorytype type, uint64_t address) const;
  bool argument(uint64_t address) const;
  void read_source(const CUDA_MEMCPY3D& copy, uint64_t address, NodeImage* to);
  void read_target(const CUDA_MEMCPY3D& copy, uint64_t address, NodeImage* to);

  const driver::Driver& d_;
  const std::vector<Span64>& arguments_;
  Pageable pageable_;
  std::vector<Span64> written_;  // page-locked host memory, by copies
};

}  // namespace rondo::replay
