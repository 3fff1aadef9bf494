#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "rondo/batch/abi.h"
#include "rondo/error.h"
#include "rondo/value.h"

namespace rondo {
namespace {

constexpr size_t kFirstChunkWords = 4096;
constexpr size_t kLargestChunkWords = size_t{1} << 20;
constexpr uint32_t kInputBucket = 1;  // batch/abi.h

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::Usage, message); }

// A batch has a new number after each clear(), so that a value of before is noticed.
uint32_t next_batch_id() {
  static std::atomic<uint32_t> next{0};
  uint32_t id = ++next;
  while (id == 0) id = ++next;
  return id;
}

std::string show_fields(const Signature& signature, const Constructor& c) {
  std::string text;
  for (size_t i = 0; i < c.fields.size(); ++i) {
    if (i) text += ", ";
    if (i < c.field_names.size() && !c.field_names[i].empty()) text += c.field_names[i] + ": ";
    text += signature.show(c.fields[i]);
  }
  return "(" + text + ")";
}

}  // namespace

void Arena::grow(size_t count) {
  if (used_ == chunks_.size() || chunks_[used_].words < count) {
    const size_t last = used_ ? chunks_[used_ - 1].words : 0;
    const size_t size = std::max({count, kFirstChunkWords, std::min(last * 2, kLargestChunkWords)});
    chunks_.insert(chunks_.begin() + static_cast<ptrdiff_t>(used_),
                   Chunk{std::make_unique_for_overwrite<uint64_t[]>(size), size});
    bytes_ += size * sizeof(uint64_t);
  }
  next_ = chunks_[used_].data.get();
  end_ = next_ + chunks_[used_].words;
  ++used_;
}

void Arena::reset() noexcept {
  used_ = 0;
  next_ = end_ = nullptr;
}

Batch::Batch(std::shared_ptr<const Signature> signature) : signature_(std::move(signature)), id_(next_batch_id()) {
  for (const TypeId type : signature_->params()) root_words_ += static_cast<size_t>(signature_->words(type));
}

void Batch::clear() {
  id_ = next_batch_id();
  arena_.reset();
  instances_ = 0;
  roots_.clear();
  for (Tensors& t : tensors_) t.data.clear();
}

std::string Batch::show(const Value& value) const {
  if (value.batch_ != 0 && value.batch_ != id_) return "a value of another batch, or of before clear()";
  switch (value.type_) {
    case Value::kNothing: return "nothing";
    case Value::kInteger: return "int";
    case Value::kBoolean: return "bool";
    case Value::kEmptyList: return "[]";
    default: return signature_->show(value.type_);
  }
}

std::string Batch::show(std::span<const Value> values) const {
  std::string text;
  for (const Value& v : values) {
    if (text.size() > 400) return "(" + text + fmt::format(", .. {} in all)", values.size());
    text += (text.empty() ? "" : ", ") + show(v);
  }
  return "(" + text + ")";
}

bool Batch::fits(const Value& value, TypeId type) const {
  if (value.type_ == type) return value.batch_ == id_;
  switch (value.type_) {
    case Value::kInteger: return signature_->kind(type) == TypeKind::Int;
    case Value::kBoolean: return signature_->kind(type) == TypeKind::Bool;
    case Value::kEmptyList: return signature_->kind(type) == TypeKind::List;
    default: return false;
  }
}

bool Batch::fit(std::span<const Value> values, const std::vector<TypeId>& types) const {
  if (values.size() != types.size()) return false;
  for (size_t i = 0; i < types.size(); ++i)
    if (!fits(values[i], types[i])) return false;
  return true;
}

uint64_t* Batch::put(uint64_t* out, const Value& value, TypeId type) const {
  switch (signature_->kind(type)) {
    case TypeKind::Tuple: {
      const auto words = static_cast<size_t>(signature_->words(type));
      if (words) std::memcpy(out, reinterpret_cast<const uint64_t*>(value.a_), words * sizeof(uint64_t));
      return out + words;
    }
    case TypeKind::List:
      out[0] = value.a_;
      out[1] = value.b_;
      return out + 2;
    default: *out = value.a_; return out + 1;
  }
}

Value Batch::make(ConstructorId id, std::span<const Value> fields) {
  const Constructor& c = (*signature_)[id];
  if (!fit(fields, c.fields))
    refuse(fmt::format("cannot make {}.{} from {}: it takes {}", signature_->show(id.type), c.name, show(fields),
                       show_fields(*signature_, c)));
  uint64_t* node = arena_.words(1 + static_cast<size_t>(signature_->node_words(id)));
  node[0] = static_cast<uint64_t>(id.tag);
  uint64_t* out = node + 1;
  for (size_t i = 0; i < fields.size(); ++i) out = put(out, fields[i], c.fields[i]);
  return {id.type, id_, reinterpret_cast<uint64_t>(node), 0};
}

