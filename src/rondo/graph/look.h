// A graph read into plain data, once, for everything that shows it: look_dot.cpp, look_json.cpp,
// look_difference.cpp.
//
// Nodes stand in the order of adding, as the driver pairs them; `number` is the topological one that people
// see. Every value comes as text for people and as JSON, and says what the driver's update thinks of changing
// it.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rondo/graph_look.h"

namespace rondo::graph::look {

struct Picture;

// What becomes of an update when a value differs.
enum class Change {
  InPlace,
  Depends,  // `why` is the condition
  Never,    // `why` is the reason
};

struct Field {
  std::string name;  // "shared bytes"; with _ for blanks, the key in JSON
  std::string text, json;
  Change change = Change::InPlace;
  const char* why = "";
  bool shown = true;     // else only compared
  bool address = false;  // differs from run to run
};

struct Parameter {
  size_t offset = 0, bytes = 0;
  std::vector<unsigned char> value;
};

// A node that this one waits for, by its place in Picture::nodes.
struct Link {
  size_t from = 0;
  EdgeData data;
  bool operator==(const Link&) const = default;
};

struct Inner {
  std::string label;  // "child", "then", "else", "body", "case 0"
  std::shared_ptr<Picture> picture;
};

struct Node {
  NodeKind kind = NodeKind::Unknown;
  size_t number = 0;
  std::string name, symbol;  // of a kernel, "" when the driver does not tell; demangled and as linked
  std::vector<Field> fields;
  std::vector<Field> attributes;  // those that are not the default
  std::vector<Parameter> parameters;
  bool packed = false;  // parameters came as one block (cuBLAS does that)
  std::string unknown;  // "" or why parameters, or bodies, are not known
  bool bytes_known = false;
  uint64_t bytes = 0;  // that one run of the node copies or sets
  bool device_updatable = false;
  std::vector<Link> after;
  std::vector<Inner> inner;
};

struct Picture {
  std::vector<Node> nodes;    // in the order of adding
  std::vector<size_t> order;  // topological: places in `nodes`
};

Picture read(const GraphView& graph);
void read_kernel(const NodeView& node, Node* to);  // look_kernel.cpp

// "kernel node 4.2 (encode)"; `prefix` is "" or "4."
std::string describe(const Node& node, const std::string& prefix);

// ---- values (look_kernel.cpp)
std::string hex(uint64_t value, size_t bytes);
// Of 1, 2, 4 or 8 bytes as one number, else word by word.
std::string hex(const std::vector<unsigned char>& bytes);
// What is no UTF-8 becomes the replacement character: a name in a binary may hold anything, and neither JSON
// nor DOT may.
std::string utf8(std::string_view text);
std::string quoted(const std::string& text);  // as a string of JSON
std::string demangled(const std::string& symbol);

Field number(std::string name, uint64_t value, Change change = Change::InPlace, const char* why = "");
Field word(std::string name, const std::string& value, Change change = Change::InPlace, const char* why = "");
Field address(std::string name, uint64_t value, Change change = Change::InPlace, const char* why = "");
Field dimensions(std::string name, Dim3 d, Change change = Change::InPlace, const char* why = "");

}  // namespace rondo::graph::look
