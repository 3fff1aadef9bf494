// Patterns: match on algebraic types and lists, and taking values apart in let, lambdas and arms.
#include <fmt/format.h>

#include <algorithm>

#include "rondo/lang/checker.h"

namespace rondo::lang {
namespace {

bool is_upper(const std::string& name) { return name[0] >= 'A' && name[0] <= 'Z'; }

}  // namespace

void Checker::check_pattern_names(const Pattern& pattern, std::vector<std::string>* names) const {
  if (pattern.kind == Pattern::Kind::Name && !constructors_.count(pattern.name)) {
    if (std::find(names->begin(), names->end(), pattern.name) != names->end())
      fail(pattern.loc, fmt::format("{} is bound twice", pattern.name));
    names->push_back(pattern.name);
  }
  for (const Pattern& part : pattern.parts) check_pattern_names(part, names);
}

// A pattern that always fits: names, tuples, types with one constructor.
void Checker::bind(const Pattern& pattern, Value value) {
  const auto take_apart = [&](Opcode code, size_t count) {
    if (pattern.parts.size() != count)
      fail(pattern.loc,
           fmt::format("the pattern has {} part(s), {} has {}", pattern.parts.size(), show(value), count));
    for (size_t k = 0; k < count; ++k)
      if (pattern.parts[k].kind != Pattern::Kind::Wild)
        bind(pattern.parts[k], emit(code, {value}, pattern.parts[k].loc, static_cast<int64_t>(k)));
  };
  switch (pattern.kind) {
    case Pattern::Kind::Wild: return;
    case Pattern::Kind::Tuple:
      if (type(value).kind != TypeKind::Tuple)
        fail(pattern.loc, fmt::format("a tuple pattern does not fit {}", show(value)));
      return take_apart(Opcode::TupleGet, type(value).args.size());
    case Pattern::Kind::Name:
      if (!constructors_.count(pattern.name)) {
        scope_.add(pattern.name, value);
        return;
      }
      [[fallthrough]];
    case Pattern::Kind::Constructor: {
      const auto found = constructors_.find(pattern.name);
      if (found == constructors_.end()) {
        std::vector<std::string> names;
        for (const auto& [name, ref] : constructors_) names.push_back(name);
        unknown(pattern.loc, "constructor", pattern.name, names);
      }
      if (type(value).kind != TypeKind::Adt ||
          adts_[static_cast<size_t>(type(value).adt)].decl != found->second.type)
        fail(pattern.loc, fmt::format("{} is not a constructor of {}", pattern.name, show(value)));
      const Adt adt = program_.types.adts[static_cast<size_t>(type(value).adt)];
      if (adt.constructors.size() != 1)
        fail(pattern.loc, fmt::format("{} need not be {}; use match", adt.name, pattern.name));
      return take_apart(Opcode::Field, adt.constructors[0].fields.size());
    }
    case Pattern::Kind::EmptyList:
    case Pattern::Kind::Cons: fail(pattern.loc, "a list pattern can only stand in an arm of a match");
  }
}

Value Checker::match(const Expr& e, const Expect& want) {
  const Value scrutinee = expr(*e.parts[0]);
  for (const Arm& arm : e.arms) {
    std::vector<std::string> names;
    check_pattern_names(arm.pattern, &names);
  }
  if (type(scrutinee).kind == TypeKind::List) return match_list(e, scrutinee, want);
  if (type(scrutinee).kind == TypeKind::Adt) return match_adt(e, scrutinee, want);
  fail(e.parts[0]->loc, fmt::format("cannot match {}: match is for algebraic types and lists; use if or let",
                                    show(scrutinee)));
}

Value Checker::match_list(const Expr& e, Value list, const Expect& want) {
  const Arm* arms[2] = {nullptr, nullptr};
  for (const Arm& arm : e.arms) {
    const Pattern::Kind kind = arm.pattern.kind;
    const bool any = kind == Pattern::Kind::Wild ||
                     (kind == Pattern::Kind::Name && !constructors_.count(arm.pattern.name));
    if (!any && kind != Pattern::Kind::EmptyList && kind != Pattern::Kind::Cons)
      fail(arm.pattern.loc,
           fmt::format("this pattern does not fit {}; a list is matched as [] or [first, ..rest]",
                       show(list)));
    bool used = false;
    for (const size_t k : {0, 1}) {
      if (arms[k] || (!any && kind != (k == 0 ? Pattern::Kind::EmptyList : Pattern::Kind::Cons))) continue;
      arms[k] = &arm;
      used = true;
    }
    if (!used) fail(arm.pattern.loc, "this arm is never reached");
  }
  for (const size_t k : {0, 1})
    if (!arms[k]) fail(e.loc, fmt::format("match does not cover {}", k == 0 ? "[]" : "[first, ..rest]"));

  ir::Op op;
  op.code = Opcode::MatchList;
  op.args = {list};
  op.loc = e.loc;
  op.regions.resize(2);
  const TypeId element = type(list).args[0];
  op.type = branches({arms[0]->value.get(), arms[1]->value.get()}, want, [&](size_t k, const Expect& branch) {
    const Arm& arm = *arms[k];
    const std::vector<TypeId> params =
        k == 0 ? std::vector<TypeId>{} : std::vector<TypeId>{element, type_of(list)};
    op.regions[k] = region(params, arm.pattern.loc, [&](const std::vector<Value>& values) {
      if (arm.pattern.kind == Pattern::Kind::Name) bind(arm.pattern, list);
      if (arm.pattern.kind == Pattern::Kind::Cons)
        for (size_t p = 0; p < 2; ++p) bind(arm.pattern.parts[p], values[p]);
      return expr(*arm.value, branch);
    });
    return type_of(op.regions[k].result);
  });
  return emit_control(std::move(op));
}

Value Checker::match_adt(const Expr& e, Value scrutinee, const Expect& want) {
  const int32_t number = type(scrutinee).adt;
  const Adt adt = program_.types.adts[static_cast<size_t>(number)];
  const int decl = adts_[static_cast<size_t>(number)].decl;
  std::vector<const Arm*> arms(adt.constructors.size(), nullptr);
  for (const Arm& arm : e.arms) {
    const Pattern& p = arm.pattern;
    bool used = false;
    const auto found = constructors_.find(p.name);
    if (p.kind == Pattern::Kind::Constructor ||
        (p.kind == Pattern::Kind::Name && (found != constructors_.end() || is_upper(p.name)))) {
      if (found == constructors_.end() || found->second.type != decl) {
        std::vector<std::string> names;
        for (const Constructor& c : adt.constructors) names.push_back(c.name);
        unknown(p.loc, fmt::format("constructor of {}:", adt.name).c_str(), p.name, names);
      }
      const auto k = static_cast<size_t>(found->second.index);
      const size_t fields = adt.constructors[k].fields.size();
      if (p.parts.size() != fields)
        fail(p.loc, fmt::format("{} has {} field(s), the pattern has {}", p.name, fields, p.parts.size()));
      used = !arms[k];
      if (used) arms[k] = &arm;
    } else if (p.kind == Pattern::Kind::Wild || p.kind == Pattern::Kind::Name) {
      for (const Arm*& slot : arms)
        if (!slot) {
          slot = &arm;
          used = true;
        }
    } else {
      fail(p.loc, fmt::format("this pattern does not fit {}", adt.name));
    }
    if (!used) fail(p.loc, "this arm is never reached");
  }
  std::string missing;
  for (size_t k = 0; k < arms.size(); ++k)
    if (!arms[k]) missing += (missing.empty() ? "" : ", ") + adt.constructors[k].name;
  if (!missing.empty()) fail(e.loc, fmt::format("match does not cover {} of {}", missing, adt.name));

  ir::Op op;
  op.code = Opcode::Match;
  op.args = {scrutinee};
  op.loc = e.loc;
  op.regions.resize(arms.size());
  std::vector<const Expr*> values;
  for (const Arm* arm : arms) values.push_back(arm->value.get());
  op.type = branches(values, want, [&](size_t k, const Expect& branch) {
    const Pattern& p = arms[k]->pattern;
    op.regions[k] = region(adt.constructors[k].fields, p.loc, [&](const std::vector<Value>& fields) {
      if (p.kind == Pattern::Kind::Name && !constructors_.count(p.name)) bind(p, scrutinee);
      for (size_t f = 0; f < p.parts.size(); ++f) bind(p.parts[f], fields[f]);
      return expr(*arms[k]->value, branch);
    });
    return type_of(op.regions[k].result);
  });
  return emit_control(std::move(op));
}

}  // namespace rondo::lang