void Batch::check_type(TypeId type, TypeKind kind, const char* what) const {
  if (type >= 0 && type < static_cast<TypeId>(signature_->types().types.size()) && signature_->kind(type) == kind)
    return;
  refuse(fmt::format("{} is not a {} type of this model; get one from type(\"..\")",
                     type >= 0 && type < static_cast<TypeId>(signature_->types().types.size())
                         ? signature_->show(type)
                         : fmt::format("type number {}", type),
                     what));
}

Value Batch::list(std::span<const Value> items) {
  if (items.empty()) return {Value::kEmptyList, 0, 0, 0};
  TypeId type = -1;
  const TypeTable& types = signature_->types();
  if (items[0].type_ >= 0 && items[0].batch_ == id_) {
    type = signature_->list_of(items[0].type_);
  } else {
    // An int, a bool or an empty list: the first list type that takes every item.
    for (TypeId id = 0; type < 0 && id < static_cast<TypeId>(types.types.size()); ++id)
      if (types[id].kind == TypeKind::List &&
          std::all_of(items.begin(), items.end(), [&](const Value& v) { return fits(v, types[id].args[0]); }))
        type = id;
  }
  if (type < 0) refuse(fmt::format("the model has no lists of {}", show(items[0])));
  return list(type, items);
}

Value Batch::list(TypeId type, std::span<const Value> items) {
  check_type(type, TypeKind::List, "list");
  const TypeId element = signature_->types()[type].args[0];
  for (size_t i = 0; i < items.size(); ++i)
    if (!fits(items[i], element))
      refuse(fmt::format("item {} of a list is {}; {} takes {}", i, show(items[i]), signature_->show(type),
                         signature_->show(element)));
  uint64_t* data = arena_.words(items.size() * static_cast<size_t>(signature_->words(element)));
  uint64_t* out = data;
  for (const Value& item : items) out = put(out, item, element);
  return {type, id_, reinterpret_cast<uint64_t>(data), items.size()};
}

Value Batch::tuple(std::span<const Value> elements) {
  const TypeTable& types = signature_->types();
  for (TypeId id = 0; id < static_cast<TypeId>(types.types.size()); ++id)
    if (types[id].kind == TypeKind::Tuple && fit(elements, types[id].args)) return tuple(id, elements);
  refuse(fmt::format("the model has no tuples {}", show(elements)));
}

Value Batch::tuple(TypeId type, std::span<const Value> elements) {
  check_type(type, TypeKind::Tuple, "tuple");
  const std::vector<TypeId>& wanted = signature_->types()[type].args;
  if (!fit(elements, wanted))
    refuse(fmt::format("cannot make a tuple {} from {}", signature_->show(type), show(elements)));
  uint64_t* data = arena_.words(static_cast<size_t>(signature_->words(type)));
  uint64_t* out = data;
  for (size_t i = 0; i < elements.size(); ++i) out = put(out, elements[i], wanted[i]);
  return {type, id_, reinterpret_cast<uint64_t>(data), 0};
}

Value Batch::tensor(std::span<const int64_t> dims, std::span<const float> data) {
  const TypeTable& types = signature_->types();
  for (TypeId id = 0; id < static_cast<TypeId>(types.types.size()); ++id)
    if (types[id].kind == TypeKind::Tensor && std::equal(dims.begin(), dims.end(), types[id].dims.begin(), types[id].dims.end()))
      return tensor(id, data);
  refuse(fmt::format("the model has no tensors of type f32[{}]", fmt::join(dims, ",")));
}

Value Batch::tensor(TypeId type, std::span<const float> data) {
  check_type(type, TypeKind::Tensor, "tensor");
  const int64_t size = signature_->types().numel(type);
  if (static_cast<int64_t>(data.size()) != size)
    refuse(fmt::format("{} numbers for a tensor {}, which has {}", data.size(), signature_->show(type), size));
  auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensors& t) { return t.size == size; });
  if (found == tensors_.end()) found = tensors_.insert(found, Tensors{size, {}});
  const auto slot = static_cast<uint32_t>(found->data.size() / static_cast<size_t>(size));
  found->data.insert(found->data.end(), data.begin(), data.end());
  return {type, id_, abi::word_of({kInputBucket, slot}), 0};
}

size_t Batch::add(std::span<const Value> arguments) {
  const std::vector<TypeId>& params = signature_->params();
  if (!fit(arguments, params)) {
    std::string wanted;
    for (const TypeId type : params) wanted += (wanted.empty() ? "" : ", ") + signature_->show(type);
    refuse(fmt::format("cannot add instance {} with arguments {}: main takes ({})", instances_, show(arguments), wanted));
  }
  roots_.resize((instances_ + 1) * root_words_);
  uint64_t* out = roots_.data() + instances_ * root_words_;
  for (size_t i = 0; i < arguments.size(); ++i) out = put(out, arguments[i], params[i]);
  return instances_++;
}

std::span<const float> Batch::tensors(int64_t size) const {
  for (const Tensors& t : tensors_)
    if (t.size == size) return t.data;
  return {};
}

}  // namespace rondo
