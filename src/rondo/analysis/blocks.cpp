#include "rondo/analysis/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <compare>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "rondo/analysis/phases.h"

namespace rondo::analysis {
namespace {
using ir::kNone;
using ir::Op;
using ir::Opcode;
using ir::Value;

bool is_free(Opcode code) {
  return code == Opcode::Weight || code == Opcode::Fill || code == Opcode::ToFloat || code == Opcode::Row ||
         is_view(code);
}

// The blocks of one function.
class Partition {
 public:
  Partition(const ir::Program& program, int32_t function, const Flow& flow, const Recursions& recursions,
            const std::vector<int32_t>& phases)
      : program_(program),
        f_(function),
        fn_(program.functions[static_cast<size_t>(function)]),
        layout_(flow.layouts[static_cast<size_t>(function)]),
        flow_(flow),
        recursions_(recursions),
        phases_(phases),
        rank_(fn_.ops.size(), 0),
        recursion_phase_(recursions.list.size(), 0) {
    repeated.assign(fn_.ops.size(), false);
    referred.assign(fn_.ops.size(), false);
    block_of.assign(fn_.ops.size(), -1);
    for (size_t n = 0; n < flow.nodes.size(); ++n)
      if (recursions.cycle[n] >= 0) recursion_phase_[static_cast<size_t>(recursions.cycle[n])] = phases[n];
  }

  void run() {
    refer(fn_.body.result);
    for_each_op(fn_, fn_.body, [&](Value v) { classify(v); });
    for_each_op(fn_, fn_.body, [&](Value v) {
      if (is_member(v)) members_.push_back(v);
    });
    ranks(fn_.body);
    keys();
    sink();
    group();
    for (const Value v : members_)
      for (const Value root : roots(v))
        if (block_of[at(root)] >= 0 && block_of[at(root)] != block_of[at(v)]) used_by_blocks_.insert(root);
    for (BlockFact& b : list) operands(&b);
  }

  std::vector<BlockFact> list;
  std::vector<bool> repeated, referred;
  std::vector<int32_t> block_of;

 private:
  struct Key {  // members of one block agree in it
    int32_t region, rank, phase;
    std::vector<int32_t> climbs;
    auto operator<=>(const Key&) const = default;
  };

  const ir::Program& program_;
  const int32_t f_;
  const ir::Function& fn_;
  const Layout& layout_;
  const Flow& flow_;
  const Recursions& recursions_;
  const std::vector<int32_t>& phases_;

  static size_t at(Value v) { return static_cast<size_t>(v); }
  const Op& op(Value v) const { return fn_.ops[at(v)]; }
  bool is_tensor(Value v) const { return program_.types[op(v).type].kind == TypeKind::Tensor; }

  void refer(Value v) {
    const Value behind = behind_marks(fn_, v);
    if (is_tensor_op(op(behind).code)) referred[at(behind)] = true;
  }

  // Program order: arguments are classified before their users, except references, which come later and only
  // add.
  void classify(Value v) {
    const Op& o = op(v);
    for (const ir::Region& r : o.regions) refer(r.result);
    if (o.code == Opcode::Phase && is_tensor(v)) return;  // looked through
    if (!is_tensor_op(o.code)) {
      for (const Value a : o.args) refer(a);
      return;
    }
    // Made from weights and numbers alone: the same wherever it is computed.
    const bool shared = std::all_of(o.args.begin(), o.args.end(),
                                    [&](Value a) { return shared_.count(behind_marks(fn_, a)) > 0; });
    if (shared) shared_.insert(v);
    repeated[at(v)] = shared || is_free(o.code);
  }

  bool is_member(Value v) const {
    if (!is_tensor_op(op(v).code)) return false;
    if (!repeated[at(v)]) return true;
    return referred[at(v)] && !constant_view(program_, fn_, v);
  }

  // What a block that computes v gets from outside of v's own expression: values that are not repeated, and
  // ints.
  const std::vector<Value>& roots(Value v) {
    const auto [found, fresh] = roots_.try_emplace(v);
    if (!fresh) return found->second;
    std::vector<Value> result;
    const auto add = [&](Value r) {
      if (std::find(result.begin(), result.end(), r) == result.end()) result.push_back(r);
    };
    for (const Value a : op(v).args) {
      const Value b = behind_marks(fn_, a);
      if (is_tensor_op(op(b).code) && repeated[at(b)]) {
        for (const Value r : std::vector<Value>(roots(b))) add(r);
      } else {
        add(b);
      }
    }
    return roots_[v] = std::move(result);
  }

