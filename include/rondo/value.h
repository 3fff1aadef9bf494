// The values that go into a compiled model and come out of it. A Batch builds the arguments of many instances in one
// arena; Outputs holds what a run gave. No text and no JSON on this path: making a node costs a few stores.
//
//   auto leaf = batch.constructor("Leaf"), node = batch.constructor("Node");   // looked up once
//   Value tree = batch.make(node, {batch.make(leaf, {Value::integer(3)}), batch.make(leaf, {Value::integer(5)})});
//   batch.add({tree});
//
// Every call is type-checked; what does not fit is an Error(Usage) that shows both types. Objects may be used by one
// thread at a time; different objects are independent of each other.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/types.h"

namespace rondo {

// A constructor of an algebraic type: which type, and which of its constructors (from 0).
struct ConstructorId {
  TypeId type = -1;
  int32_t tag = -1;
};

// What a model takes and gives. Immutable; shared by a model, its batches and its outputs.
class Signature {
 public:
  Signature(TypeTable types, std::vector<TypeId> params, TypeId result);

  const TypeTable& types() const { return types_; }
  const std::vector<TypeId>& params() const { return params_; }  // of main
  TypeId result() const { return result_; }
  std::string show(TypeId id) const { return types_.show(id); }

  // By its text, as messages print it: "[int]", "Tree", "f32[4,8]". Error(Usage) when the model has no such type.
  TypeId type(std::string_view text) const;
  // By name, "Leaf"; where several types have one of that name, "Option[int].Some". Error(Usage) when there is none or
  // more than one.
  ConstructorId constructor(std::string_view name) const;
  const Constructor& operator[](ConstructorId id) const;

  // Looked up often, so worked out once.
  TypeKind kind(TypeId id) const { return types_[id].kind; }
  int32_t words(TypeId id) const { return words_[static_cast<size_t>(id)]; }
  int32_t node_words(ConstructorId id) const;          // of its fields, without the tag
  TypeId list_of(TypeId element) const;                // -1: the model has no such list
  TypeId adt_type(int32_t adt) const { return adt_type_[static_cast<size_t>(adt)]; }

 private:
  TypeTable types_;
  std::vector<TypeId> params_;
  TypeId result_;
  std::vector<int32_t> words_;
  std::vector<TypeId> list_of_, adt_type_;
  std::vector<std::vector<int32_t>> node_words_;  // by adt, by tag
};

// Bump allocation of words: values are small, many, and die together. Addresses are stable until reset().
class Arena {
 public:
  uint64_t* words(size_t count) {
    if (static_cast<size_t>(end_ - next_) < count) grow(count);
    uint64_t* p = next_;
    next_ += count;
    return p;
  }
  void reset() noexcept;  // forgets the values, keeps the memory
  size_t bytes() const { return bytes_; }
  // What words() gave, in order: so many pieces of memory.
  size_t pieces() const { return used_; }
  std::span<const uint64_t> piece(size_t i) const {
    uint64_t* const data = chunks_[i].data.get();
    return {data, i + 1 < used_ ? chunks_[i].words : static_cast<size_t>(next_ - data)};
  }

 private:
  void grow(size_t count);
  struct Chunk {
    std::unique_ptr<uint64_t[]> data;
    size_t words;
  };
  std::vector<Chunk> chunks_;
  size_t used_ = 0;  // chunks in use
  uint64_t* next_ = nullptr;
  uint64_t* end_ = nullptr;
  size_t bytes_ = 0;
};

// A value of an instance: a number, or a handle to what a Batch holds. Small; copy it. A value may be used several
// times (a shared subtree) and in several instances of its batch. It is valid until its batch is cleared or destroyed.
class Value {
 public:
  Value() = default;  // nothing; refused wherever a value is wanted
  static Value integer(int64_t v) { return {kInteger, 0, static_cast<uint64_t>(v), 0}; }
  static Value boolean(bool v) { return {kBoolean, 0, v ? 1u : 0u, 0}; }

 private:
  friend class Batch;
  // Types of values that are made without looking at a model.
  static constexpr TypeId kNothing = -1, kInteger = -2, kBoolean = -3, kEmptyList = -4;
  Value(TypeId type, uint32_t batch, uint64_t a, uint64_t b) : type_(type), batch_(batch), a_(a), b_(b) {}
  TypeId type_ = kNothing;
  uint32_t batch_ = 0;       // which batch, since when; 0 = any
  uint64_t a_ = 0, b_ = 0;   // the words; of a tuple: a pointer to them
};

class Batch {
 public:
  explicit Batch(std::shared_ptr<const Signature> signature);

