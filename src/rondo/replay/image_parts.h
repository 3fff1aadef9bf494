// Kernels, copies and fills of a graph that is being read: for image.cpp.
#pragma once
#include <unordered_map>

#include "rondo/driver/driver.h"
#include "rondo/replay/image.h"
#include "rondo/replay/memory.h"

namespace rondo::replay {

// Bytes in the order of their addresses.
std::string hex(const void* data, size_t bytes);

class KernelReader {
 public:
  explicit KernelReader(const driver::Driver& d) : d_(d) {}
  void read(NodeImage* to);

  // Where the parameters of a kernel lie, or why that is not known.
  struct Layout {
    std::vector<Parameter> parameters;
    std::string unknown;
  };

 private:
  const driver::Driver& d_;
  std::unordered_map<const void*, Layout> layouts_;  // of kernels, asked for once
};

class CopyReader {
 public:
  CopyReader(const driver::Driver& d, const std::vector<Span64>& arguments, Pageable pageable)
      : d_(d), arguments_(arguments), pageable_(pageable) {}
  void read(NodeImage* to);
  void read_fill(NodeImage* to);
  // What only the whole graph tells: host memory that the graph itself writes is no table.
  void finish(Image* image) const;

 private:
  Memory where(CUmemorytype type, uint64_t address) const;
  bool argument(uint64_t address) const;
  void read_source(const CUDA_MEMCPY3D& copy, uint64_t address, NodeImage* to);
  void read_target(const CUDA_MEMCPY3D& copy, uint64_t address, NodeImage* to);

  const driver::Driver& d_;
  const std::vector<Span64>& arguments_;
  Pageable pageable_;
  std::vector<Span64> written_;  // page-locked host memory, by copies
};

}  // namespace rondo::replay
