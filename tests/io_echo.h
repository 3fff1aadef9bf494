// Outputs that show an argument of a batch, so that what was read can be looked at and written again.
#pragma once
#include <cstring>

#include "rondo/io/outputs.h"

namespace rondo::test {

// Of main's only parameter, whose type is the result type too. The batch must outlive the outputs; tensors of a batch
// are numbered by size, so only one element count may occur.
inline Outputs echo(const Batch& batch, std::shared_ptr<const Signature> signature, int64_t tensor_size = 0) {
  auto store = std::make_unique<OutputStore>();
  const auto words = static_cast<size_t>(signature->words(signature->result()));
  store->instances = batch.size();
  store->roots.assign(batch.arguments(0), batch.arguments(0) + words * batch.size());
  store->tensors = {nullptr, nullptr};
  store->signature = std::move(signature);
  if (tensor_size) {  // the word of an input tensor is slot << 32 | 1; that of an output is base << 32 | row
    store->tensors.clear();
    const std::span<const float> data = batch.tensors(tensor_size);
    for (size_t slot = 0; slot * static_cast<size_t>(tensor_size) < data.size(); ++slot)
      store->tensors.push_back(data.data() + slot * static_cast<size_t>(tensor_size) - tensor_size);
  }
  return Outputs(std::move(store));
}

}  // namespace rondo::test