  const Signature& signature() const { return *signature_; }
  ConstructorId constructor(std::string_view name) const { return signature_->constructor(name); }

  Value make(ConstructorId constructor, std::span<const Value> fields);
  // A list of what its items are. An empty one fits wherever a list is wanted; so does an item that is one.
  Value list(std::span<const Value> items);
  Value list(TypeId type, std::span<const Value> items);  // faster; needed when the items are empty lists
  Value tuple(std::span<const Value> elements);
  Value tuple(TypeId type, std::span<const Value> elements);
  // Copies the elements (row-major). One of the model's tensor types must have these dims.
  Value tensor(std::span<const int64_t> dims, std::span<const float> data);
  Value tensor(TypeId type, std::span<const float> data);
  Value scalar(float value) { return tensor(std::span<const int64_t>{}, std::span<const float>(&value, 1)); }

  Value make(ConstructorId c, std::initializer_list<Value> v) { return make(c, span(v)); }
  Value list(std::initializer_list<Value> v) { return list(span(v)); }
  Value list(TypeId type, std::initializer_list<Value> v) { return list(type, span(v)); }
  Value tuple(std::initializer_list<Value> v) { return tuple(span(v)); }
  Value tuple(TypeId type, std::initializer_list<Value> v) { return tuple(type, span(v)); }

  // Adds an instance: the arguments of main. Returns its number, from 0.
  size_t add(std::span<const Value> arguments);
  size_t add(std::initializer_list<Value> v) { return add(span(v)); }
  size_t size() const { return instances_; }
  void clear();  // forgets all instances and values, keeps the memory

  // The type of a value as messages show it.
  std::string show(const Value& value) const;
  bool fits(const Value& value, TypeId type) const;

  // For the run-time: the words of an instance's arguments (types.h); a tensor is {bucket 1, slot} (batch/abi.h), slot
  // counting the tensors of its element count, whose elements lie one after the other in tensors(size).
  const uint64_t* arguments(size_t instance) const { return roots_.data() + instance * root_words_; }
  const Arena& values() const {
    return arena_;
  }  // that the words lead to, in the order in which they were made
  std::span<const float> tensors(int64_t size) const;

 private:
  static std::span<const Value> span(std::initializer_list<Value> v) { return {v.begin(), v.size()}; }
  uint64_t* put(uint64_t* out, const Value& value, TypeId type) const;
  bool fit(std::span<const Value> values, const std::vector<TypeId>& types) const;
  std::string show(std::span<const Value> values) const;
  void check_type(TypeId type, TypeKind kind, const char* what) const;

  struct Tensors {
    int64_t size;
    std::vector<float> data;
  };
  std::shared_ptr<const Signature> signature_;
  uint32_t id_;
  Arena arena_;
  size_t instances_ = 0, root_words_ = 0;
  std::vector<uint64_t> roots_;
  std::vector<Tensors> tensors_;
};

// ---------------------------------------------------------------- what a run gave

struct OutputStore;

// A value in Outputs. Small; copy it; valid as long as its Outputs. The wrong question is an Error(Usage).
class OutputView {
 public:
  OutputView(const OutputStore* store, TypeId type, const uint64_t* words) : store_(store), type_(type), words_(words) {}

  TypeId type() const { return type_; }
  TypeKind kind() const;
  int64_t integer() const;
  bool boolean() const;
  std::span<const float> tensor() const;           // row-major
  const std::vector<int64_t>& dims() const;        // of a tensor
  size_t size() const;                             // elements of a tuple, items of a list, fields of a constructor
  OutputView operator[](size_t index) const;       // one of them
  int32_t tag() const;                             // of an algebraic value: which constructor
  const Constructor& constructor() const;

 private:
  const Type& want(TypeKind kind, const char* asked) const;
  const OutputStore* store_;
  TypeId type_;
  const uint64_t* words_;
};

// The results of a run, in the order of the instances. Owns everything its views show: it stays valid when the model
// runs again, and when the model and the batch are gone. Move-only. May be read by several threads.
class Outputs {
 public:
  Outputs();  // of no instances
  explicit Outputs(std::unique_ptr<OutputStore> store);
  Outputs(Outputs&&) noexcept;
  Outputs& operator=(Outputs&&) noexcept;
  ~Outputs();
  size_t size() const;
  OutputView operator[](size_t instance) const;  // Error(Usage) when there is no such instance
  const Signature& signature() const;            // Error(Usage) of default-constructed Outputs

 private:
  std::unique_ptr<OutputStore> store_;
};

}  // namespace rondo
