// Grammar:  file = node*    node = "(" [label] word ")" | "(" [label] node+ ")"    label, word = no space, no bracket
// A node closes when its bracket does, so the parser is one loop with a stack of open nodes.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "rondo/base/memory.h"
#include "rondo/error.h"
#include "rondo/io/file.h"
#include "rondo/io/instances.h"

namespace rondo::io {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::Usage, message); }

bool parse_int(std::string_view text, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Where the parts of a bracketed node go in a constructor.
struct Shape {
  int32_t tag = -1;
  int label = -1, word = -1, list = -1;  // fields
  std::vector<int> children;
};

class Trees final : public InstanceSource {
 public:
  Trees(std::string text, const std::string& name, Vocabulary vocabulary, const Signature& signature)
      : text_(std::move(text)), name_(name), vocabulary_(std::move(vocabulary)) {
    const TypeTable& types = signature.types();
    if (signature.params().size() != 1)
      refuse(fmt::format("bracketed trees need a main of one parameter; it has {}", signature.params().size()));
    type_ = signature.params()[0];
    const Type& type = types[type_];
    words_only_ = type.kind == TypeKind::List && types[type.args[0]].kind == TypeKind::Int;
    if (words_only_) return;
    if (type.kind == TypeKind::Adt) find_shapes(signature);
    if (leaf_.tag < 0 || (nodes_.empty() && list_node_.tag < 0))
      refuse(fmt::format("type {} cannot hold bracketed trees: it needs a constructor with one int (the word) and one with "
                         "subtrees or a list of them; or use [int], the words in order",
                         signature.show(type_)));
  }

  size_t read(Batch* batch, size_t at_most) override {
    size_t count = 0;
    naming_memory([&] { return fmt::format("while reading instance {} of a batch, {}", count, where(at_)); }, [&] {
      while (count < at_most && skip_space()) {
        tree(batch);
        ++count;
      }
    });
    return count;
  }

 private:
  struct Open {
    std::string_view label, word;
    size_t at, base;      // of the bracket; of its children on done_
    bool has_word = false;
  };

  void find_shapes(const Signature& signature) {
    const TypeTable& types = signature.types();
    const Adt& adt = types.adts[static_cast<size_t>(types[type_].adt)];
    for (size_t tag = 0; tag < adt.constructors.size(); ++tag) {
      const Constructor& c = adt.constructors[tag];
      Shape s;
      s.tag = static_cast<int32_t>(tag);
      bool usable = true;
      for (size_t i = 0; i < c.fields.size(); ++i) {
        const auto field = static_cast<int>(i);
        if (c.fields[i] == type_) {
          s.children.push_back(field);
        } else if (c.fields[i] == signature.list_of(type_) && s.list < 0) {
          s.list = field;
        } else if (signature.kind(c.fields[i]) == TypeKind::Int && i < c.field_names.size() &&
                   c.field_names[i] == "label" && s.label < 0) {
          s.label = field;
        } else if (signature.kind(c.fields[i]) == TypeKind::Int && s.word < 0) {
          s.word = field;
        } else {
          usable = false;
        }
      }
      if (!usable) continue;
      if (s.word >= 0 && s.children.empty() && s.list < 0 && leaf_.tag < 0) leaf_ = s;
      if (s.word >= 0) continue;
      if (s.list >= 0 && s.children.empty() && list_node_.tag < 0) list_node_ = s;
      if (s.list < 0 && !s.children.empty()) nodes_.push_back(s);
    }
  }

  std::string where(size_t at) const {
    size_t line = 1, start = 0;
    for (size_t i = 0; i < at; ++i)
      if (text_[i] == '\n') {
        ++line;
        start = i + 1;
      }
    return fmt::format("{}:{}:{}", name_, line, at - start + 1);
  }

  bool skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
    return at_ < text_.size();
  }

  std::string_view atom() {
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of("() \t\r\n", begin), text_.size());
    return std::string_view(text_).substr(begin, at_ - begin);
  }

  size_t finished() const { return words_only_ ? words_.size() : done_.size(); }

  void tree(Batch* batch) {
    if (text_[at_] != '(') refuse(fmt::format("{}: expected ( to begin a tree, got '{}'", where(at_), text_[at_]));
    open_.clear();
    done_.clear();
    words_.clear();
    do {
      if (!skip_space())
        refuse(fmt::format("{}: this bracket is never closed", where(open_.back().at)));
      if (text_[at_] == '(') {
        if (!open_.empty() && open_.back().has_word)
          refuse(fmt::format("{}: a node has one word or subtrees, not both", where(at_)));
        Open node{{}, {}, at_++, finished(), false};
        if (skip_space() && text_[at_] != '(' && text_[at_] != ')') node.label = atom();
        open_.push_back(node);
      } else if (text_[at_] == ')') {
        ++at_;
        close(batch);
      } else {
        const size_t start = at_;
        const std::string_view word = atom();
        Open& node = open_.back();
        if (node.has_word || finished() > node.base)
          refuse(fmt::format("{}: a node has one word or subtrees, not both; got '{}'", where(start), word));
        node.word = word;
        node.has_word = true;
      }
    } while (!open_.empty());
    batch->add({words_only_ ? batch->list(type_, words_) : done_.back()});
  }

  void close(Batch* batch) {
    Open node = open_.back();
    const size_t children = finished() - node.base;
    if (children == 0 && !node.has_word) {  // (word)
      if (node.label.empty()) refuse(fmt::format("{}: an empty node", where(node.at)));
      node.word = node.label;
      node.label = {};
      node.has_word = true;
    }
    open_.pop_back();
    if (words_only_) {
      if (node.has_word) words_.push_back(Value::integer(word_number(node)));
      return;
    }
    if (node.has_word) {
      done_.push_back(make(batch, leaf_, node, {}));
      return;
    }
    const std::span<const Value> parts(done_.data() + node.base, children);
    const Shape* shape = nullptr;
    for (const Shape& s : nodes_)
      if (s.children.size() == children) shape = &s;
    if (!shape && list_node_.tag >= 0) shape = &list_node_;
    if (children == 1 && (!shape || node.label.empty())) return;  // passed through
    if (!shape) {
      const Signature& signature = batch->signature();
      std::string names;
      for (const Shape& s : nodes_)
        names += fmt::format("{}{} has {}", names.empty() ? "" : ", ", signature[{type_, s.tag}].name, s.children.size());
      refuse(fmt::format("{}: a node of {} children; of type {}, {}. Make the trees binary, or give the type a "
                         "constructor with a list of subtrees",
                         where(node.at), children, signature.show(type_), names));
    }
    const Value value = make(batch, *shape, node, parts);
    done_.resize(node.base);
    done_.push_back(value);
  }

  int64_t word_number(const Open& node) const {
    const std::optional<int64_t> number = vocabulary_.find(node.word);
    if (!number) refuse(fmt::format("{}: {}", where(node.at), vocabulary_.missing(node.word)));
    return *number;
  }

  Value make(Batch* batch, const Shape& s, const Open& node, std::span<const Value> parts) {
    const ConstructorId id{type_, s.tag};
    fields_.assign(batch->signature()[id].fields.size(), Value());
    if (s.label >= 0) {
      int64_t label = 0;
      if (!parse_int(node.label, &label))
        refuse(fmt::format("{}: label '{}' is not a number, which the field `label` of {} takes", where(node.at),
                           node.label, batch->signature()[id].name));
      fields_[static_cast<size_t>(s.label)] = Value::integer(label);
    }
    if (s.word >= 0) fields_[static_cast<size_t>(s.word)] = Value::integer(word_number(node));
    if (s.list >= 0) fields_[static_cast<size_t>(s.list)] = batch->list(batch->signature().list_of(type_), parts);
    for (size_t i = 0; i < s.children.size(); ++i) fields_[static_cast<size_t>(s.children[i])] = parts[i];
    return batch->make(id, fields_);
  }

  std::string text_, name_;
  Vocabulary vocabulary_;
  TypeId type_ = -1;
  bool words_only_ = false;
  Shape leaf_, list_node_;
  std::vector<Shape> nodes_;
  size_t at_ = 0;
  std::vector<Open> open_;
  std::vector<Value> done_, words_, fields_;
};

}  // namespace

