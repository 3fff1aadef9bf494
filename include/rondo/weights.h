// The weights of a model by name: from a .safetensors file, or given as numbers. A model copies what it needs when it is
// made; Weights may be changed or dropped afterwards. Copies of Weights share the numbers.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// f32 numbers, row-major, with their shape.
struct Tensor {
  std::vector<int64_t> dims;
  std::shared_ptr<const float[]> data;  // null: `unusable` says why
  size_t numel = 0;
  std::string unusable;                 // "its dtype is I64"
  std::span<const float> values() const { return {data.get(), data ? numel : 0}; }
};

class Weights {
 public:
  Weights() = default;
  // Reads a .safetensors file: F32 as it is; F16, BF16 and F64 are converted; tensors of other dtypes are kept as names
  // that cannot be used. Error(Usage) names the file, the tensor and what is malformed.
  static Weights load(const std::string& path);
  void save(const std::string& path) const;

  // Replaces what has the name. Error(Usage) when the numbers do not fill the shape.
  void set(const std::string& name, std::vector<int64_t> dims, std::span<const float> data);
  void set(const std::string& name, Tensor tensor) { tensors_[name] = std::move(tensor); }

  const Tensor* find(std::string_view name) const;  // null when there is none
  std::vector<std::string> names() const;           // sorted
  size_t size() const { return tensors_.size(); }

 private:
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace rondo