  // Values defined in `here` that the regions of v use.
  void captured(const ir::Region& r, int32_t here, const std::function<void(Value)>& visit) const {
    const auto use = [&](Value v) {
      if (layout_.region_of[at(v)] == here) visit(v);
    };
    use(r.result);
    for_each_op(fn_, r, [&](Value v) {
      for (const Value a : op(v).args) use(a);
      for (const ir::Region& inner : op(v).regions) use(inner.result);
    });
  }

  // A block's result passes from the block to the host, and may come back in a later one: that is a step in
  // rank.
  void ranks(const ir::Region& region) {
    for (const Value v : region.body) {
      const Op& o = op(v);
      const bool computes = is_tensor_op(o.code) || o.code == Opcode::Phase;
      const int32_t here = layout_.region_of[at(v)];
      const auto after = [&](Value a) {
        if (layout_.region_of[at(a)] != here) return;  // defined outside of this region: before all of it
        const Value b = behind_marks(fn_, a);
        const bool record = !computes && is_tensor_op(op(b).code) && !constant_view(program_, fn_, b);
        rank_[at(v)] = std::max(rank_[at(v)], rank_[at(a)] + (record ? 1 : 0));
      };
      for (const Value a : o.args) after(a);
      for (const ir::Region& inner : o.regions) {
        captured(inner, here, after);
        ranks(inner);
      }
    }
  }

  void keys() {
    for (const Value v : members_) {
      const auto node = static_cast<size_t>(flow_.node(f_, v));
      // A recursion of an earlier phase is over: what it made is given, and nothing climbs with it any more.
      std::vector<int32_t> climbs;
      for (const int32_t r : recursions_.climbs[node])
        if (recursion_phase_[static_cast<size_t>(r)] == phases_[node]) climbs.push_back(r);
      index_[v] = key_.size();
      key_.push_back({layout_.region_of[at(v)], rank_[at(v)], phases_[node], std::move(climbs)});
    }
  }

  // What is used by one later rank alone waits for it: the product of a gate that is added to a call's result
  // belongs to the block that adds it. Nothing on the host side uses such a value, so no call waits longer.
  void sink() {
    std::map<Value, std::vector<size_t>> users;
    for (size_t k = 0; k < members_.size(); ++k)
      for (const Value root : roots(members_[k]))
        if (index_.count(root) > 0) users[root].push_back(k);
    for (size_t k = members_.size(); k-- > 0;) {
      const auto found = users.find(members_[k]);
      if (referred[at(members_[k])] || found == users.end()) continue;
      const auto same = [&](size_t user) {
        Key key = key_[user];
        key.rank = key_[k].rank;
        return key == key_[k];
      };
      if (!std::all_of(found->second.begin(), found->second.end(), same)) continue;
      int32_t earliest = key_[found->second[0]].rank;
      for (const size_t user : found->second) earliest = std::min(earliest, key_[user].rank);
      key_[k].rank = earliest;
    }
  }

  void group() {
    std::vector<int32_t> parent(members_.size());
    std::iota(parent.begin(), parent.end(), 0);
    const std::function<int32_t(int32_t)> find = [&](int32_t k) {
      while (parent[static_cast<size_t>(k)] != k) {
        int32_t& up = parent[static_cast<size_t>(k)];
        up = parent[static_cast<size_t>(up)];
        k = up;
      }
      return k;
    };
    const auto unite = [&](int32_t a, int32_t b) {
      a = find(a), b = find(b);
      parent[static_cast<size_t>(std::max(a, b))] =
          std::min(a, b);  // the first member leads: blocks in program order
    };
    std::map<std::pair<Value, Key>, int32_t> users;
    for (size_t k = 0; k < members_.size(); ++k)
      for (const Value root : roots(members_[k])) {
        const auto made = index_.find(root);
        if (made != index_.end() && key_[made->second] == key_[k])
          unite(static_cast<int32_t>(made->second), static_cast<int32_t>(k));
        const auto [user, first] = users.try_emplace({root, key_[k]}, static_cast<int32_t>(k));
        if (!first) unite(user->second, static_cast<int32_t>(k));
      }
    std::map<int32_t, int32_t> number;
    for (size_t k = 0; k < members_.size(); ++k) {
      const auto [found, fresh] =
          number.try_emplace(find(static_cast<int32_t>(k)), static_cast<int32_t>(list.size()));
      if (fresh) {
        BlockFact b;
        b.function = f_;
        b.region = key_[k].region;
        b.rank = key_[k].rank;
        b.phase = key_[k].phase;
        b.climbs = key_[k].climbs;
        b.loc = op(members_[k]).loc;
        b.name = path_name(b.region);
        list.push_back(std::move(b));
      }
      list[static_cast<size_t>(found->second)].members.push_back(members_[k]);
      block_of[at(members_[k])] = found->second;
    }
  }

