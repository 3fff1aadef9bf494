#include "rondo/io/write_outputs.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "rondo/error.h"
#include "rondo/io/safetensors.h"

namespace rondo::io {
namespace {

void append_float(float value, std::string* text) {
  if (std::isnan(value)) {
    *text += "\"nan\"";
  } else if (std::isinf(value)) {
    *text += value > 0 ? "\"inf\"" : "\"-inf\"";
  } else {
    char buffer[32];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    text->append(buffer, end);
  }
}

void append_tensor(const OutputView& value, std::string* text) {
  const std::vector<int64_t>& dims = value.dims();
  const std::span<const float> data = value.tensor();
  for (size_t i = 0; i < data.size(); ++i) {
    // A bracket opens (closes) for each axis whose index is at its first (last) place.
    int64_t block = 1, opens = 0;
    for (size_t a = dims.size(); a-- > 0;) {
      block *= dims[a];
      if (static_cast<int64_t>(i) % block == 0) ++opens;
    }
    if (i) *text += ',';
    text->append(static_cast<size_t>(opens), '[');
    append_float(data[i], text);
    int64_t closes = 0;
    block = 1;
    for (size_t a = dims.size(); a-- > 0;) {
      block *= dims[a];
      if ((static_cast<int64_t>(i) + 1) % block == 0) ++closes;
    }
    text->append(static_cast<size_t>(closes), ']');
  }
}

}  // namespace

void append_json(const OutputView& root, std::string* text) {
  struct Open {
    OutputView value;
    size_t next;
    const char* end;
  };
  std::vector<Open> stack;
  const auto begin = [&](const OutputView& v) {
    switch (v.kind()) {
      case TypeKind::Int: *text += std::to_string(v.integer()); return;
      case TypeKind::Bool: *text += v.boolean() ? "true" : "false"; return;
      case TypeKind::Tensor: append_tensor(v, text); return;
      case TypeKind::Adt:
        if (v.size() == 0) {
          *text += "\"" + v.constructor().name + "\"";
          return;
        }
        *text += "{\"" + v.constructor().name + "\":[";
        stack.push_back({v, 0, "]}"});
        return;
      default: *text += '['; stack.push_back({v, 0, "]"}); return;
    }
  };
  begin(root);
  while (!stack.empty()) {
    Open& open = stack.back();
    if (open.next == open.value.size()) {
      *text += open.end;
      stack.pop_back();
      continue;
    }
    if (open.next) *text += ',';
    const OutputView part = open.value[open.next++];
    begin(part);
  }
}

void append_json_lines(const Outputs& outputs, std::string* text) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    append_json(outputs[i], text);
    *text += '\n';
  }
}

SafetensorsOutput::SafetensorsOutput(const Signature& signature) : signature_(signature) {
  const TypeTable& types = signature_.types();
  const TypeId result = signature_.result();
  tuple_ = signature_.kind(result) == TypeKind::Tuple;
  const std::vector<TypeId> parts = tuple_ ? types[result].args : std::vector<TypeId>{result};
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool list = signature_.kind(parts[i]) == TypeKind::List;
    const TypeId item = list ? types[parts[i]].args[0] : parts[i];
    const TypeKind kind = signature_.kind(item);
    if (kind != TypeKind::Tensor && kind != TypeKind::Int && kind != TypeKind::Bool)
      throw Error(ErrorKind::Usage, fmt::format("outputs of type {} do not fit into .safetensors; write JSON lines",
                                                signature_.show(result)));
    columns_.push_back({tuple_ ? fmt::format("output.{}", i) : "output", item, list, {}, {}, {}});
    if (list) columns_.back().offsets.push_back(0);
  }
}

void SafetensorsOutput::add(Column* column, const OutputView& value) {
  if (value.kind() == TypeKind::Tensor) {
    const std::span<const float> data = value.tensor();
    column->floats.insert(column->floats.end(), data.begin(), data.end());
  } else {
    column->ints.push_back(value.kind() == TypeKind::Int ? value.integer() : value.boolean());
  }
}

void SafetensorsOutput::add(const Outputs& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputView root = outputs[i];
    for (size_t c = 0; c < columns_.size(); ++c) {
      const OutputView part = tuple_ ? root[c] : root;
      if (!columns_[c].list) {
        add(&columns_[c], part);
        continue;
      }
      for (size_t k = 0; k < part.size(); ++k) add(&columns_[c], part[k]);
      columns_[c].offsets.push_back(columns_[c].offsets.back() + static_cast<int64_t>(part.size()));
    }
  }
}

void SafetensorsOutput::write(const std::string& path) const {
  std::vector<SavedTensor> tensors;
  for (const Column& c : columns_) {
    const bool is_float = signature_.kind(c.type) == TypeKind::Tensor;
    std::vector<int64_t> dims;
    if (is_float) dims = signature_.types()[c.type].dims;
    const auto count = is_float ? static_cast<int64_t>(c.floats.size()) / signature_.types().numel(c.type)
                                : static_cast<int64_t>(c.ints.size());
    dims.insert(dims.begin(), count);
    tensors.push_back({c.name, is_float ? "F32" : "I64", dims,
                       is_float ? static_cast<const void*>(c.floats.data()) : c.ints.data()});
    if (c.list)
      tensors.push_back({c.name + ".offsets", "I64", {static_cast<int64_t>(c.offsets.size())}, c.offsets.data()});
  }
  write_safetensors(path, tensors);
}

}  // namespace rondo::io
