// "did you mean": the candidate nearest to a misspelt name, "" if none is near.
#pragma once
#include <string>
#include <vector>

namespace rondo::lang {

std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace rondo::lang
