#include "rondo/ir/evaluate.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>

#include "rondo/error.h"
#include "rondo/ir/evaluate_tensor.h"
#include "rondo/ir/infer.h"

namespace rondo::ir {

// ---------------------------------------------------------------- values

EvalValue EvalValue::make(Kind kind, int64_t number, std::vector<EvalValue> parts) {
  EvalValue v;
  v.kind_ = kind;
  v.number_ = number;
  v.data_ = std::make_shared<Data>();
  v.data_->parts = std::move(parts);
  return v;
}
EvalValue EvalValue::integer(int64_t value) {
  EvalValue v;
  v.number_ = value;
  return v;
}
EvalValue EvalValue::tensor(std::vector<int64_t> dims, std::vector<double> values) {
  EvalValue v = make(Kind::Tensor, 0, {});
  v.data_->dims = std::move(dims);
  v.data_->values = std::move(values);
  return v;
}
EvalValue EvalValue::tuple(std::vector<EvalValue> elements) {
  return make(Kind::Tuple, 0, std::move(elements));
}
EvalValue EvalValue::list(std::vector<EvalValue> elements) {
  return make(Kind::List, 0, std::move(elements));
}
EvalValue EvalValue::adt(int64_t constructor, std::vector<EvalValue> fields) {
  return make(Kind::Adt, constructor, std::move(fields));
}

const std::vector<int64_t>& EvalValue::dims() const {
  static const std::vector<int64_t> none;
  return data_ ? data_->dims : none;
}
const std::vector<double>& EvalValue::values() const {
  static const std::vector<double> none;
  return data_ ? data_->values : none;
}
const std::vector<EvalValue>& EvalValue::parts() const {
  static const std::vector<EvalValue> none;
  return data_ ? data_->parts : none;
}

EvalValue::Data::~Data() {
  std::vector<EvalValue> pending = std::move(parts);
  while (!pending.empty()) {
    const EvalValue last = std::move(pending.back());
    pending.pop_back();
    if (!last.data_ || last.data_.use_count() != 1) continue;
    for (EvalValue& part : last.data_->parts) pending.push_back(std::move(part));
    last.data_->parts.clear();
  }
}

// ---------------------------------------------------------------- evaluation
namespace {

// Longest list that range() may make: a slip in a model should be an error, not all of the memory.
constexpr int64_t kMaxRange = int64_t{1} << 24;

// Two's complement without undefined behaviour.
int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }

struct Evaluator {
  const Program& program;
  std::vector<EvalValue> weights;
  const char* stack_limit = nullptr;

  [[noreturn]] void fault(const Op& op, const std::string& message) const {
    throw Error(ErrorKind::Usage, fmt::format("{}:{}: {}", program.file, op.loc.line, message));
  }

  struct Frame {
    const Function& fn;
    std::vector<EvalValue> values;  // an entry an operation
  };

  EvalValue call(const Function& fn, const std::vector<EvalValue>& arguments) {
    if (static_cast<const char*>(__builtin_frame_address(0)) < stack_limit)
      throw Error(ErrorKind::Usage,
                  fmt::format("{}:{}: fn {} recurses too deeply for the evaluator ({} MB of stack)",
                              program.file, fn.loc.line, fn.name, kEvaluateStackBytes >> 20));
    Frame frame{fn, std::vector<EvalValue>(fn.ops.size())};
    return region(frame, fn.body, arguments);
  }

  EvalValue region(Frame& frame, const Region& r, const std::vector<EvalValue>& arguments) {
    for (size_t k = 0; k < r.params.size(); ++k)
      frame.values[static_cast<size_t>(r.params[k])] = arguments[k];
    for (const Value v : r.body)
      frame.values[static_cast<size_t>(v)] = operation(frame, frame.fn.ops[static_cast<size_t>(v)]);
    return frame.values[static_cast<size_t>(r.result)];
  }

  EvalValue operation(Frame& frame, const Op& op) {
    std::vector<EvalValue> args;
    for (const Value v : op.args) args.push_back(frame.values[static_cast<size_t>(v)]);
    if (op.code == Opcode::Call) return call(program.functions[static_cast<size_t>(op.i)], args);
    if (has_regions(op.code)) return control(frame, op, args);
    if (op.code >= Opcode::IAdd && op.code <= Opcode::Not) return EvalValue::integer(scalar(op, args));
    return structure(op, args);
  }

  EvalValue control(Frame& frame, const Op& op, const std::vector<EvalValue>& args) {
    switch (op.code) {
      case Opcode::Match:
        return region(frame, op.regions[static_cast<size_t>(args[0].constructor())], args[0].parts());
      case Opcode::MatchList: {
        const std::vector<EvalValue>& elements = args[0].parts();
        if (elements.empty()) return region(frame, op.regions[0], {});
        return region(frame, op.regions[1],
                      {elements[0], EvalValue::list({elements.begin() + 1, elements.end()})});
      }
      case Opcode::If: return region(frame, op.regions[args[0].integer() ? 0 : 1], {});
      case Opcode::Map: {
        std::vector<EvalValue> results;
        for (const EvalValue& element : args[0].parts())
          results.push_back(region(frame, op.regions[0], {element}));
        return EvalValue::list(std::move(results));
      }
      default: {  // Fold, Scan
        EvalValue acc = args[1];
        std::vector<EvalValue> all;
        for (const EvalValue& element : args[0].parts()) {
          acc = region(frame, op.regions[0], {acc, element});
          all.push_back(acc);
        }
        return op.code == Opcode::Fold ? acc : EvalValue::list(std::move(all));
      }
    }
  }

