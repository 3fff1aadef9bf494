// Instances from files into a Batch. One source a file, read piece by piece, so that a large file never has to be in a
// Batch at once. Depth of values is bounded by memory only: nothing here recurses.
//
// JSON lines: a line an instance. One parameter of main: the line is its value; else an array of the values.
//   int, bool            3  true
//   f32[2,2]             [[1, 2], [3.5, "inf"]]      f32[]: 1.5; "nan", "inf" and "-inf" are taken as numbers
//   tuple, list          [a, b]
//   algebraic            {"Node": [l, r]}  {"Node": {"left": l, "right": r}}  "None"  {"Leaf": 3} (one int or bool field)
// Bracketed trees, as treebanks have them: (label child child ..) and (label word), over any number of lines.
// Malformed input: Error(Usage) "file:line[:column]: path: what the type wants, what is there".
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "rondo/value.h"

namespace rondo::io {

class InstanceSource {
 public:
  virtual ~InstanceSource() = default;
  // Adds up to `at_most` instances. Returns how many; 0 = the end.
  virtual size_t read(Batch* batch, size_t at_most) = 0;
};

// "-" reads the standard input.
std::unique_ptr<InstanceSource> open_json_lines(const std::string& path);
// One instance. `where` starts messages: "trees.jsonl:3".
void add_json_instance(std::string_view line, const std::string& where, Batch* batch);

// Words to numbers.
class Vocabulary {
 public:
  static Vocabulary numbers();                         // words must be numbers
  static Vocabulary file(const std::string& path);     // a word a line, numbered from 0; "<unk>" stands for all others
  static Vocabulary hash(int64_t size);                // FNV-1a of the word's bytes, modulo size
  std::optional<int64_t> find(std::string_view word) const;
  std::string missing(std::string_view word) const;    // why find() gave nothing

 private:
  enum class Kind { Numbers, File, Hash } kind_ = Kind::Numbers;
  int64_t size_ = 0;
  std::optional<int64_t> unknown_;
  std::string path_;
  std::unordered_map<std::string, int64_t> words_;
};

// Main must have one parameter: an algebraic type, or [int], which gets the words of a tree in order. In a type T, a
// constructor with one int and no T holds (label word); one with k fields of type T holds a node of k children, one with
// a field [T] a node of any number. An int field named `label` takes the label. A node of one child is passed through
// when T has no constructor for it. "-" reads the standard input, all of it.
std::unique_ptr<InstanceSource> open_trees(const std::string& path, Vocabulary vocabulary, const Signature& signature);
std::unique_ptr<InstanceSource> trees_of(std::string text, const std::string& name, Vocabulary vocabulary,
                                         const Signature& signature);

}  // namespace rondo::io
