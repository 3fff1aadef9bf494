// The .safetensors format (https://github.com/huggingface/safetensors, "Format"): 8 bytes little-endian length of the
// header, the header as JSON {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {..}}, the data.
//
// Reading checks everything that the format promises (sizes, offsets in order without holes or overlaps, names once), so
// that a damaged or hostile file is an Error(Usage) that names file and tensor, never a wrong number.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rondo/weights.h"

namespace rondo::io {

// In the order of the data.
std::vector<std::pair<std::string, Tensor>> read_safetensors(const std::string& path);

struct SavedTensor {
  std::string name, dtype;  // "F32" or "I64"
  std::vector<int64_t> dims;
  const void* data = nullptr;
};
// In the order given. The file appears complete or not at all. Error(Usage) when it cannot be written.
void write_safetensors(const std::string& path, const std::vector<SavedTensor>& tensors);

}  // namespace rondo::io