  int64_t scalar(const Op& op, const std::vector<EvalValue>& args) {
    const int64_t a = args[0].integer(), b = args.size() > 1 ? args[1].integer() : 0;
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    switch (op.code) {
      case Opcode::IAdd: return wrap(x + y);
      case Opcode::ISub: return wrap(x - y);
      case Opcode::IMul: return wrap(x * y);
      case Opcode::INeg: return wrap(0 - x);
      case Opcode::IDiv:
      case Opcode::IMod:
        if (b == 0) fault(op, "division by zero");
        if (b == -1) return op.code == Opcode::IDiv ? wrap(0 - x) : 0;  // INT64_MIN / -1 traps
        return op.code == Opcode::IDiv ? a / b : a % b;
      case Opcode::IMin: return std::min(a, b);
      case Opcode::IMax: return std::max(a, b);
      case Opcode::ILt: return a < b;
      case Opcode::ILe: return a <= b;
      case Opcode::IEq: return a == b;
      case Opcode::INe: return a != b;
      case Opcode::And: return a && b;
      case Opcode::Or: return a || b;
      default: return !a;
    }
  }

  void check_index(const Op& op, int64_t index, int64_t extent, const char* what) const {
    if (index < 0 || index >= extent)
      fault(op, fmt::format("index {} is out of range: the {} {}", index, what, extent));
  }

  EvalValue structure(const Op& op, const std::vector<EvalValue>& args) {
    switch (op.code) {
      case Opcode::Int:
      case Opcode::Bool: return EvalValue::integer(op.i);
      case Opcode::Weight: return weights[static_cast<size_t>(op.i)];
      case Opcode::Phase: return args[0];
      case Opcode::Tuple:
      case Opcode::Concurrent: return EvalValue::tuple(args);
      case Opcode::Construct: return EvalValue::adt(op.i, args);
      case Opcode::TupleGet:
      case Opcode::Field: return args[0].parts()[static_cast<size_t>(op.i)];
      case Opcode::List: return EvalValue::list(args);
      case Opcode::Len: return EvalValue::integer(static_cast<int64_t>(args[0].parts().size()));
      case Opcode::ListGet:
        check_index(op, args[1].integer(), static_cast<int64_t>(args[0].parts().size()), "list's length is");
        return args[0].parts()[static_cast<size_t>(args[1].integer())];
      case Opcode::Cons: {
        std::vector<EvalValue> result{args[0]};
        result.insert(result.end(), args[1].parts().begin(), args[1].parts().end());
        return EvalValue::list(std::move(result));
      }
      case Opcode::Append: {
        std::vector<EvalValue> result = args[0].parts();
        result.insert(result.end(), args[1].parts().begin(), args[1].parts().end());
        return EvalValue::list(std::move(result));
      }
      case Opcode::Reverse: return EvalValue::list({args[0].parts().rbegin(), args[0].parts().rend()});
      case Opcode::Range: {
        const int64_t low = args[0].integer(), high = args[1].integer();
        std::vector<EvalValue> result;
        if (low<high&& static_cast<uint64_t>(high) - static_cast<uint64_t>(low)> static_cast<uint64_t>(
                kMaxRange))
          fault(op, fmt::format("range({}, {}) is longer than {}", low, high, kMaxRange));
        for (int64_t k = low; k < high; ++k) result.push_back(EvalValue::integer(k));
        return EvalValue::list(std::move(result));
      }
      case Opcode::Zip: {
        size_t shortest = args[0].parts().size();
        for (const EvalValue& list : args) shortest = std::min(shortest, list.parts().size());
        std::vector<EvalValue> result;
        for (size_t k = 0; k < shortest; ++k) {
          std::vector<EvalValue> element;
          for (const EvalValue& list : args) element.push_back(list.parts()[k]);
          result.push_back(EvalValue::tuple(std::move(element)));
        }
        return EvalValue::list(std::move(result));
      }
      case Opcode::Row:
        check_index(op, args[1].integer(), args[0].dims()[0], "first axis has");
        [[fallthrough]];
      default: return evaluate_tensor(op, program.types[op.type], args);
    }
  }