  void operands(BlockFact* b) {
    const int32_t number = block_of[at(b->members[0])];
    for (const Value v : b->members) {
      for (const Value root : roots(v)) {
        if (is_tensor_op(op(root).code) && !repeated[at(root)] && block_of[at(root)] == number) continue;
        std::vector<Value>& columns = is_tensor(root) ? b->tensors : b->ints;
        if (std::find(columns.begin(), columns.end(), root) == columns.end()) columns.push_back(root);
      }
      if (referred[at(v)] || used_by_blocks_.count(v)) b->outputs.push_back(v);
    }
  }

  // encode_Node, from the function and the innermost match arm.
  std::string path_name(int32_t region) const {
    std::string arm;
    for (; region > 0 && arm.empty(); region = layout_.regions[static_cast<size_t>(region)].parent) {
      const RegionInfo& info = layout_.regions[static_cast<size_t>(region)];
      const Op& owner = op(info.owner);
      if (owner.code != Opcode::Match) continue;
      const Type& type = program_.types[op(owner.args[0]).type];
      arm = program_.types.adts[static_cast<size_t>(type.adt)]
                .constructors[static_cast<size_t>(info.index)]
                .name;
    }
    std::string text = fn_.name + (arm.empty() ? "" : "_" + arm);
    for (char& c : text)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    return text == "result" ? "fn_result" : text;  // result_<n> are the names of the blocks that copy results
  }

  std::set<Value> shared_, used_by_blocks_;
  std::vector<Value> members_;
  std::map<Value, std::vector<Value>> roots_;
  std::vector<int32_t> rank_;
  std::vector<int32_t> recursion_phase_;  // an entry a recursion
  std::map<Value, size_t> index_;         // a member -> its place in members_
  std::vector<Key> key_;                  // an entry a member
};

// Gaps go; what is too deep shares the last phase, where levels keep it in order.
void number_phases(Blocks* blocks) {
  std::map<int32_t, int32_t> number;
  for (const BlockFact& b : blocks->list) number[b.phase] = 0;
  int32_t next = 0;
  for (auto& [phase, n] : number) n = std::min(next++, kMostPhases - 1);
  for (BlockFact& b : blocks->list) b.phase = number[b.phase];
  blocks->phases = std::max(1, std::min(next, kMostPhases));
}

}  // namespace

ir::Value behind_marks(const ir::Function& fn, ir::Value v) {
  while (fn.ops[static_cast<size_t>(v)].code == Opcode::Phase) v = fn.ops[static_cast<size_t>(v)].args[0];
  return v;
}

std::optional<View> constant_view(const ir::Program& program, const ir::Function& fn, ir::Value v) {
  const Op& op = fn.ops[static_cast<size_t>(behind_marks(fn, v))];
  if (!is_free(op.code)) return std::nullopt;
  if (op.args.empty()) return view_of(program, op, {}, std::nullopt);
  const std::optional<View> base = constant_view(program, fn, op.args[0]);
  const Op& last = fn.ops[static_cast<size_t>(op.args.back())];
  const std::optional<int64_t> index =
      last.code == Opcode::Int ? std::optional<int64_t>(last.i) : std::nullopt;
  return base ? view_of(program, op, {&*base}, index) : std::nullopt;
}

Blocks find_blocks(const ir::Program& specialised, const Flow& flow, const Recursions& recursions,
                   const std::vector<int32_t>& phases) {
  Blocks result;
  std::map<std::string, int> used;
  for (size_t f = 0; f < specialised.functions.size(); ++f) {
    Partition partition(specialised, static_cast<int32_t>(f), flow, recursions, phases);
    partition.run();
    const auto base = static_cast<int32_t>(result.list.size());
    for (int32_t& b : partition.block_of)
      if (b >= 0) b += base;
    for (BlockFact& b : partition.list) {
      b.name = fmt::format("{}_{}", b.name, ++used[b.name]);
      result.list.push_back(std::move(b));
    }
    result.block_of.push_back(std::move(partition.block_of));
    result.repeated.push_back(std::move(partition.repeated));
    result.referred.push_back(std::move(partition.referred));
  }
  number_phases(&result);
  return result;
}

}  // namespace rondo::analysis
