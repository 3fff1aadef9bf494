// Declarations: what the names of a module stand for, and the parameters of generic types and functions.
#include <fmt/format.h>

#include <algorithm>

#include "rondo/ir/infer.h"
#include "rondo/lang/checker.h"
#include "rondo/lang/suggest.h"

namespace rondo::lang {
namespace {

// Bounds on what generic code may unfold into; a program
// that meets one of them recurses with ever larger types.
constexpr size_t kMaxInstances = 2000, kMaxAdts = 2000, kMaxName = 4000, kMaxRank = 8;
constexpr int kMaxUnfolding = 100;  // types within types within types

}  // namespace

void Checker::fail(Loc loc, const std::string& message) const {
  ir::fail_at(program_, loc, message + context_);
}

void Checker::unknown(Loc loc, const char* what, const std::string& name,
                      const std::vector<std::string>& candidates) const {
  const std::string hint = nearest(name, candidates);
  fail(loc, fmt::format("unknown {} {}{}", what, name,
                        hint.empty() ? "" : fmt::format("; did you mean {}?", hint)));
}

// ---------------------------------------------------------------- names

void Checker::declare_names() {
  std::map<std::string, Loc> seen;
  const auto declare = [&](const std::string& name, Loc loc) {
    const auto [place, added] = seen.emplace(name, loc);
    if (!added) fail(loc, fmt::format("{} is already declared on line {}", name, place->second.line));
  };
  const auto declare_callable = [&](const std::string& name, Loc loc) {
    if (is_builtin(name))
      fail(loc, fmt::format("{} is a function of the language; choose another name", name));
    declare(name, loc);
  };
  for (const ConstDecl& decl : module_.consts) declare(decl.name, decl.loc);
  for (size_t k = 0; k < module_.weights.size(); ++k) {
    declare(module_.weights[k].name, module_.weights[k].loc);
    weights_[module_.weights[k].name] = static_cast<int>(k);
  }
  for (size_t k = 0; k < module_.functions.size(); ++k) {
    declare_callable(module_.functions[k].name, module_.functions[k].loc);
    functions_[module_.functions[k].name] = static_cast<int>(k);
  }
  for (size_t k = 0; k < module_.types.size(); ++k) {
    const TypeDecl& decl = module_.types[k];
    if (decl.name == "int" || decl.name == "bool" || decl.name == "f32")
      fail(decl.loc, fmt::format("{} is a type of the language; choose another name", decl.name));
    if (!types_.emplace(decl.name, static_cast<int>(k)).second)
      fail(decl.loc, fmt::format("type {} is already declared", decl.name));
    if (decl.constructors.empty())
      fail(decl.loc, fmt::format("type {} needs at least one constructor", decl.name));
    for (size_t c = 0; c < decl.constructors.size(); ++c) {
      const ConstructorDecl& constructor = decl.constructors[c];
      declare_callable(constructor.name, constructor.loc);
      constructors_[constructor.name] = {static_cast<int>(k), static_cast<int>(c)};
      for (size_t f = 0; f < constructor.field_names.size(); ++f)
        for (size_t g = 0; g < f; ++g)
          if (!constructor.field_names[f].empty() && constructor.field_names[f] == constructor.field_names[g])
            fail(constructor.fields[f].loc,
                 fmt::format("{} has two fields named {}", constructor.name, constructor.field_names[f]));
    }
  }
}

// ---------------------------------------------------------------- generic parameters

bool Checker::set_kind(const std::string& name, bool is_dim, Loc loc, Bindings* params) const {
  Binding* param = find_binding(params, name);
  if (!param || (param->bound && param->is_dim == is_dim)) return false;
  if (param->bound) fail(loc, fmt::format("{} is used as a type and as a dimension", name));
  param->bound = true;
  param->is_dim = is_dim;
  return true;
}

bool Checker::find_kinds(const Expr& dim, Bindings* params) const {
  bool changed = dim.kind == Expr::Kind::Name && set_kind(dim.name, true, dim.loc, params);
  for (const ExprPtr& part : dim.parts) changed |= find_kinds(*part, params);
  return changed;
}

bool Checker::find_kinds(const TypeExpr& type, Bindings* params) const {
  bool changed = false;
  for (const ExprPtr& dim : type.dims) changed |= find_kinds(*dim, params);
  const bool named = type.kind == TypeExpr::Kind::Named;
  if (named) changed |= set_kind(type.name, false, type.loc, params);
  const auto decl = named ? types_.find(type.name) : types_.end();
  for (size_t k = 0; k < type.args.size(); ++k) {
    const TypeExpr& arg = type.args[k];
    if (decl != types_.end()) {
      const Bindings& kinds = type_kinds_[static_cast<size_t>(decl->second)];
      if (k >= kinds.size() || !kinds[k].bound) continue;  // its own parameter is not known yet
      if (kinds[k].is_dim && arg.kind == TypeExpr::Kind::Named) {
        changed |= set_kind(arg.name, true, arg.loc, params);
        continue;
      }
    }
    changed |= find_kinds(arg, params);
  }
  return changed;
}

// A generic parameter is a dimension if it stands in a shape,
// else a type. Types use each other, hence the repetition.
void Checker::find_generic_kinds() {
  const auto start = [&](const std::vector<Generic>& generics) {
    Bindings params;
    for (const Generic& g : generics) {
      if (find_binding(params, g.name)) fail(g.loc, fmt::format("there are two parameters named {}", g.name));
      params.push_back({g.name});
    }
    return params;
  };
  const auto all_used = [&](const std::vector<Generic>& generics, const Bindings& params,
                            const std::string& what) {
    for (size_t k = 0; k < params.size(); ++k)
      if (!params[k].bound)
        fail(generics[k].loc, fmt::format("parameter {} of {} is not used in it", params[k].name, what));
  };
  for (const TypeDecl& decl : module_.types) type_kinds_.push_back(start(decl.generics));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = 0; k < module_.types.size(); ++k)
      for (const ConstructorDecl& constructor : module_.types[k].constructors)
        for (const TypeExpr& field : constructor.fields) changed |= find_kinds(field, &type_kinds_[k]);
  }
  for (size_t k = 0; k < module_.types.size(); ++k)
    all_used(module_.types[k].generics, type_kinds_[k], "type " + module_.types[k].name);
  for (const FnDecl& decl : module_.functions) {
    Bindings params = start(decl.generics);
    for (const TypeExpr& type : decl.param_types) find_kinds(type, &params);
    find_kinds(decl.result, &params);
    all_used(decl.generics, params, "fn " + decl.name + "'s signature");
    function_kinds_.push_back(std::move(params));
  }
}

