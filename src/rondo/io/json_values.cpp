#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "rondo/base/memory.h"
#include "rondo/error.h"
#include "rondo/io/file.h"
#include "rondo/io/instances.h"

namespace rondo::io {
namespace {

using nlohmann::json;

std::string excerpt(const json& node) {
  if (node.is_array()) return fmt::format("an array of {}", node.size());
  if (node.is_object()) return node.empty() ? "{}" : fmt::format("an object with \"{}\"", node.begin().key());
  std::string text = node.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 37) + "..." : text;
}

std::optional<float> number(const json& node) {
  if (node.is_number()) return node.get<float>();
  if (!node.is_string()) return std::nullopt;
  const auto& text = node.get_ref<const std::string&>();
  if (text == "nan") return std::numeric_limits<float>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<float>::infinity();
  if (text == "-inf") return -std::numeric_limits<float>::infinity();
  return std::nullopt;
}

// Reads one value with a stack of its own. A frame is an open tuple, list or constructor; the values of its parts that
// are done lie on `values_` from `base` on.
class Reader {
 public:
  Reader(const std::string& where, Batch* batch) : where_(where), batch_(batch), signature_(batch->signature()) {}

  Value read(const json& root, TypeId type) {
    open_or_push(root, type);
    while (!frames_.empty()) {
      Frame& f = frames_.back();
      if (f.next == f.parts) {
        close();
        continue;
      }
      const size_t i = f.next++;
      const json& part = f.names ? f.node->at((*f.names)[i]) : f.single ? *f.node : (*f.node)[i];
      open_or_push(part, f.types ? (*f.types)[i] : f.element);
    }
    const Value value = values_.back();
    values_.clear();
    return value;
  }

 private:
  struct Frame {
    const json* node;                          // the array or object that holds the parts
    TypeId type;
    int32_t tag = -1;
    size_t parts = 0, next = 0, base = 0;
    const std::vector<TypeId>* types = nullptr;
    const std::vector<std::string>* names = nullptr;
    TypeId element = -1;
    bool single = false;                       // the node is itself the one part
  };

  // Deep paths are shown by both ends.
  std::string path() const {
    const auto step = [&](const Frame& f) {
      const size_t i = f.next - 1;
      std::string s = f.tag < 0 ? "" : "." + signature_[{f.type, f.tag}].name;
      if (f.next == 0 || f.single) return s;
      return s + (f.names ? "." + (*f.names)[i] : fmt::format("[{}]", i));
    };
    constexpr size_t kShown = 8;
    std::string text = "$";
    for (size_t i = 0; i < frames_.size(); ++i) {
      if (frames_.size() > 2 * kShown && i == kShown) {
        text += fmt::format(".. {} more ..", frames_.size() - 2 * kShown);
        i = frames_.size() - kShown;
      }
      text += step(frames_[i]);
    }
    return text;
  }

  [[noreturn]] void bad(const std::string& wanted, const json& node) const {
    throw Error(ErrorKind::Usage, fmt::format("{}: {}: expected {}, got {}", where_, path(), wanted, excerpt(node)));
  }

  void open_or_push(const json& node, TypeId type) {
    const Type& t = signature_.types()[type];
    switch (t.kind) {
      case TypeKind::Int:
        if (!node.is_number_integer() ||
            (node.is_number_unsigned() && node.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}))
          bad("int", node);
        return values_.push_back(Value::integer(node.get<int64_t>()));
      case TypeKind::Bool:
        if (!node.is_boolean()) bad("true or false", node);
        return values_.push_back(Value::boolean(node.get<bool>()));
      case TypeKind::Tensor: return values_.push_back(tensor(node, type, t.dims));
      case TypeKind::List:
        if (!node.is_array()) bad(fmt::format("an array for {}", signature_.show(type)), node);
        return open({&node, type, -1, node.size(), 0, 0, nullptr, nullptr, t.args[0], false});
      case TypeKind::Tuple:
        if (!node.is_array() || node.size() != t.args.size())
          bad(fmt::format("an array of {} for {}", t.args.size(), signature_.show(type)), node);
        return open({&node, type, -1, node.size(), 0, 0, &t.args, nullptr, -1, false});
      case TypeKind::Adt: return open_constructor(node, type);
    }
  }

  void open(Frame f) {
    f.base = values_.size();
    frames_.push_back(f);
  }

