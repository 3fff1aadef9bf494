// The reference evaluator: what a program means. Walks the IR for one instance,
// operation by operation, with tensors in double precision. Nothing is batched,
// fused or fast; it is the oracle of `rondo verify` and of the property tests.
//
// Runs any verified program that has no Emit, EmitOut or Constant. Recursion runs on a stack of its own of
// kEvaluateStackBytes, which takes trees of tens of thousands of levels; beyond that, and where a model
// faults at run time (an index out of range, a division by zero), it throws Error(Usage) that names the line.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rondo/ir/ir.h"

namespace rondo::ir {

inline constexpr size_t kEvaluateStackBytes = size_t{256} << 20;

struct WeightData {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<double> values;  // row-major
};

// Immutable; copies share what they hold.
class EvalValue {
 public:
  enum class Kind { Int, Tensor, Tuple, List, Adt };

  EvalValue() = default;                    // the int 0
  static EvalValue integer(int64_t value);  // bools too: 0 or 1
  static EvalValue tensor(std::vector<int64_t> dims, std::vector<double> values);
  static EvalValue tuple(std::vector<EvalValue> elements);
  static EvalValue list(std::vector<EvalValue> elements);
  static EvalValue adt(int64_t constructor, std::vector<EvalValue> fields);

  Kind kind() const { return kind_; }
  int64_t integer() const { return number_; }      // Int
  int64_t constructor() const { return number_; }  // Adt
  const std::vector<int64_t>& dims() const;        // Tensor
  const std::vector<double>& values() const;       // Tensor
  const std::vector<EvalValue>& parts() const;     // Tuple, List, Adt

 private:
  struct Data {
    std::vector<int64_t> dims;
    std::vector<double> values;
    std::vector<EvalValue> parts;
    ~Data();  // a long chain of nodes is freed without recursion
  };
  static EvalValue make(Kind kind, int64_t number, std::vector<EvalValue> parts);

  Kind kind_ = Kind::Int;
  int64_t number_ = 0;
  std::shared_ptr<Data> data_;
};

// The result of main. `weights` are found by name; one that is missing or of another shape is an
// Error(Usage), as are arguments that do not fit main's parameters.
EvalValue evaluate(const Program& program, const std::vector<WeightData>& weights,
                   const std::vector<EvalValue>& arguments);

// Largest |a - b| over all numbers; infinity where the structure differs or one side alone is not a number.
double largest_difference(const EvalValue& a, const EvalValue& b);

}  // namespace rondo::ir