bool Checker::is_known(const Expr& dim, const Bindings& bindings) const {
  if (dim.kind == Expr::Kind::Name) {
    const Binding* b = find_binding(bindings, dim.name);
    return !b || b->bound;
  }
  return std::all_of(dim.parts.begin(), dim.parts.end(),
                     [&](const ExprPtr& part) { return is_known(*part, bindings); });
}

bool Checker::is_known(const TypeExpr& type, const Bindings& bindings) const {
  const Binding* b = type.kind == TypeExpr::Kind::Named ? find_binding(bindings, type.name) : nullptr;
  if (b && !b->bound) return false;
  return std::all_of(type.dims.begin(), type.dims.end(),
                     [&](const ExprPtr& dim) { return is_known(*dim, bindings); }) &&
         std::all_of(type.args.begin(), type.args.end(),
                     [&](const TypeExpr& arg) { return is_known(arg, bindings); });
}

void Checker::unify(const TypeExpr& type, TypeId actual, Bindings* bindings) const {
  const Type& t = program_.types[actual];
  const auto bind_dim = [&](const std::string& name, int64_t dim) {
    Binding* b = find_binding(bindings, name);
    if (!b || b->bound || !b->is_dim) return;
    b->bound = true;
    b->dim = dim;
  };
  switch (type.kind) {
    case TypeExpr::Kind::Tensor:
      if (t.kind != TypeKind::Tensor || t.dims.size() != type.dims.size()) return;
      for (size_t k = 0; k < t.dims.size(); ++k)
        if (type.dims[k]->kind == Expr::Kind::Name) bind_dim(type.dims[k]->name, t.dims[k]);
      return;
    case TypeExpr::Kind::Tuple:
      if (t.kind != TypeKind::Tuple || t.args.size() != type.args.size()) return;
      for (size_t k = 0; k < t.args.size(); ++k) unify(type.args[k], t.args[k], bindings);
      return;
    case TypeExpr::Kind::List:
      if (t.kind == TypeKind::List) unify(type.args[0], t.args[0], bindings);
      return;
    case TypeExpr::Kind::Named: {
      if (Binding* b = find_binding(bindings, type.name)) {
        if (b->bound || b->is_dim) return;
        b->bound = true;
        b->type = actual;
        return;
      }
      const auto decl = types_.find(type.name);
      if (t.kind != TypeKind::Adt || decl == types_.end()) return;
      const AdtInfo& info = adts_[static_cast<size_t>(t.adt)];
      if (info.decl != decl->second || info.bindings.size() != type.args.size()) return;
      for (size_t k = 0; k < type.args.size(); ++k) {
        const TypeExpr& arg = type.args[k];
        if (!info.bindings[k].is_dim) {
          unify(arg, info.bindings[k].type, bindings);
        } else if (arg.kind == TypeExpr::Kind::Named) {
          bind_dim(arg.name, info.bindings[k].dim);
        }
      }
      return;
    }
    default: return;
  }
}

