// Outputs to files, in the forms that instances.h reads back.
#pragma once
#include <string>
#include <vector>

#include "rondo/io/file.h"
#include "rondo/value.h"

namespace rondo::io {

// Appends the JSON of a value (instances.h); numbers are the shortest that read back as the same float.
void append_json(const OutputView& value, std::string* text);
// A line an instance.
void append_json_lines(const Outputs& outputs, std::string* text);

// Collects the outputs of one or more runs and writes them as .safetensors. The result type decides the names:
//   f32[d..], int, bool    "output" [instances, d..]                    (int and bool as I64)
//   a tuple of these       "output.0", "output.1", ..
//   [f32[d..]], [int]      "output" [all items, d..] and "output.offsets" I64 [instances + 1]; also inside a tuple
// Other types: Error(Usage) that says to write JSON lines.
class SafetensorsOutput {
 public:
  explicit SafetensorsOutput(const Signature& signature);
  void add(const Outputs& outputs);
  void write(const std::string& path) const;

 private:
  struct Column {
    std::string name;
    TypeId type;                     // of an item
    bool list;
    std::vector<float> floats;
    std::vector<int64_t> ints, offsets;
  };
  void add(Column* column, const OutputView& value);
  Signature signature_;
  std::vector<Column> columns_;
  bool tuple_ = false;
};

}  // namespace rondo::io