  // What does not fit a parameter of main, or "".
  std::string misfit(const EvalValue& value, TypeId id) const {
    const Type& type = program.types[id];
    const auto kind = value.kind();
    const auto all = [&](const std::vector<TypeId>& types) -> std::string {
      if (value.parts().size() != types.size())
        return fmt::format("expected {} parts, got {}", types.size(), value.parts().size());
      for (size_t k = 0; k < types.size(); ++k)
        if (std::string p = misfit(value.parts()[k], types[k]); !p.empty()) return p;
      return {};
    };
    switch (type.kind) {
      case TypeKind::Int:
      case TypeKind::Bool:
        if (kind == EvalValue::Kind::Int) return {};
        break;
      case TypeKind::Tensor:
        if (kind == EvalValue::Kind::Tensor && value.dims() == type.dims &&
            value.values().size() == static_cast<size_t>(program.types.numel(id)))
          return {};
        break;
      case TypeKind::Tuple:
        if (kind == EvalValue::Kind::Tuple) return all(type.args);
        break;
      case TypeKind::List:
        if (kind == EvalValue::Kind::List)
          return all(std::vector<TypeId>(value.parts().size(), type.args[0]));
        break;
      case TypeKind::Adt: {
        const Adt& adt = program.types.adts[static_cast<size_t>(type.adt)];
        if (kind == EvalValue::Kind::Adt && value.constructor() >= 0 &&
            value.constructor() < static_cast<int64_t>(adt.constructors.size()))
          return all(adt.constructors[static_cast<size_t>(value.constructor())].fields);
        break;
      }
    }
    return "expected " + program.types.show(id);
  }

  void take_weights(const std::vector<WeightData>& given) {
    for (const Weight& w : program.weights) {
      const auto found =
          std::find_if(given.begin(), given.end(), [&](const WeightData& d) { return d.name == w.name; });
      if (found == given.end())
        throw Error(ErrorKind::Usage,
                    fmt::format("weight {}: {} is not given", w.name, program.types.show(w.type)));
      if (found->dims != program.types[w.type].dims ||
          found->values.size() != static_cast<size_t>(program.types.numel(w.type)))
        throw Error(ErrorKind::Usage, fmt::format("weight {}: expected {}, got f32[{}] with {} values",
                                                  w.name, program.types.show(w.type),
                                                  fmt::join(found->dims, ","), found->values.size()));
      weights.push_back(EvalValue::tensor(found->dims, found->values));
    }
  }

  EvalValue main(const std::vector<EvalValue>& arguments) {
    stack_limit = static_cast<const char*>(__builtin_frame_address(0)) -
                  (kEvaluateStackBytes - kEvaluateStackBytes / 8);
    const Function& fn = program.functions[static_cast<size_t>(program.main)];
    if (arguments.size() != fn.body.params.size())
      throw Error(ErrorKind::Usage,
                  fmt::format("main takes {} argument(s), got {}", fn.body.params.size(), arguments.size()));
    for (size_t k = 0; k < arguments.size(); ++k) {
      const std::string p = misfit(arguments[k], fn.ops[static_cast<size_t>(fn.body.params[k])].type);
      if (!p.empty()) throw Error(ErrorKind::Usage, fmt::format("argument {} of main: {}", k + 1, p));
    }
    return call(fn, arguments);
  }
};

// Runs `work` on a thread with room for deep recursion; what it throws is thrown here.
void on_deep_stack(const std::function<void()>& work) {
  struct Job {
    const std::function<void()>& work;
    std::exception_ptr error;
  } job{work, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kEvaluateStackBytes);
  pthread_t thread;
  const int status = pthread_create(
      &thread, &attributes,
      [](void* p) -> void* {
        Job& mine = *static_cast<Job*>(p);
        try {
          mine.work();
        } catch (...) {
          mine.error = std::current_exception();
        }
        return nullptr;
      },
      &job);
  pthread_attr_destroy(&attributes);
  if (status != 0)
    throw Error(ErrorKind::Unavailable,
                fmt::format("cannot start a thread with a stack of {} MB for the evaluator (error {})",
                            kEvaluateStackBytes >> 20, status));
  pthread_join(thread, nullptr);
  if (job.error) std::rethrow_exception(job.error);
}

double difference(const EvalValue& a, const EvalValue& b) {
  constexpr double kDifferent = std::numeric_limits<double>::infinity();
  if (a.kind() != b.kind() || a.integer() != b.integer() || a.dims() != b.dims() ||
      a.values().size() != b.values().size() || a.parts().size() != b.parts().size())
    return kDifferent;
  double largest = 0;
  for (size_t k = 0; k < a.values().size(); ++k) {
    const double x = a.values()[k], y = b.values()[k];
    if (std::isnan(x) != std::isnan(y)) return kDifferent;
    if (x != y && !std::isnan(x)) largest = std::max(largest, std::fabs(x - y));
  }
  for (size_t k = 0; k < a.parts().size(); ++k)
    largest = std::max(largest, difference(a.parts()[k], b.parts()[k]));
  return largest;
}

}  // namespace

EvalValue evaluate(const Program& program, const std::vector<WeightData>& weights,
                   const std::vector<EvalValue>& arguments) {
  EvalValue result;
  on_deep_stack([&] {
    Evaluator evaluator{program, {}};
    evaluator.take_weights(weights);
    result = evaluator.main(arguments);
  });
  return result;
}

double largest_difference(const EvalValue& a, const EvalValue& b) {
  double result = 0;
  on_deep_stack([&] { result = difference(a, b); });
  return result;
}

}  // namespace rondo::ir