std::string Checker::show(const Bindings& bindings, const char* equals) const {
  std::string text;
  for (const Binding& b : bindings) {
    text += text.empty() ? "" : ", ";
    if (*equals) text += b.name + equals;
    text += b.is_dim ? std::to_string(b.dim) : program_.types.show(b.type);
  }
  return text;
}

void Checker::require_bound(const std::string& what, const Bindings& bindings, Loc loc) const {
  for (const Binding& b : bindings)
    if (!b.bound)
      fail(loc,
           fmt::format(
               "cannot tell parameter {} of {} from its arguments; give the result a type: let x: .. = {}",
               b.name, what, what));
}

// ---------------------------------------------------------------- types

TypeId Checker::tensor_type(const std::vector<int64_t>& dims, Loc loc) {
  if (dims.size() > kMaxRank)
    fail(loc, fmt::format("a tensor has at most {} axes, got {}", kMaxRank, dims.size()));
  int64_t elements = 1;
  for (const int64_t d : dims) {
    if (d < 1) fail(loc, fmt::format("a tensor needs extents of at least 1, got {}", d));
    if (elements > ir::kMaxElements / d)
      fail(loc, fmt::format("a tensor has at most {} elements", ir::kMaxElements));
    elements *= d;
  }
  return program_.types.tensor(dims);
}

TypeId Checker::resolve(const TypeExpr& type, const Bindings& bindings) {
  switch (type.kind) {
    case TypeExpr::Kind::Int: return program_.types.integer();
    case TypeExpr::Kind::Bool: return program_.types.boolean();
    case TypeExpr::Kind::List: return program_.types.list(resolve(type.args[0], bindings));
    case TypeExpr::Kind::Dim: fail(type.loc, "expected a type, got a number");
    case TypeExpr::Kind::Named: return resolve_named(type, bindings);
    case TypeExpr::Kind::Tensor: {
      std::vector<int64_t> dims;
      for (const ExprPtr& dim : type.dims) dims.push_back(constant_int(*dim, bindings, "an extent"));
      return tensor_type(dims, type.loc);
    }
    case TypeExpr::Kind::Tuple: {
      std::vector<TypeId> elements;
      int64_t words = 0;
      for (const TypeExpr& arg : type.args) {
        elements.push_back(resolve(arg, bindings));
        words += program_.types.words(elements.back());
      }
      if (words > ir::kMaxWords)
        fail(type.loc, fmt::format("a tuple of {} values is too large: at most {}", words, ir::kMaxWords));
      return program_.types.tuple(elements);
    }
  }
  fail(type.loc, "expected a type");
}

TypeId Checker::resolve_named(const TypeExpr& type, const Bindings& bindings) {
  if (const Binding* b = find_binding(bindings, type.name)) {
    if (b->is_dim) fail(type.loc, fmt::format("{} is a dimension, not a type", type.name));
    if (!type.args.empty()) fail(type.loc, fmt::format("{} is a parameter and takes none itself", type.name));
    if (!b->bound) fail(type.loc, fmt::format("{} is not known here", type.name));
    return b->type;
  }
  const auto found = types_.find(type.name);
  if (found == types_.end()) {
    std::vector<std::string> names{"int", "bool", "f32"};
    for (const auto& [name, decl] : types_) names.push_back(name);
    for (const Binding& b : bindings) names.push_back(b.name);
    unknown(type.loc, "type", type.name, names);
  }
  Bindings params = type_kinds_[static_cast<size_t>(found->second)];
  if (params.size() != type.args.size())
    fail(type.loc,
         fmt::format("type {} takes {} parameter(s), got {}", type.name, params.size(), type.args.size()));
  for (size_t k = 0; k < params.size(); ++k) {
    const TypeExpr& arg = type.args[k];
    if (!params[k].is_dim) {
      params[k].type = resolve(arg, bindings);
      continue;
    }
    if (arg.kind != TypeExpr::Kind::Dim && (arg.kind != TypeExpr::Kind::Named || !arg.args.empty()))
      fail(arg.loc, fmt::format("parameter {} of {} is a dimension, got a type", params[k].name, type.name));
    Expr name;
    name.kind = Expr::Kind::Name;
    name.name = arg.name;
    name.loc = arg.loc;
    params[k].dim =
        constant_int(arg.kind == TypeExpr::Kind::Dim ? *arg.dims[0] : name, bindings, "a dimension");
  }
  return instantiate_type(found->second, params, type.loc);
}

