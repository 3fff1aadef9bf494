#include "rondo/batch/results.h"

#include <fmt/format.h>

#include <cstring>

#include "rondo/error.h"

namespace rondo::batch {

ResultTypes::ResultTypes(const plan::Plan& plan, const Signature& signature) : result_(signature.result()) {
  const TypeTable& types = signature.types();
  values_.resize(types.types.size());
  nodes_.resize(types.adts.size());
  std::vector<TypeId> todo;
  std::vector<bool> seen(types.types.size()), seen_adt(types.adts.size());

  const auto result_block = [&](TypeId tensor) {
    const int64_t size = types.numel(tensor);
    for (size_t i = 0; i < plan.blocks.size(); ++i) {
      const int32_t pool = plan.blocks[i].result_pool;
      if (pool >= 0 && plan.pools[static_cast<size_t>(pool)] == size)
        return Part{Part::Kind::Tensor, pool, static_cast<uint32_t>(i)};
    }
    throw Error(ErrorKind::Internal, fmt::format("the plan of {} has no result block for {}", plan.name,
                                                 signature.show(tensor)));
  };
  // Appends the parts of a value; lists and algebraic types inside are left to `todo`.
  const auto flatten = [&](TypeId root, Layout* layout) {
    std::vector<TypeId> open{root};
    while (!open.empty()) {
      const TypeId id = open.back();
      open.pop_back();
      const Type& type = types[id];
      switch (type.kind) {
        case TypeKind::Tuple: open.insert(open.end(), type.args.rbegin(), type.args.rend()); continue;
        case TypeKind::Tensor: layout->parts.push_back(result_block(id)); break;
        case TypeKind::List:
          layout->parts.push_back({Part::Kind::List, type.args[0], 0});
          todo.push_back(type.args[0]);
          break;
        case TypeKind::Adt: layout->parts.push_back({Part::Kind::Adt, type.adt, 0}); todo.push_back(id); break;
        default: layout->parts.push_back({Part::Kind::Word, 0, 0}); break;
      }
      layout->plain = layout->plain && layout->parts.back().kind == Part::Kind::Word;
    }
    layout->words += static_cast<size_t>(signature.words(root));
  };

  todo.push_back(result_);
  while (!todo.empty()) {
    const TypeId id = todo.back();
    todo.pop_back();
    if (seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    flatten(id, &values_[static_cast<size_t>(id)]);
    const int32_t adt = types[id].adt;
    if (types[id].kind != TypeKind::Adt || seen_adt[static_cast<size_t>(adt)]) continue;
    seen_adt[static_cast<size_t>(adt)] = true;
    for (const Constructor& c : types.adts[static_cast<size_t>(adt)].constructors) {
      Layout node;
      for (const TypeId field : c.fields) flatten(field, &node);
      nodes_[static_cast<size_t>(adt)].push_back(std::move(node));
    }
  }
}

void ResultCopier::begin(Recorder* recorder, Arena* arena, uint32_t base) {
  recorder_ = recorder;
  arena_ = arena;
  base_ = base;
  copied_.clear();
  stack_.clear();  // an error in the run before may have left work
}

void ResultCopier::copy(const uint64_t* in, uint64_t* out) {
  parts({&types_.of(types_.result()), in, out, 1});
  while (!stack_.empty()) {
    const Work work = stack_.back();
    stack_.pop_back();
    parts(work);
  }
}

void ResultCopier::parts(const Work& work) {
  using Kind = ResultTypes::Part::Kind;
  const uint64_t* in = work.in;
  uint64_t* out = work.out;
  const size_t bytes = work.layout->words * work.count * sizeof(uint64_t);
  if (work.layout->plain) {
    if (bytes) std::memcpy(out, in, bytes);
    return;
  }
  for (uint64_t i = 0; i < work.count; ++i) {
    for (const ResultTypes::Part& part : work.layout->parts) {
      switch (part.kind) {
        case Kind::Word: *out++ = *in++; break;
        case Kind::Tensor: {
          const plan::Block& block = plan_.blocks[part.block];
          uint32_t row = 0, bucket = 0;
          uint32_t* record = abi::append(recorder_->abi(), static_cast<uint32_t>(block.phase), part.block,
                                         static_cast<uint32_t>(block.first_level),
                                         static_cast<uint32_t>(plan_.block_bits), 3, &row, &bucket);
          const abi::Ref ref = abi::ref_of(*in++);
          record[1] = ref.bucket;
          record[2] = ref.slot;
          *out++ = static_cast<uint64_t>(base_ + static_cast<uint32_t>(part.index)) << 32 | row;
          break;
        }
        case Kind::List: {
          const ResultTypes::Layout& element = types_.of(static_cast<TypeId>(part.index));
          const uint64_t length = in[1];
          uint64_t* data = arena_->words(element.words * length);
          out[0] = reinterpret_cast<uint64_t>(data);
          out[1] = length;
          if (length) stack_.push_back({&element, reinterpret_cast<const uint64_t*>(in[0]), data, length});
          in += 2;
          out += 2;
          break;
        }
        case Kind::Adt: {
          const uint64_t node = *in++;
          const auto [known, is_new] = copied_.try_emplace(node, 0);
          if (is_new) {
            const auto* from = reinterpret_cast<const uint64_t*>(node);
            const ResultTypes::Layout& fields = types_.of(part.index, from[0]);
            uint64_t* to = arena_->words(1 + fields.words);
            to[0] = from[0];
            known->second = reinterpret_cast<uint64_t>(to);
            if (fields.words) stack_.push_back({&fields, from + 1, to + 1, 1});
          }
          *out++ = known->second;
          break;
        }
      }
    }
  }
}

}  // namespace rondo::batch
