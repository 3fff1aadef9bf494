// A dynamic model, written for one instance in the Rondo language, compiled to run many at a time.
//
//   Model model = Model::load("tree.rondo", Weights::load("tree.safetensors"));
//   Batch batch = model.batch();
//   ... batch.add({tree}) for each instance (value.h) ...
//   Outputs outputs = model.run(batch);
//   std::span<const float> h = outputs[0].tensor();
//
// Errors are rondo::Error: Source for the program's text, Usage for weights, options and instances, Unavailable when a
// compiler, NVRTC or a driver is missing, Device when memory runs out or a launch fails. After any of them the model is
// as it was. A model may be used by several threads: its runs are one after the other. Batches are built without it, so
// threads that prepare batches do not wait for each other.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rondo/error.h"
#include "rondo/report.h"
#include "rondo/value.h"
#include "rondo/weights.h"

namespace rondo {

struct ModelOptions {
  std::string device = "auto";   // "cpu", "cuda", "cuda:N"; "auto": cuda when there is one, else cpu
  // cuda: "graph" or "stream" launches. "auto": plain launches where the level counts are new, a graph from the second
  // time, kept unless plain launches are timed to be faster; never one for minibatches of very many levels.
  std::string replay = "auto";
  unsigned threads = 0;          // of the host: walking instances, and the cpu device; 0: RONDO_THREADS, else all
  bool profile = false;          // GPU times of upload, run and download by events; costs a few microseconds a run
  bool fused = true;             // false: a kernel and a launch a product, to measure what fusion brings
  bool dependent = true;         // false: no programmatic dependent launches, to measure what they bring
  std::vector<std::pair<std::string, int64_t>> defines;  // values of `const` declarations: {"H", 512}
};

class Model {
 public:
  // Compiles the program in a file, or a text; `name` is shown in messages. Compiled parts are kept on disk
  // (RONDO_CACHE_DIR), so that the second time takes milliseconds. Weights that the program does not use are ignored.
  static Model load(const std::string& path, const Weights& weights, const ModelOptions& options = {});
  static Model compile(const std::string& text, const std::string& name, const Weights& weights,
                       const ModelOptions& options = {});

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const Signature& signature() const;
  Batch batch() const;                 // an empty one
  // Runs all instances of the batch; the batch may be used again. Batched results are those of one by one, bit for bit
  // on the cpu.
  Outputs run(const Batch& batch);
  Report report() const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rondo
