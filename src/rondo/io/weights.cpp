#include "rondo/weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "rondo/base/memory.h"
#include "rondo/error.h"
#include "rondo/io/safetensors.h"

namespace rondo {

Weights Weights::load(const std::string& path) {
  return naming_memory([&] { return fmt::format("while reading the weights of {}", path); }, [&] {
    Weights out;
    for (auto& [name, tensor] : io::read_safetensors(path)) out.tensors_.emplace(std::move(name), std::move(tensor));
    return out;
  });
}

void Weights::save(const std::string& path) const {
  std::vector<io::SavedTensor> list;
  for (const auto& [name, t] : tensors_) {
    if (!t.data && t.numel)
      throw Error(ErrorKind::Usage, fmt::format("cannot save tensor \"{}\": {}", name, t.unusable));
    list.push_back({name, "F32", t.dims, t.data.get()});
  }
  io::write_safetensors(path, list);
}

void Weights::set(const std::string& name, std::vector<int64_t> dims, std::span<const float> data) {
  size_t numel = 1;
  for (const int64_t d : dims) {
    if (d < 0) throw Error(ErrorKind::Usage, fmt::format("weight \"{}\" has a negative extent {}", name, d));
    numel *= static_cast<size_t>(d);
  }
  if (numel != data.size())
    throw Error(ErrorKind::Usage, fmt::format("weight \"{}\": {} numbers for f32[{}], which has {}", name, data.size(),
                                              fmt::join(dims, ","), numel));
  auto copy = std::shared_ptr<float[]>(new float[numel]);
  std::copy(data.begin(), data.end(), copy.get());
  tensors_[name] = Tensor{std::move(dims), std::move(copy), numel, ""};
}

const Tensor* Weights::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : tensors_) out.push_back(name);
  return out;
}

}  // namespace rondo