Vocabulary Vocabulary::numbers() { return {}; }

Vocabulary Vocabulary::file(const std::string& path) {
  Vocabulary v;
  v.kind_ = Kind::File;
  v.path_ = path;
  const std::string text = read_text(path);
  int64_t line = 0;
  for (size_t at = 0; at < text.size(); ++line) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string word = text.substr(at, end - at);
    if (!word.empty() && word.back() == '\r') word.pop_back();
    if (!v.words_.emplace(word, line).second)
      refuse(fmt::format("{}:{}: word '{}' is there twice", path, line + 1, word));
    at = end + 1;
  }
  if (v.words_.empty()) refuse(fmt::format("{}: no words", path));
  const auto unknown = v.words_.find("<unk>");
  if (unknown != v.words_.end()) v.unknown_ = unknown->second;
  return v;
}

Vocabulary Vocabulary::hash(int64_t size) {
  if (size < 1) refuse(fmt::format("words hashed modulo {}; expected a number from 1", size));
  Vocabulary v;
  v.kind_ = Kind::Hash;
  v.size_ = size;
  return v;
}

std::optional<int64_t> Vocabulary::find(std::string_view word) const {
  if (kind_ == Kind::Hash) {
    uint64_t h = 14695981039346656037u;
    for (const char c : word) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return static_cast<int64_t>(h % static_cast<uint64_t>(size_));
  }
  if (kind_ == Kind::File) {
    const auto found = words_.find(std::string(word));
    if (found != words_.end()) return found->second;
    return unknown_;
  }
  int64_t n = 0;
  if (!parse_int(word, &n)) return std::nullopt;
  return n;
}

std::string Vocabulary::missing(std::string_view word) const {
  return kind_ == Kind::File ? fmt::format("word '{}' is not in {}, which has no <unk> either", word, path_)
                             : fmt::format("word '{}' is not a number; give a vocabulary (--vocab FILE), or hash words (--hash-words N)", word);
}

std::unique_ptr<InstanceSource> trees_of(std::string text, const std::string& name, Vocabulary vocabulary,
                                         const Signature& signature) {
  return std::make_unique<Trees>(std::move(text), name, std::move(vocabulary), signature);
}

std::unique_ptr<InstanceSource> open_trees(const std::string& path, Vocabulary vocabulary, const Signature& signature) {
  return trees_of(read_text(path, From::StreamOrStdin), path == "-" ? "stdin" : path, std::move(vocabulary), signature);
}

}  // namespace rondo::io
