#include "rondo/model.h"

#include <fmt/format.h>

#include "rondo/base/memory.h"
#include "rondo/io/file.h"
#include "rondo/session.h"

namespace rondo {

struct Model::State {
  session::Session session;
};

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::string& path, const Weights& weights, const ModelOptions& options) {
  return compile(io::read_text(path), path, weights, options);
}

Model Model::compile(const std::string& text, const std::string& name, const Weights& weights,
                     const ModelOptions& options) {
  return Model(std::make_unique<State>(State{session::load(std::string(io::without_mark(text)), name, weights, options)}));
}

const Signature& Model::signature() const { return *state_->session.runtime->signature(); }
Batch Model::batch() const { return Batch(state_->session.runtime->signature()); }
Outputs Model::run(const Batch& batch) {
  return naming_memory(
      [&] {
        return fmt::format("while running a batch of {} instance{} of {} (use a smaller batch, or shorter lists)", batch.size(),
                           batch.size() == 1 ? "" : "s", state_->session.report.program);
      },
      [&] { return state_->session.runtime->run(batch); });
}

Report Model::report() const {
  Report report = state_->session.report;
  state_->session.runtime->describe(&report);
  return report;
}

}  // namespace rondo
