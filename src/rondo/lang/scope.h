// Names of values where the checker stands; a later one hides an earlier one of the same name until it is closed. Found in
// constant time: a function may have tens of thousands of lets.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rondo/ir/ir.h"

namespace rondo::lang {

class Scope {
 public:
  void add(const std::string& name, ir::Value value) {
    places_[name].push_back(names_.size());
    names_.emplace_back(name, value);
  }
  std::optional<ir::Value> find(const std::string& name) const {
    const auto found = places_.find(name);
    if (found == places_.end() || found->second.empty()) return std::nullopt;
    return names_[found->second.back()].second;
  }
  size_t size() const { return names_.size(); }
  // Forgets what was added since there were `size` names.
  void close(size_t size) {
    for (; names_.size() > size; names_.pop_back()) places_[names_.back().first].pop_back();
  }
  const std::string& name(size_t k) const { return names_[k].first; }

 private:
  std::vector<std::pair<std::string, ir::Value>> names_;
  std::unordered_map<std::string, std::vector<size_t>> places_;  // in names_, the last one is seen
};

}  // namespace rondo::lang