TypeId Checker::instantiate_type(int index, const Bindings& bindings, Loc loc) {
  const TypeDecl& decl = type_decl(index);
  const std::string name =
      bindings.empty() ? decl.name : fmt::format("{}[{}]", decl.name, show(bindings, ""));
  const auto found = adt_types_.find(name);
  if (found != adt_types_.end()) return found->second;
  if (name.size() > kMaxName || adts_.size() >= kMaxAdts || unfolding_ >= kMaxUnfolding)
    fail(loc, fmt::format("type {} unfolds into ever larger types", decl.name));

  // Registered before its fields are resolved: they may refer to it.
  const auto adt = static_cast<int32_t>(program_.types.adts.size());
  program_.types.adts.push_back({name, {}});
  adts_.push_back({index, bindings});
  const TypeId type = program_.types.intern({TypeKind::Adt, {}, {}, adt});
  adt_types_[name] = type;
  ++unfolding_;
  std::vector<Constructor> constructors;
  for (const ConstructorDecl& c : decl.constructors) {
    std::vector<TypeId> fields;
    for (const TypeExpr& field : c.fields) fields.push_back(resolve(field, bindings));
    constructors.push_back({c.name, std::move(fields), c.field_names});
  }
  program_.types.adts[static_cast<size_t>(adt)].constructors = std::move(constructors);
  --unfolding_;
  return type;
}

void Checker::declare_types() {
  for (size_t k = 0; k < module_.types.size(); ++k)
    if (module_.types[k].generics.empty()) instantiate_type(static_cast<int>(k), {}, module_.types[k].loc);
  for (const WeightDecl& decl : module_.weights) {
    const TypeId type = resolve(decl.type, {});
    if (program_.types[type].kind != TypeKind::Tensor)
      fail(decl.type.loc, fmt::format("a weight is a tensor, got {}", program_.types.show(type)));
    program_.weights.push_back({decl.name, type, decl.loc});
  }
}

// ---------------------------------------------------------------- functions

int Checker::instantiate_function(const FnDecl& decl, const Bindings& bindings, Loc loc) {
  const std::string key = decl.name + "[" + show(bindings, "") + "]";
  const auto found = instance_of_.find(key);
  if (found != instance_of_.end()) return found->second;
  if (instances_.size() >= kMaxInstances || key.size() > kMaxName)
    fail(loc, fmt::format("fn {} calls itself with ever other parameters", decl.name));

  Instance instance{&decl, bindings, {}, decl.name};
  for (const TypeExpr& type : decl.param_types) instance.signature.params.push_back(resolve(type, bindings));
  instance.signature.result = resolve(decl.result, bindings);
  if (!bindings.empty()) {  // a name that can stand in generated code: linear_8_4
    for (const char c : " " + show(bindings, "")) {
      const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (word || instance.name.back() != '_') instance.name += word ? c : '_';
    }
    if (instance.name.back() == '_') instance.name.pop_back();
    const auto taken = [&](const std::string& name) {
      return functions_.count(name) || std::any_of(instances_.begin(), instances_.end(),
                                                   [&](const Instance& i) { return i.name == name; });
    };
    const std::string base = instance.name;
    for (int k = 2; taken(instance.name); ++k) instance.name = fmt::format("{}_{}", base, k);
  }
  const int index = static_cast<int>(instances_.size());
  instance_of_[key] = index;
  instances_.push_back(std::move(instance));
  return index;
}

void Checker::declare_functions() {
  for (const FnDecl& decl : module_.functions) {
    if (!decl.generics.empty()) continue;
    const int index = instantiate_function(decl, {}, decl.loc);
    if (decl.name == "main") program_.main = index;
  }
  if (program_.main >= 0) return;
  const auto main = functions_.find("main");
  if (main != functions_.end())
    fail(module_.functions[static_cast<size_t>(main->second)].loc,
         "fn main cannot be generic: its parameters are the instance");
  fail({}, "there is no fn main; its parameters are the instance, its result is the output");
}

}  // namespace rondo::lang
