#include "rondo/io/outputs.h"

#include <fmt/format.h>

#include "rondo/error.h"

namespace rondo {

Outputs::Outputs() = default;
Outputs::Outputs(std::unique_ptr<OutputStore> store) : store_(std::move(store)) {}
Outputs::Outputs(Outputs&&) noexcept = default;
Outputs& Outputs::operator=(Outputs&&) noexcept = default;
Outputs::~Outputs() = default;

size_t Outputs::size() const { return store_ ? store_->instances : 0; }

OutputView Outputs::operator[](size_t instance) const {
  if (instance >= size())
    throw Error(ErrorKind::Usage, fmt::format("output {} of a run of {} instances", instance, size()));
  const TypeId type = store_->signature->result();
  return {store_.get(), type, store_->roots.data() + instance * static_cast<size_t>(store_->signature->words(type))};
}

const Signature& Outputs::signature() const {
  if (!store_) throw Error(ErrorKind::Usage, "these outputs are of no run");
  return *store_->signature;
}

const Type& OutputView::want(TypeKind kind, const char* asked) const {
  const Type& type = store_->signature->types()[type_];
  if (type.kind == kind) return type;
  throw Error(ErrorKind::Usage, fmt::format("{} of an output of type {}", asked, store_->signature->show(type_)));
}

TypeKind OutputView::kind() const { return store_->signature->kind(type_); }

int64_t OutputView::integer() const {
  want(TypeKind::Int, "integer()");
  return static_cast<int64_t>(*words_);
}

bool OutputView::boolean() const {
  want(TypeKind::Bool, "boolean()");
  return *words_ != 0;
}

std::span<const float> OutputView::tensor() const {
  want(TypeKind::Tensor, "tensor()");
  const auto size = static_cast<size_t>(store_->signature->types().numel(type_));
  return {store_->tensors[*words_ >> 32] + (*words_ & 0xffffffffu) * size, size};
}

const std::vector<int64_t>& OutputView::dims() const { return want(TypeKind::Tensor, "dims()").dims; }

int32_t OutputView::tag() const {
  want(TypeKind::Adt, "tag()");
  return static_cast<int32_t>(*reinterpret_cast<const uint64_t*>(*words_));
}

const Constructor& OutputView::constructor() const {
  const Type& type = want(TypeKind::Adt, "constructor()");
  return store_->signature->types().adts[static_cast<size_t>(type.adt)].constructors[static_cast<size_t>(tag())];
}

size_t OutputView::size() const {
  const Type& type = store_->signature->types()[type_];
  switch (type.kind) {
    case TypeKind::Tuple: return type.args.size();
    case TypeKind::List: return words_[1];
    case TypeKind::Adt: return constructor().fields.size();
    default: want(TypeKind::Tuple, "size()"); return 0;
  }
}

OutputView OutputView::operator[](size_t index) const {
  const Signature& signature = *store_->signature;
  const Type& type = signature.types()[type_];
  if (index >= size())
    throw Error(ErrorKind::Usage, fmt::format("element {} of an output of type {} with {}", index,
                                              signature.show(type_), size()));
  if (type.kind == TypeKind::List)
    return {store_, type.args[0],
            reinterpret_cast<const uint64_t*>(words_[0]) + index * static_cast<size_t>(signature.words(type.args[0]))};
  const bool adt = type.kind == TypeKind::Adt;
  const std::vector<TypeId>& parts = adt ? constructor().fields : type.args;
  const uint64_t* words = adt ? reinterpret_cast<const uint64_t*>(*words_) + 1 : words_;
  for (size_t i = 0; i < index; ++i) words += signature.words(parts[i]);
  return {store_, parts[index], words};
}

}  // namespace rondo
