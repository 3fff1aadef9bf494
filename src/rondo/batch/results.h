// What main returned -> records that copy its tensors into the results buffers (in the last phase, so that all results
// of a minibatch are contiguous and come back in one download), and a copy of its structure that outlives the walk.
#pragma once
#include <unordered_map>
#include <vector>

#include "rondo/batch/recorder.h"
#include "rondo/io/outputs.h"
#include "rondo/plan/plan.h"

namespace rondo::batch {

// The types of results, taken apart once.
class ResultTypes {
 public:
  // Error(Internal) when the plan has no result block for a tensor of main's result.
  ResultTypes(const plan::Plan& plan, const Signature& signature);

  struct Part {  // of a value's words; tuples are flattened
    enum class Kind { Word, Tensor, List, Adt } kind;
    int32_t index;       // Tensor: pool; List: type of the element; Adt: its number
    uint32_t block = 0;  // Tensor: result block
  };
  struct Layout {
    std::vector<Part> parts;
    size_t words = 0;
    bool plain = true;   // words only: copied as they are
  };
  const Layout& of(TypeId type) const { return values_[static_cast<size_t>(type)]; }
  const Layout& of(int32_t adt, uint64_t tag) const { return nodes_[static_cast<size_t>(adt)][tag]; }
  TypeId result() const { return result_; }

 private:
  std::vector<Layout> values_;               // by type; only what a result can reach is filled in
  std::vector<std::vector<Layout>> nodes_;   // by algebraic type and constructor: the fields
  TypeId result_;
};

// Copies the results of one recorder's instances. Iterative: results may be as deep as trees are.
class ResultCopier {
 public:
  ResultCopier(const plan::Plan& plan, const ResultTypes& types) : plan_(plan), types_(types) {}
  // arena: for lists and nodes. base: added to the pool in words of tensors (io/outputs.h).
  void begin(Recorder* recorder, Arena* arena, uint32_t base);
  void copy(const uint64_t* in, uint64_t* out);

 private:
  struct Work {
    const ResultTypes::Layout* layout;
    const uint64_t* in;
    uint64_t* out;
    uint64_t count;  // values one after the other
  };
  void parts(const Work& work);
  const plan::Plan& plan_;
  const ResultTypes& types_;
  Recorder* recorder_ = nullptr;
  Arena* arena_ = nullptr;
  uint32_t base_ = 0;
  std::vector<Work> stack_;
  // A node that is reached twice is copied once: shared structure must not become a tree.
  std::unordered_map<uint64_t, uint64_t> copied_;
};

}  // namespace rondo::batch