  void open_constructor(const json& node, TypeId type) {
    const Adt& adt = signature_.types().adts[static_cast<size_t>(signature_.types()[type].adt)];
    const bool by_name = node.is_string(), by_key = node.is_object() && node.size() == 1;
    const std::string name = by_name ? node.get<std::string>() : by_key ? node.begin().key() : "";
    int32_t tag = -1;
    for (size_t i = 0; i < adt.constructors.size(); ++i)
      if (adt.constructors[i].name == name) tag = static_cast<int32_t>(i);
    if (tag < 0) {
      std::string names;
      for (const Constructor& c : adt.constructors)
        names += (names.empty() ? "" : " or ") + (c.fields.empty() ? "\"" + c.name + "\"" : "{\"" + c.name + "\": ..}");
      bad(fmt::format("{} for {}", names, adt.name), node);
    }
    const Constructor& c = adt.constructors[static_cast<size_t>(tag)];
    const size_t count = c.fields.size();
    Frame f{&node, type, tag, count, 0, 0, &c.fields, nullptr, -1, false};
    if (by_name) {
      if (count) bad(fmt::format("{{\"{}\": [{} fields]}}", name, count), node);
      return open(f);
    }
    const json& fields = node.begin().value();
    f.node = &fields;
    const bool scalar = count == 1 && (signature_.kind(c.fields[0]) == TypeKind::Int ||
                                       signature_.kind(c.fields[0]) == TypeKind::Bool);
    if (fields.is_array() && fields.size() == count) return open(f);
    if (scalar && !fields.is_structured()) {
      f.single = true;
      return open(f);
    }
    if (fields.is_object() && fields.size() == count && c.field_names.size() == count) {
      bool all = true;
      for (const std::string& field : c.field_names) all = all && !field.empty() && fields.contains(field);
      if (all) {
        f.names = &c.field_names;
        return open(f);
      }
    }
    std::string wanted;
    for (size_t i = 0; i < count; ++i) {
      const bool named = i < c.field_names.size() && !c.field_names[i].empty();
      wanted += (i ? ", " : "") + (named ? c.field_names[i] + ": " : "") + signature_.show(c.fields[i]);
    }
    bad(fmt::format("the {} field{} of {} ({})", count, count == 1 ? "" : "s", name, wanted), fields);
  }

  Value tensor(const json& node, TypeId type, const std::vector<int64_t>& dims) {
    numbers_.clear();
    level_.assign(1, &node);
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      std::vector<const json*> next;
      for (const json* part : level_) {
        if (!part->is_array() || static_cast<int64_t>(part->size()) != dims[axis])
          bad(fmt::format("arrays of {} along axis {} of {}", dims[axis], axis, signature_.show(type)), *part);
        for (const json& inner : *part) next.push_back(&inner);
      }
      level_ = std::move(next);
    }
    for (const json* part : level_) {
      const std::optional<float> value = number(*part);
      if (!value) bad(fmt::format("a number for {}", signature_.show(type)), *part);
      numbers_.push_back(*value);
    }
    return batch_->tensor(type, numbers_);
  }

  void close() {
    const Frame f = frames_.back();
    const std::span<const Value> parts(values_.data() + f.base, f.parts);
    const Value value = f.tag >= 0                                     ? batch_->make({f.type, f.tag}, parts)
                        : signature_.kind(f.type) == TypeKind::List ? batch_->list(f.type, parts)
                                                                    : batch_->tuple(f.type, parts);
    values_.resize(f.base);
    values_.push_back(value);
    frames_.pop_back();
  }

  const std::string& where_;
  Batch* batch_;
  const Signature& signature_;
  std::vector<Frame> frames_;
  std::vector<Value> values_;
  std::vector<float> numbers_;
  std::vector<const json*> level_;
};

class JsonLines final : public InstanceSource {
 public:
  explicit JsonLines(const std::string& path) : lines_(path) {}
  size_t read(Batch* batch, size_t at_most) override {
    size_t count = 0;
    const auto where = [&] { return fmt::format("{}:{}", lines_.name(), lines_.number()); };
    naming_memory([&] { return fmt::format("while reading instance {} of a batch, {}", count, where()); }, [&] {
      while (count < at_most) {
        const std::optional<std::string_view> line = lines_.next();
        if (!line) break;
        if (line->find_first_not_of(" \t\r") == std::string_view::npos) continue;
        add_json_instance(*line, where(), batch);
        ++count;
      }
    });
    return count;
  }

 private:
  LineReader lines_;
};

}  // namespace

std::unique_ptr<InstanceSource> open_json_lines(const std::string& path) { return std::make_unique<JsonLines>(path); }

void add_json_instance(std::string_view line, const std::string& where, Batch* batch) {
  json doc;
  // The parser takes a NUL for the end of its input.
  if (const size_t nul = line.find('\0'); nul != std::string_view::npos)
    throw Error(ErrorKind::Usage, fmt::format("{}:{}: not JSON: a NUL byte", where, nul + 1));
  try {
    doc = json::parse(line.begin(), line.end());
  } catch (const json::parse_error& e) {
    throw Error(ErrorKind::Usage, fmt::format("{}:{}: not JSON: {}", where, e.byte, e.what()));
  } catch (const json::exception& e) {
    throw Error(ErrorKind::Usage, fmt::format("{}: not JSON: {}", where, e.what()));
  }
  const std::vector<TypeId>& params = batch->signature().params();
  std::vector<Value> arguments;
  Reader reader(where, batch);
  if (params.size() == 1) {
    arguments.push_back(reader.read(doc, params[0]));
  } else {
    if (!doc.is_array() || doc.size() != params.size())
      throw Error(ErrorKind::Usage, fmt::format("{}: $: expected an array of the {} arguments of main, got {}", where,
                                                params.size(), excerpt(doc)));
    for (size_t i = 0; i < params.size(); ++i) arguments.push_back(reader.read(doc[i], params[i]));
  }
  batch->add(arguments);
}

}  // namespace rondo::io
