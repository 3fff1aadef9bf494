#include <fmt/format.h>

#include "rondo/error.h"
#include "rondo/value.h"

namespace rondo {

Signature::Signature(TypeTable types, std::vector<TypeId> params, TypeId result)
    : types_(std::move(types)), params_(std::move(params)), result_(result) {
  const auto count = static_cast<TypeId>(types_.types.size());
  list_of_.assign(types_.types.size(), -1);
  adt_type_.assign(types_.adts.size(), -1);
  for (TypeId id = 0; id < count; ++id) {
    const Type& type = types_[id];
    words_.push_back(types_.words(id));
    if (type.kind == TypeKind::List) list_of_[static_cast<size_t>(type.args[0])] = id;
    if (type.kind == TypeKind::Adt) adt_type_[static_cast<size_t>(type.adt)] = id;
  }
  for (const Adt& adt : types_.adts) {
    std::vector<int32_t>& sizes = node_words_.emplace_back();
    for (const Constructor& c : adt.constructors) {
      int32_t n = 0;
      for (const TypeId field : c.fields) n += words(field);
      sizes.push_back(n);
    }
  }
}

TypeId Signature::type(std::string_view text) const {
  std::string all;
  for (TypeId id = 0; id < static_cast<TypeId>(types_.types.size()); ++id) {
    const std::string shown = types_.show(id);
    if (shown == text) return id;
    if (all.size() < 200) all += (all.empty() ? "" : ", ") + shown;
  }
  throw Error(ErrorKind::Usage, fmt::format("the model has no type {}; it has {}", text, all));
}

ConstructorId Signature::constructor(std::string_view name) const {
  ConstructorId found;
  std::string all, qualified;
  int matches = 0;
  for (size_t a = 0; a < types_.adts.size(); ++a) {
    const Adt& adt = types_.adts[a];
    for (size_t tag = 0; tag < adt.constructors.size(); ++tag) {
      const std::string& own = adt.constructors[tag].name;
      const std::string full = adt.name + "." + own;
      if (all.size() < 200) all += (all.empty() ? "" : ", ") + own;
      if (adt_type_[a] < 0 || (own != name && full != name)) continue;
      found = {adt_type_[a], static_cast<int32_t>(tag)};
      if (full == name) return found;
      qualified += (qualified.empty() ? "" : ", ") + full;
      ++matches;
    }
  }
  if (matches == 1) return found;
  if (matches > 1)
    throw Error(ErrorKind::Usage, fmt::format("constructor {} is of several types; say which: {}", name, qualified));
  throw Error(ErrorKind::Usage, fmt::format("the model has no constructor {}; it has {}", name,
                                            all.empty() ? std::string("none") : all));
}

const Constructor& Signature::operator[](ConstructorId id) const {
  if (id.type < 0 || id.type >= static_cast<TypeId>(types_.types.size()) || kind(id.type) != TypeKind::Adt)
    throw Error(ErrorKind::Usage, "not a constructor of this model; get one from constructor(name)");
  const std::vector<Constructor>& all = types_.adts[static_cast<size_t>(types_[id.type].adt)].constructors;
  if (id.tag < 0 || static_cast<size_t>(id.tag) >= all.size())
    throw Error(ErrorKind::Usage, fmt::format("constructor number {} of {}, which has {}", id.tag, show(id.type),
                                              all.size()));
  return all[static_cast<size_t>(id.tag)];
}

int32_t Signature::node_words(ConstructorId id) const {
  return node_words_[static_cast<size_t>(types_[id.type].adt)][static_cast<size_t>(id.tag)];
}

TypeId Signature::list_of(TypeId element) const { return list_of_[static_cast<size_t>(element)]; }

}  // namespace rondo
