#include "rondo/types.h"

#include <algorithm>
#include <functional>
#include <set>

namespace rondo {

TypeId TypeTable::intern(const Type& type) {
  const auto found = std::find(types.begin(), types.end(), type);
  if (found != types.end()) return static_cast<TypeId>(found - types.begin());
  types.push_back(type);
  return static_cast<TypeId>(types.size()) - 1;
}

TypeId TypeTable::tensor(std::vector<int64_t> dims) { return intern({TypeKind::Tensor, std::move(dims), {}, -1}); }
TypeId TypeTable::integer() { return intern({TypeKind::Int, {}, {}, -1}); }
TypeId TypeTable::boolean() { return intern({TypeKind::Bool, {}, {}, -1}); }
TypeId TypeTable::tuple(std::vector<TypeId> elements) { return intern({TypeKind::Tuple, {}, std::move(elements), -1}); }
TypeId TypeTable::list(TypeId element) { return intern({TypeKind::List, {}, {element}, -1}); }

int64_t TypeTable::numel(TypeId id) const {
  int64_t n = 1;
  for (const int64_t d : (*this)[id].dims) n *= d;
  return n;
}

int32_t TypeTable::words(TypeId id) const {
  const Type& type = (*this)[id];
  if (type.kind == TypeKind::List) return 2;
  if (type.kind != TypeKind::Tuple) return 1;
  int32_t n = 0;
  for (const TypeId element : type.args) n += words(element);
  return n;
}

bool TypeTable::has_tensor(TypeId id) const {
  std::set<TypeId> seen;
  const std::function<bool(TypeId)> visit = [&](TypeId t) {
    if (!seen.insert(t).second) return false;
    const Type& type = (*this)[t];
    if (type.kind == TypeKind::Tensor) return true;
    if (std::any_of(type.args.begin(), type.args.end(), visit)) return true;
    if (type.kind != TypeKind::Adt) return false;
    for (const Constructor& c : adts[static_cast<size_t>(type.adt)].constructors)
      if (std::any_of(c.fields.begin(), c.fields.end(), visit)) return true;
    return false;
  };
  return visit(id);
}

std::string TypeTable::show(TypeId id) const {
  const Type& type = (*this)[id];
  std::string text;
  switch (type.kind) {
    case TypeKind::Int: return "int";
    case TypeKind::Bool: return "bool";
    case TypeKind::Adt: return adts[static_cast<size_t>(type.adt)].name;
    case TypeKind::List: return "[" + show(type.args[0]) + "]";
    case TypeKind::Tensor:
      for (const int64_t d : type.dims) text += (text.empty() ? "" : ",") + std::to_string(d);
      return "f32[" + text + "]";
    case TypeKind::Tuple:
      for (const TypeId element : type.args) text += (text.empty() ? "" : ", ") + show(element);
      return "(" + text + (type.args.size() == 1 ? ",)" : ")");
  }
  return "?";
}

}  // namespace rondo
