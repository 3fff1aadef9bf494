// The path of the model door, from the text of a program to a model that runs: every stage in one readable function, each
// verified by itself, timed by one helper, and shown by name (`rondo dump --stage plan tree.rondo`).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rondo/batch/runtime.h"
#include "rondo/model.h"

namespace rondo::session {

struct Session {
  std::unique_ptr<batch::Runtime> runtime;
  Report report;  // program, stages and load_ms are filled in
};
Session load(const std::string& text, const std::string& file, const Weights& weights, const ModelOptions& options);

// Names of stages that can be shown, in order.
const std::vector<std::string>& stages();
// The text of a stage. Needs no weights, no compiler and no device. Error(Usage) lists the stages when there is none of
// that name.
std::string dump(const std::string& text, const std::string& file, const std::string& stage,
                 const std::vector<std::pair<std::string, int64_t>>& defines);

}  // namespace rondo::session
