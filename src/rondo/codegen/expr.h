// Writing the inside of kernels: buckets, row pointers, expressions, loads and stores. The one emitter of
// both dialects.
//
// Rules that all generated kernels keep:
// - Names. table, weights, level: arguments. d, count, index: the descriptor of the bucket, its records, its
// columns.
//   i: a record. a<c>: row of tensor operand column c; n<c>: value of int column c; o<k>: row of output k;
//   out: row in the results buffer; t<k>: temp k; acc: sums of a product at this element. e<k>: value of
//   expression k.
// - A value is one element (CUDA: float, a thread each) or eight that lie along one axis (CPU: v8).
// - Rows that an earlier kernel of a chain may still be writing when this one starts are read by plain loads
// only;
//   what is read through the read-only path (weights) never changes.
// In: parts of a verified plan. Out: text. An expression that the dialect cannot place is Error(Internal).
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/plan/plan.h"

namespace rondo::codegen {

// Indented text.
class Text {
 public:
  explicit Text(int depth = 0) : depth_(depth) {}
  void line(std::string_view text);
  void open(std::string_view text);        // "text {", and one level deeper
  void close(std::string_view text = "");  // "}text"
  void raw(std::string_view text) { out_ += text; }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
  int depth_;
};

struct Dialect {
  const char* value;      // type of a value
  bool vectors;           // a value is eight elements; loads, stores and literals say how many of them count
  const char* qualifier;  // of functions
  const char* suffix;     // of the prelude's functions: exp_v, exp_f
};
extern const Dialect kCpu, kCuda;

// A point of the index space, or eight neighbouring ones.
struct Place {
  std::vector<std::string> at;  // the coordinate of each axis
  int lane_axis = -1;           // vectors: the axis that the lanes lie along; -1: one lane
  int lanes = 1;
};

// Exact text of a float; infinities and NaN too.
std::string literal(double value);
// "4 + x0 * 256 + x1"
std::string index_text(int64_t offset, const std::vector<int64_t>& strides,
                       const std::vector<std::string>& at);
// Address of element 0 of what a load names: "a0", "weights + 512 + (int64_t)n2 * 256".
std::string base_text(const plan::Plan& plan, const plan::Load& load);

// Which names of the rules above a piece of code needs.
struct Uses {
  std::set<int32_t> operands, ints, outputs;
  bool result = false;
  void add(const plan::Load& load);
  void add(const plan::Store& store);
  void add(const std::vector<plan::Expr>& exprs, const std::vector<int32_t>& roots);
};
Uses uses_of(const plan::Kernel& kernel);

// d, count, index, and the pools that `uses` needs (as p<pool>, results).
void emit_bucket(Text* text, const plan::Plan& plan, int32_t block, const Uses& uses);
// a<c>, n<c>, o<k>, out of record i.
void emit_row(Text* text, const plan::Plan& plan, const plan::Block& block, const Uses& uses);

// Expressions that `roots` need, in order, as e<k>. acc_row: floats between the sums of neighbouring f
// (vectors only). given: texts of expressions that are at hand already; "" = none.
void emit_exprs(Text* text, const plan::Plan& plan, const std::vector<plan::Expr>& exprs,
                const std::vector<int32_t>& roots, const Place& place, const Dialect& dialect,
                int64_t acc_row = 0, const std::vector<std::string>* given = nullptr);
void emit_store(Text* text, const plan::Store& store, const Place& place, const Dialect& dialect);
std::string address_text(const plan::Store& store, const std::vector<std::string>& at);

// Which expressions the roots need.
std::vector<bool> needed(const std::vector<plan::Expr>& exprs, const std::vector<int32_t>& roots);
// Rough cost of one evaluation, in multiply-adds.
int64_t cost_of(const std::vector<plan::Expr>& exprs, const std::vector<int32_t>& roots);
// The same step with axes of extent 1 dropped and neighbouring axes joined where all addresses allow it.
plan::Step simplified(const plan::Step& step);

// Words from the start of the table to the first descriptor, and words of a descriptor.
int64_t table_header(const plan::Plan& plan);
int64_t descriptor_words(const plan::Plan& plan);
int32_t pool_of(const plan::Plan& plan, int64_t size);

}  // namespace rondo::codegen
