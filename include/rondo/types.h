// Types of values, shared by the compiler and the run-time: what a program talks about and how a value of a type
// lies in memory. Types are interned in a TypeTable, so equal types have equal numbers.
//
// Words of a value (abi.h, 8 bytes each): Int, Bool, Tensor: 1. Tuple: its elements' words one after the other.
// List: 2 (pointer to the elements, length). Adt: 1, a pointer to a node {tag, words of the fields...}.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

using TypeId = int32_t;

enum class TypeKind { Int, Bool, Tensor, Tuple, List, Adt };

struct Type {
  TypeKind kind = TypeKind::Int;
  std::vector<int64_t> dims;  // Tensor: extents, row-major; empty = a scalar f32[]
  std::vector<TypeId> args;   // Tuple: elements (none = unit); List: the element
  int32_t adt = -1;           // Adt: index into TypeTable::adts
  bool operator==(const Type&) const = default;
};

// An algebraic type with its parameters filled in: a generic type becomes one Adt for each use.
struct Constructor {
  std::string name;
  std::vector<TypeId> fields;
  std::vector<std::string> field_names;  // "" where the source gives none; as long as fields
};
struct Adt {
  std::string name;  // as printed: "Tree", "Pair[int, f32[8]]"
  std::vector<Constructor> constructors;
};

struct TypeTable {
  std::vector<Type> types;
  std::vector<Adt> adts;

  const Type& operator[](TypeId id) const { return types[static_cast<size_t>(id)]; }
  TypeId intern(const Type& type);
  TypeId tensor(std::vector<int64_t> dims);
  TypeId integer();
  TypeId boolean();
  TypeId tuple(std::vector<TypeId> elements);
  TypeId list(TypeId element);
  int64_t numel(TypeId id) const;      // elements of a Tensor; 1 for f32[]
  int32_t words(TypeId id) const;      // see above
  bool has_tensor(TypeId id) const;    // a tensor anywhere inside
  std::string show(TypeId id) const;   // as the user writes it: "f32[8,4]", "[int]", "(f32[4], int)", "Tree"
};

}  // namespace rondo
